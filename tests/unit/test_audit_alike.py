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

import copy
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
    'uuid': st.sampled_from([
        fuzz.ROW['instance']['uuid'], '1b4a2a3e-4e3f-4d0b-8a44-cdc1c3e0e0c5']),
    'project_id': st.sampled_from([
        fuzz.ROW['instance']['project_id'], 'flavor']),
    'groups': st.just(()) | st.just(('a-group',)),
    'zone': st.none() | st.just('amd1')})


class AlikeTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.clean = alike.Clean()

    def server(self, spec=fuzz.SPEC, flavor=fuzz.EXTRA['flavor'],
               metadata=fuzz.ROW['system_metadata'], numa_topology=None,
               pci_requests=(), groups=(), zone=None, **instance):
        columns = dict.fromkeys(cell_rows.Row._fields)
        columns.update(fuzz.ROW['instance'], flavor=json.dumps(flavor),
                       numa_topology=json.dumps(numa_topology),
                       pci_requests=json.dumps(pci_requests),
                       image_metadata=json.dumps(metadata), **instance)
        text = spec if isinstance(spec, str) else json.dumps(spec)
        text = text.replace(
            fuzz.SPEC['nova_object.data']['instance_uuid'], columns['uuid'])
        return audit_server.Server(
            api_rows.Mapped(1, columns['uuid'], 'p', text, groups),
            cell_rows.Row(**columns), 'cell1', zone)

    def read(self, server, clean=None):
        """Read a server as the audit does.

        :returns: whether it was left out
        """
        reader = bulk.Reader(
            self.context, fuzz.FakeCell(), ({}, {'amd1'}),
            self.options())
        with mock.patch.object(bulk.Reader, '_read_server_group'):
            return not reader.read([server], clean)

    def found(self, server):
        return findings.of(server, self.options())


class CleanTest(AlikeTestCase):

    @SETTINGS
    @hypothesis.given(st.lists(ROWS, min_size=2, max_size=6))
    def test_what_is_left_out_is_clean(self, rows):
        clean = alike.Clean()
        for row in rows:
            is_left_out = self.read(self.server(**row), clean)
            server = self.server(**row)
            self.read(server)
            if self.found(server):
                self.assertFalse(is_left_out)
            else:
                clean.add(server)

    def add(self):
        server = self.server()
        self.assertFalse(self.read(server, self.clean))
        self.assertEqual([], self.found(server))
        self.clean.add(server)

    def test_others_of_the_same_kind_are_left_out(self):
        self.add()
        row = cloud.healthy(project_id='p', user_id='u')
        data = row['request_spec']['nova_object.data']
        data.update(project_id='p', user_id='u', id=7)
        row['request_spec']['nova_object.changes'] = []
        other = self.server(row['request_spec'], **row['instance'])
        self.assertTrue(self.read(other, self.clean))
        self.assertIsNone(other.spec)

    def test_owner_who_is_another(self):
        self.add()
        self.assertFalse(self.read(
            self.server(project_id='other'), self.clean))

    def test_what_only_looks_the_same(self):
        self.add()
        spec = cloud.healthy()['request_spec']
        spec['nova_object.data']['is_bfv'] = 0
        self.assertFalse(self.read(self.server(spec), self.clean))

    def test_spec_that_is_newer(self):
        self.add()
        spec = cloud.healthy()['request_spec']
        spec['nova_object.version'] = '1.999'
        self.assertFalse(self.read(self.server(spec), self.clean))

    def text(self):
        """The request spec of another server of the same kind."""
        return json.dumps(fuzz.SPEC)

    def test_text_that_is_no_json(self):
        self.add()
        text = self.text()
        for name, value in (('project_id', json.dumps(
                fuzz.ROW['instance']['project_id'])),
                ('nova_object.changes', '[]')):
            pair = '"%s": ' % name
            before, after = text.split(pair, 1)
            broken = before + pair + alike._OWN + after[len(value):]
            self.assertFalse(self.read(self.server(broken), self.clean))

    def test_changes_are_names(self):
        self.add()
        pair = '"nova_object.changes": '
        before, after = self.text().rsplit(pair, 1)
        after = after[after.index(']') + 1:]
        for changes, is_left_out in (
                ('[]', True), ('["flavor"]', True), ('["id", "flavor"]', True),
                ('["id" "flavor"]', False), ('["id",]', False)):
            server = self.server(before + pair + changes + after)
            self.assertEqual(
                is_left_out, self.read(server, self.clean), changes)

    def test_id_of_the_flavor_is_no_id_of_the_spec(self):
        self.add()
        spec = copy.deepcopy(fuzz.SPEC)
        spec['nova_object.data']['flavor']['nova_object.data']['id'] += 1
        self.assertFalse(self.read(self.server(spec), self.clean))

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
