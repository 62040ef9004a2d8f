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

from nova_specguard import surroundings
from tests.unit import builders
from tests.unit import test_instances

OTHER_GROUP = 'f5a6f5a2-3a86-4b7c-a9f5-5a0f4f3c9d77'


class SurroundingsTest(test_instances.InstancesTestCase):

    def setUp(self):
        super().setUp()
        self.cell.map(self.cell.mapping)

    def read(self, host='amd1', zone=None, instance_uuid=builders.UUID):
        selects = self.useFixture(test_instances.Selects())
        found = surroundings.read(self.context, instance_uuid, host, zone)
        self.assertEqual((1, 0), selects.count)
        return found

    def test_nothing_around(self):
        self.assertEqual(builders.surroundings(), self.read())

    def test_server_without_mapping(self):
        self.cell.add_to_group(builders.GROUP, builders.OTHER_UUID)
        self.cell.add_aggregate('a', 'amd1', availability_zone='az1')
        self.assertEqual(
            builders.surroundings(),
            self.read(zone='az1', instance_uuid=builders.OTHER_UUID))

    def test_group(self):
        self.cell.add_to_group(builders.GROUP)
        self.cell.add_to_group(OTHER_GROUP, builders.OTHER_UUID)
        self.assertEqual((builders.GROUP,), self.read().groups)

    def test_several_groups_in_the_order_of_membership(self):
        self.cell.add_to_group(OTHER_GROUP)
        self.cell.add_to_group(builders.GROUP)
        self.assertEqual((OTHER_GROUP, builders.GROUP), self.read().groups)

    def test_several_groups_and_a_zone(self):
        self.cell.add_to_group(OTHER_GROUP)
        self.cell.add_to_group(builders.GROUP)
        self.cell.add_aggregate('a', 'amd1', availability_zone='az1')
        self.assertEqual(
            builders.surroundings(OTHER_GROUP, builders.GROUP, zone='az1',
                                  is_pin_known=True), self.read(zone='az1'))

    def test_group_of_others(self):
        self.cell.add_to_group(builders.GROUP, builders.OTHER_UUID)
        self.assertEqual((), self.read().groups)

    def test_group_that_was_deleted(self):
        self.cell.add_to_group(builders.GROUP)
        test_instances.delete_groups(self.cell.context)
        self.assertEqual((), self.read().groups)

    def test_zone_of_the_host(self):
        self.cell.add_aggregate('a', 'amd1', 'amd2', availability_zone='az1')
        self.cell.add_aggregate('b', 'intel1', availability_zone='az2')
        self.assertEqual('az1', self.read('amd1').zone)
        self.assertEqual('az2', self.read('intel1').zone)

    def test_host_in_several_aggregates(self):
        self.cell.add_aggregate('a', 'amd1', vendor='amd')
        self.cell.add_aggregate('b', 'amd1', availability_zone='az1', a='b')
        self.cell.add_aggregate('c', 'amd1')
        self.cell.add_aggregate('d', 'amd1', availability_zone='az1')
        self.assertEqual('az1', self.read().zone)

    def test_host_without_zone(self):
        self.cell.add_aggregate('a', 'amd1', vendor='amd')
        self.cell.add_aggregate('b', 'amd2', availability_zone='az1')
        self.assertIsNone(self.read().zone)

    def test_server_without_host(self):
        self.cell.add_aggregate('a', 'amd1', availability_zone='az1')
        self.assertIsNone(self.read(None).zone)

    def test_pin_that_an_aggregate_has(self):
        self.cell.add_aggregate('a', 'intel1', availability_zone='az1')
        for host in ('amd1', None):
            self.assertTrue(self.read(host, 'az1').is_pin_known)

    def test_pin_to_an_aggregate_without_hosts(self):
        self.cell.add_aggregate('a', availability_zone='az1')
        self.assertTrue(self.read(zone='az1').is_pin_known)

    def test_pin_that_no_aggregate_has(self):
        self.cell.add_aggregate('a', 'amd1', availability_zone='az1')
        self.cell.add_aggregate('az2', 'amd1', zone='az2')
        self.assertFalse(self.read(zone='az2').is_pin_known)

    def test_no_pin(self):
        self.cell.add_aggregate('a', 'amd1', availability_zone='az1')
        self.assertFalse(self.read(zone=None).is_pin_known)
