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

"""The rows of every nova release, compared by the nova at hand.

A cloud holds rows of all the releases that it has run, and during an upgrade
those of a newer one too.
"""

import dataclasses
import json

import ddt
from nova import objects
from nova.objects import base as nova_base
import nova.version

from nova_specguard import alerts
from nova_specguard import fields
from nova_specguard.fields import numa_topology
from nova_specguard import guard
from nova_specguard.operation import Operation
from tests.unit import base
from tests.unit import rows

FROM_FLAVOR = {'flavor': 'flavor-other', 'numa_topology': 'numa-topology',
               'pci_requests': 'pci-requests'}
# In a cold migration nova itself puts the server's flavor into the spec.
EXPECTED = {
    Operation.RESIZE: {},
    Operation.MIGRATE: {
        name: found for name, found in FROM_FLAVOR.items()
        if name != 'flavor'}}


def other_flavor(current, row, as_objects):
    """The server after a resize, of which the request spec knows nothing."""
    other = rows.current(row, as_objects)
    return dataclasses.replace(
        current, flavor=other.flavor, numa_topology=other.numa_topology,
        pci_requests=other.pci_requests)


@ddt.ddt
class RowsTest(base.TestCase):

    def pairs(self, release, has_other_flavor=False):
        """Every server of a release, in every form that it is compared in.

        :param has_other_flavor: whether the server got the flavor of another
            one of the release
        :returns: iterable of (what it is, spec, CurrentInstance)
        """
        servers = rows.load(release)
        for name, row in servers.items():
            other = servers['plain' if name in ('numa', 'moved') else 'numa']
            specs = {'primitive': row['request_spec']}
            loaded = rows.loaded_spec(row)
            if loaded is not None:
                specs['object'] = loaded
            for spec_form, spec in specs.items():
                for as_objects in (True, False):
                    current = rows.current(row, as_objects)
                    if has_other_flavor:
                        current = other_flavor(current, other, as_objects)
                    what = (name, spec_form, as_objects)
                    yield what, spec, current
                    without = dataclasses.replace(current, image_meta=None)
                    if as_objects and not numa_topology.needs(spec, without):
                        # with the image switched off, it is not read then
                        yield what + ('no image', ), spec, without

    def found(self, release, operation, has_other_flavor=False):
        return {
            what: {name: difference.drift_class.name for name, difference in
                   self.differences(spec, current, operation).items()}
            for what, spec, current in self.pairs(release, has_other_flavor)}

    @ddt.data(*rows.RELEASES)
    def test_this_nova_loads_rows_of_its_own_and_of_older(self, release):
        major = int(release.partition('.')[0])
        if major > int(nova.version.version_string().partition('.')[0]):
            self.skipTest('nova itself may find these rows too new')
        for row in rows.load(release).values():
            self.assertIsInstance(rows.loaded_spec(row), objects.RequestSpec)

    @ddt.data(*rows.RELEASES)
    def test_healthy_server_is_consistent(self, release):
        for operation in Operation:
            found = self.found(release, operation)
            self.assertEqual(
                dict.fromkeys(found, {}), found, (operation, release))

    @ddt.data(*rows.RELEASES)
    def test_server_of_another_flavor_has_drifted(self, release):
        for operation in Operation:
            found = self.found(release, operation, has_other_flavor=True)
            self.assertEqual(
                dict.fromkeys(found, EXPECTED.get(operation, FROM_FLAVOR)),
                found, (operation, release))

    @ddt.data(*rows.RELEASES)
    def test_corrected_spec_is_consistent(self, release):
        servers = rows.load(release)
        corrected = False
        for name, other in (('plain', 'numa'), ('numa', 'plain'),
                            ('moved', 'plain'), ('volume', 'numa')):
            spec = rows.loaded_spec(servers[name])
            if spec is None:
                continue
            current = other_flavor(
                rows.current(servers[name], True), servers[other], True)
            fields.apply(list(FROM_FLAVOR), spec, current, self.options())
            self.assert_consistent(spec, current)
            self.assert_as_written(
                rows.loaded_spec(servers[other]).numa_topology,
                spec.numa_topology)
            # as it is sent to the scheduler and saved
            json.dumps(spec.obj_to_primitive())
            corrected = True
        if not corrected:
            self.skipTest('no request spec that this nova can load')

    def assert_as_written(self, topology, corrected):
        """As nova wrote it at a boot: what was asked for, without pins."""
        if topology is None:
            self.assertIsNone(corrected)
        else:
            self.assertTrue(
                nova_base.obj_equal_prims(topology, corrected), corrected)


class LongSpecTest(base.TestCase):
    """A request spec longer than the 64 KB of a column of type TEXT."""

    def setUp(self):
        super().setUp()
        # every nova loads the rows of the oldest release
        servers = rows.load(rows.RELEASES[0])
        self.row = servers['member']
        self.other = servers['numa']
        for flavor in (self.row['request_spec']['nova_object.data']['flavor'],
                       self.row['instance_extra']['flavor']['cur']):
            flavor['nova_object.data']['extra_specs'].update({
                'trait:CUSTOM_RACK_%04d' % number: 'forbidden'
                for number in range(1000)})
        self.row['request_spec']['nova_object.data']['scheduler_hints'][
            'different_host'] = [
                '00000000-0000-4000-8000-%012d' % number
                for number in range(1000)]
        self.assertGreater(len(json.dumps(self.row['request_spec'])), 1 << 16)
        self.specs = (self.row['request_spec'], rows.loaded_spec(self.row))

    def test_healthy_server_is_consistent(self):
        for spec in self.specs:
            self.assert_consistent(spec, rows.current(self.row, True))

    def test_one_extra_spec_of_a_thousand(self):
        self.row['instance_extra']['flavor']['cur']['nova_object.data'][
            'extra_specs']['trait:CUSTOM_RACK_0999'] = 'required'
        for spec in self.specs:
            difference = self.assert_drift(
                'flavor_extra_specs', 'flavor-extra-specs', spec,
                rows.current(self.row, True))
            self.assertEqual('trait:CUSTOM_RACK_0999=forbidden',
                             difference.spec_value)

    def test_alert_of_drift_is_one_short_line(self):
        current = other_flavor(
            rows.current(self.row, True), self.other, True)
        for spec in self.specs:
            found = fields.differences(
                spec, current, Operation.LIVE_MIGRATION, self.options())
            self.assertEqual(
                FROM_FLAVOR, {d.field: d.drift_class.name for d in found})
            alerts.Reporter('nova-conductor').drift(
                alerts.CORRECTED, 'corrected', self.context,
                guard.Finding(Operation.LIVE_MIGRATION, current, found,
                              cell='cell1'), found)
        self.assertEqual(len(self.specs), len(self.alerts.lines))
        for line in self.alerts.lines:
            # what any receiver of syslog should take (RFC 5424)
            self.assertLess(len(line), 2048)
            self.assertNotIn('\n', line)
            self.assertIn('id=1', base.parse(line)['flavor_spec'])
