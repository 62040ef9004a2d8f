#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""A server that is like a clean one is clean, and nothing else is."""

import json
from unittest import mock

import hypothesis
from hypothesis import strategies as st

from nova_specguard.audit import alike
from nova_specguard.audit import api_rows
from nova_specguard.audit import bulk
from nova_specguard.audit import cell_rows
from nova_specguard.audit import findings
from nova_specguard.audit import server as audit_server
from nova_specguard import fields
from tests.unit import base
from tests.unit import cloud
from tests.unit import test_audit_fuzz as fuzz

SETTINGS = hypothesis.settings(
    max_examples=200, deadline=None, database=None, derandomize=True)
# What is easily taken for something else.
VALUES = st.sampled_from([
    None, False, True, 0, 1, 1.0, '1', '', [], {}, [1], {'1': 1},
    float('nan'), 'amd1'])


def changed(value):
    """The same, or with something else in one place."""
    return st.just(value) | st.tuples(
        st.sampled_from(list(fuzz.paths(value))), VALUES).map(
            lambda pair: fuzz.replaced(value, *pair))


ROWS = st.fixed_dictionaries({
    'spec': changed(fuzz.SPEC),
    'flavor': changed(fuzz.EXTRA['flavor']),
    'metadata': changed(fuzz.ROW['system_metadata']),
    'numa_topology': st.none() | VALUES,
    'pci_requests': st.just([]) | VALUES,
    'image_ref': st.just(fuzz.ROW['instance']['image_ref']) | st.just(''),
    'vm_state': st.sampled_from(['active', 'resized']),
    'host': st.none() | st.just('amd1'),
    'groups': st.just(()) | st.just(('a-group',)),
    'zone': st.none() | st.just('amd1')})


class AlikeTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.clean = alike.Clean(self.options())

    def server(self, spec=fuzz.SPEC, flavor=fuzz.EXTRA['flavor'],
               metadata=fuzz.ROW['system_metadata'], numa_topology=None,
               pci_requests=(), groups=(), **instance):
        columns = dict.fromkeys(cell_rows.Row._fields)
        columns.update(fuzz.ROW['instance'], flavor=json.dumps(flavor),
                       numa_topology=json.dumps(numa_topology),
                       pci_requests=json.dumps(pci_requests), **instance)
        return audit_server.Server(
            api_rows.Mapped(1, columns['uuid'], 'p', json.dumps(spec),
                            groups),
            cell_rows.Row(**columns), 'cell1', json.dumps(metadata))

    def read(self, server, zone=None, clean=None):
        """Read a server as the audit does.

        :returns: whether it was left out
        """
        reader = bulk.Reader(
            self.context, fuzz.FakeCell(), ({'amd1': zone}, {zone}),
            self.options())
        with mock.patch.object(bulk.Reader, '_read_server_group'):
            return not reader.read([server], clean)

    def found(self, server):
        return findings.of(server, self.options())


class CleanTest(AlikeTestCase):

    @SETTINGS
    @hypothesis.given(ROWS)
    def test_all_that_fields_read_is_compared(self, row):
        zone = row.pop('zone')
        server = self.server(**row)
        self.read(server, zone)
        if server.current is not None and fields.flavor.is_readable(
                server.current.flavor):
            self.assertEqual(*(
                fields.differences(spec, server.current, findings.OPERATION,
                                   self.options())
                for spec in (server.spec, server.compared)))

    @SETTINGS
    @hypothesis.given(st.lists(ROWS, min_size=2, max_size=6))
    def test_what_is_left_out_is_clean(self, rows):
        clean = alike.Clean(self.options())
        for row in rows:
            zone = row.pop('zone')
            is_left_out = self.read(self.server(**row), zone, clean)
            server = self.server(**row)
            self.read(server, zone)
            if self.found(server):
                self.assertFalse(is_left_out)
            else:
                clean.add(server)

    def add(self):
        server = self.server()
        self.assertFalse(self.read(server, clean=self.clean))
        self.assertEqual([], self.found(server))
        self.clean.add(server)

    def test_others_of_the_same_kind_are_left_out(self):
        self.add()
        row = cloud.healthy(project_id='p', user_id='u')
        data = row['request_spec']['nova_object.data']
        data.update(project_id='p', user_id='u', id=7,
                    instance_uuid=row['instance']['uuid'])
        row['request_spec']['nova_object.changes'] = []
        other = self.server(row['request_spec'], **row['instance'])
        self.assertTrue(self.read(other, clean=self.clean))
        # what was parsed is not kept
        self.assertIsNone(other.spec)

    def test_owner_who_is_another(self):
        self.add()
        self.assertFalse(self.read(
            self.server(project_id='other'), clean=self.clean))

    def test_what_only_looks_the_same(self):
        self.add()
        spec = cloud.healthy()['request_spec']
        spec['nova_object.data']['is_bfv'] = 0
        self.assertFalse(self.read(self.server(spec), clean=self.clean))

    def test_spec_that_is_newer(self):
        self.add()
        spec = cloud.healthy()['request_spec']
        spec['nova_object.version'] = '1.999'
        self.assertFalse(self.read(self.server(spec), clean=self.clean))

    def test_what_was_read_for_one_server_proves_nothing(self):
        spec = cloud.healthy()['request_spec']
        spec['nova_object.data']['is_bfv'] = True
        server = self.server(spec)
        self.read(server)
        self.assertIsNotNone(server.current.is_volume_backed)
        self.clean.add(server)
        self.assertFalse(self.clean.has(server))

    def test_it_does_not_grow(self):
        with mock.patch.object(alike, '_MAX', 3):
            for number in range(10):
                server = self.server(vcpus=number)
                self.read(server)
                self.clean.add(server)
                self.assertTrue(self.clean.has(server))
                self.assertLessEqual(len(self.clean._seen), 3)
