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

from nova import objects

from nova_specguard import exception
from nova_specguard import fields
from nova_specguard.operation import Operation
from tests.unit import base
from tests.unit import builders

GUARDED = (Operation.LIVE_MIGRATION, Operation.EVACUATE, Operation.UNSHELVE,
           Operation.REBUILD, Operation.UNKNOWN)


class FlavorOtherTest(base.TestCase):

    def assert_flavor_other(self, spec, current, **options):
        return self.assert_drift(
            'flavor', 'flavor-other', spec, current, **options)

    def test_another_flavor_is_drift_in_every_guarded_operation(self):
        for operation in GUARDED:
            self.assert_drift(
                'flavor', 'flavor-other',
                builders.spec(flavor=builders.e2_medium()),
                builders.current(), operation)

    def test_resize_carries_the_flavor_that_was_asked_for(self):
        self.assert_consistent(
            builders.spec(flavor=builders.e2_medium()), builders.current(),
            Operation.RESIZE)

    def test_every_compared_attribute_makes_another_flavor(self):
        for name, other in (
                ('id', 1), ('flavorid', 'other'), ('name', 'other'),
                ('vcpus', 8), ('memory_mb', 4096), ('root_gb', 81),
                ('ephemeral_gb', 10), ('swap', 512)):
            difference = self.assert_flavor_other(
                builders.spec(flavor=builders.flavor(**{name: other})),
                builders.current())
            self.assertEqual('%s=%s' % (name, other), difference.spec_value)
            self.assertEqual('%s=%s' % (name, builders.A2_MEDIUM[name]),
                             difference.current_value)

    def test_flavor_recreated_under_its_name(self):
        # AggregateTypeAffinityFilter compares names, all else goes by id.
        difference = self.assert_flavor_other(
            builders.spec(flavor=builders.flavor(id=831, flavorid='022050')),
            builders.current())
        self.assertIn('id=831', difference.spec_value)
        self.assertNotIn('name', difference.spec_value)

    def test_both_sides_name_all_that_differs(self):
        difference = self.assert_flavor_other(
            builders.spec(flavor=builders.e2_medium()), builders.current())
        self.assertEqual('id=831 flavorid=022050 name=e2.medium root_gb=25',
                         difference.spec_value)
        self.assertEqual('id=982 flavorid=026050 name=a2.medium root_gb=80',
                         difference.current_value)

    def test_extra_specs_are_part_of_another_flavor(self):
        # One difference, not two: the whole flavor has to be replaced.
        difference = self.assert_flavor_other(
            builders.spec(flavor=builders.e2_medium(
                extra_specs={'vendor': 'intel', 'gone': '1'})),
            builders.current(flavor=builders.flavor(
                extra_specs={'vendor': 'amd', 'new': '1'})))
        self.assertIn('vendor=intel', difference.spec_value)
        self.assertIn('gone=1', difference.spec_value)
        self.assertIn('vendor=amd', difference.current_value)
        self.assertIn('new=1', difference.current_value)

    def test_ignored_extra_specs_are_not_named(self):
        difference = self.assert_flavor_other(
            builders.spec(flavor=builders.e2_medium()),
            builders.current(flavor=builders.flavor(
                extra_specs={'quota:cpu_shares': '500'})),
            ignored_extra_specs=['quota:*'])
        self.assertNotIn('quota', difference.spec_value)
        self.assertNotIn('quota', difference.current_value)

    def test_ignored_extra_specs_do_not_hide_another_flavor(self):
        self.assert_flavor_other(
            builders.spec(flavor=builders.e2_medium()), builders.current(),
            ignored_extra_specs=['*'])

    def test_request_spec_without_flavor(self):
        for missing in (None, {}, {'nova_object.data': {}}):
            spec = builders.stored(builders.spec())
            spec['nova_object.data']['flavor'] = missing
            difference = self.assert_flavor_other(spec, builders.current())
            self.assertIn('id=982', difference.current_value)
        del spec['nova_object.data']['flavor']
        self.assert_flavor_other(spec, builders.current())

    def test_long_values_are_shortened(self):
        difference = self.assert_flavor_other(
            builders.spec(flavor=builders.e2_medium(
                name='n' * 255, extra_specs={
                    'key%d' % i: 'v' * 255 for i in range(100)})),
            builders.current())
        self.assertIn('id=831', difference.spec_value)
        self.assertLess(len(difference.spec_value), 1000)

    def test_server_without_flavor_cannot_be_compared(self):
        for missing in (None, {}, [], 'e2.medium', {'name': 'e2.medium'},
                        objects.Flavor(name='e2.medium')):
            self.assertRaises(
                exception.FlavorMissing, fields.differences, builders.spec(),
                builders.current(flavor=missing), Operation.LIVE_MIGRATION,
                self.options())


class NoDifferenceTest(base.TestCase):
    """What atlas B.3 says about the two copies of one flavor."""

    def test_equal_flavors(self):
        self.assert_consistent(builders.spec(), builders.current())

    def test_description_which_the_instance_row_blanks(self):
        for description in (None, 'for some'):
            self.assert_consistent(
                builders.spec(flavor=builders.flavor(description='for all')),
                builders.current(flavor=builders.flavor(
                    description=description)))

    def test_time_stamps_and_deleted(self):
        spec = builders.stored(builders.spec())
        current = builders.stored(builders.flavor())
        spec['nova_object.data']['flavor']['nova_object.data'].update(
            created_at='2022-08-03T11:11:49Z', updated_at=None,
            deleted_at=None, deleted=False)
        current['nova_object.data'].update(
            created_at='2023-03-29T15:06:03Z',
            updated_at='2023-03-30T15:06:03Z',
            deleted_at='2024-03-30T15:06:03Z', deleted=True)
        self.assert_consistent(spec, builders.current(flavor=current))

    def test_projects_with_access_and_change_marks(self):
        spec = builders.stored(builders.spec())
        flavor = spec['nova_object.data']['flavor']
        flavor['nova_object.data']['projects'] = ['a', 'b']
        flavor['nova_object.changes'] = ['extra_specs', 'projects']
        self.assert_consistent(spec, builders.current())

    def test_attributes_that_very_old_rows_lack(self):
        self.assert_consistent(
            builders.spec(flavor=builders.flavor(
                disabled=False, is_public=True)),
            builders.current())

    def test_attributes_that_no_scheduling_reads(self):
        self.assert_consistent(
            builders.spec(flavor=builders.flavor(
                rxtx_factor=1.0, vcpu_weight=0, disabled=False,
                is_public=True)),
            builders.current(flavor=builders.flavor(
                rxtx_factor=2.0, vcpu_weight=None, disabled=True,
                is_public=False)))

    def test_version_of_the_object(self):
        spec = builders.stored(builders.spec())
        spec['nova_object.data']['flavor']['nova_object.version'] = '9.9'
        self.assert_consistent(spec, builders.current())


class ApplyTest(base.TestCase):

    def test_another_flavor_is_replaced_with_its_extra_specs(self):
        spec = builders.spec(flavor=builders.e2_medium(
            extra_specs={'vendor': 'intel'}))
        current = builders.current(flavor=builders.flavor(
            extra_specs={'vendor': 'amd'}))
        fields.apply(['flavor'], spec, current, self.options())
        self.assertEqual(982, spec.flavor.id)
        self.assertEqual({'vendor': 'amd'}, spec.flavor.extra_specs)
        self.assert_consistent(spec, current)

    def test_missing_flavor_is_put_in(self):
        spec = objects.RequestSpec()
        current = builders.current()
        fields.apply(['flavor'], spec, current, self.options())
        self.assertEqual(982, spec.flavor.id)

    def test_nothing_else_of_the_request_changes(self):
        spec = builders.spec(flavor=builders.e2_medium())
        before = builders.stored(spec)
        fields.apply(['flavor'], spec, builders.current(), self.options())
        after = builders.stored(spec)
        for stored in (before, after):
            del stored['nova_object.data']['flavor']
        self.assertEqual(before, after)

    def test_only_named_fields_are_put_right(self):
        spec = builders.spec(flavor=builders.e2_medium())
        fields.apply(['pci_requests', 'numa_topology'], spec,
                     builders.current(), self.options())
        self.assertEqual(831, spec.flavor.id)

    def test_scheduler_can_be_sent_the_corrected_request(self):
        spec = builders.spec(flavor=builders.e2_medium())
        fields.apply(['flavor'], spec, builders.current(), self.options())
        received = objects.RequestSpec.obj_from_primitive(
            builders.stored(spec))
        self.assertEqual('a2.medium', received.flavor.name)


class ReportedCaseTest(base.TestCase):
    """The rows of the public report, as the databases held them."""

    def setUp(self):
        super().setUp()
        self.row = builders.load('request_spec.json')
        self.current = builders.current(
            flavor=builders.load('instance_extra_flavor.json')['cur'],
            pci_requests=[])

    def assert_reported(self, spec, current):
        difference = self.assert_drift('flavor', 'flavor-other', spec, current)
        self.assertEqual(
            {'id=831', 'flavorid=022050', 'name=e2.medium', 'root_gb=25',
             'os:secure_boot=-'}, set(difference.spec_value.split()))
        self.assertEqual(
            {'id=982', 'flavorid=026050', 'name=a2.medium', 'root_gb=80',
             'os:secure_boot=disabled'},
            set(difference.current_value.split()))
        self.assertTrue(difference.is_correctable)

    def test_stored_rows(self):
        self.assert_reported(self.row, self.current)

    def test_hydrated_rows(self):
        self.assert_reported(
            objects.RequestSpec.obj_from_primitive(self.row),
            builders.current(flavor=objects.Flavor.obj_from_primitive(
                self.current.flavor)))

    def test_only_the_flavor_needs_to_be_put_right(self):
        spec = objects.RequestSpec.obj_from_primitive(self.row)
        current = builders.current(
            flavor=objects.Flavor.obj_from_primitive(self.current.flavor))
        fields.apply(['flavor'], spec, current, self.options())
        self.assert_consistent(spec, current)
        self.assertEqual('disabled', spec.flavor.extra_specs['os:secure_boot'])

    def test_stored_flavor_of_the_failed_resize_is_not_the_server_s(self):
        # ``new`` is what the failed resize left there.
        new = builders.load('instance_extra_flavor.json')['new']
        self.assertEqual(831, new['nova_object.data']['id'])
        self.assert_consistent(
            self.row, builders.current(flavor=new, pci_requests=[]))
