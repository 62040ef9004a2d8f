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

from nova_specguard import fields
from nova_specguard.operation import Operation
from tests.unit import base
from tests.unit import builders


def with_extra_specs(**extra_specs):
    """Keys are written with ``__`` for the colon."""
    return builders.flavor(extra_specs={
        key.replace('__', ':'): value for key, value in extra_specs.items()})


class DifferenceTest(base.TestCase):

    def assert_extra_specs(self, spec_flavor, current_flavor, **options):
        return self.assert_drift(
            'flavor_extra_specs', 'flavor-extra-specs',
            builders.spec(flavor=spec_flavor),
            builders.current(flavor=current_flavor), **options)

    def test_another_value(self):
        difference = self.assert_extra_specs(
            with_extra_specs(vendor='intel', same='1'),
            with_extra_specs(vendor='amd', same='1'))
        self.assertEqual('vendor=intel', difference.spec_value)
        self.assertEqual('vendor=amd', difference.current_value)
        self.assertTrue(difference.is_correctable)

    def test_missing_in_the_request_spec(self):
        difference = self.assert_extra_specs(
            with_extra_specs(), with_extra_specs(os__secure_boot='required'))
        self.assertEqual('os:secure_boot=-', difference.spec_value)
        self.assertEqual('os:secure_boot=required', difference.current_value)

    def test_missing_on_the_server(self):
        difference = self.assert_extra_specs(
            with_extra_specs(os__secure_boot='required'), with_extra_specs())
        self.assertEqual('os:secure_boot=required', difference.spec_value)
        self.assertEqual('os:secure_boot=-', difference.current_value)

    def test_empty_value_differs_from_none(self):
        self.assert_extra_specs(with_extra_specs(trait=''), with_extra_specs())

    def test_case_matters(self):
        self.assert_extra_specs(
            with_extra_specs(vendor='AMD'), with_extra_specs(vendor='amd'))

    def test_every_guarded_operation(self):
        for operation in (
                Operation.LIVE_MIGRATION, Operation.EVACUATE,
                Operation.UNSHELVE, Operation.REBUILD, Operation.UNKNOWN):
            self.assert_drift(
                'flavor_extra_specs', 'flavor-extra-specs',
                builders.spec(flavor=with_extra_specs(vendor='intel')),
                builders.current(flavor=with_extra_specs(vendor='amd')),
                operation)

    def test_resize_carries_those_that_were_asked_for(self):
        self.assert_consistent(
            builders.spec(flavor=with_extra_specs(vendor='intel')),
            builders.current(flavor=with_extra_specs(vendor='amd')),
            Operation.RESIZE)

    def test_order_of_keys_is_no_difference(self):
        self.assert_consistent(
            builders.spec(flavor=with_extra_specs(a='1', b='2')),
            builders.current(flavor=with_extra_specs(b='2', a='1')))

    def test_none_on_both_sides_is_no_difference(self):
        spec = builders.stored(builders.spec(flavor=with_extra_specs()))
        del (spec['nova_object.data']['flavor']['nova_object.data']
             ['extra_specs'])
        self.assert_consistent(
            spec, builders.current(flavor=with_extra_specs()))

    def test_another_flavor_is_not_reported_here_too(self):
        found = self.differences(
            builders.spec(flavor=builders.e2_medium(
                extra_specs={'vendor': 'intel'})),
            builders.current(flavor=with_extra_specs(vendor='amd')))
        self.assertEqual(['flavor'], list(found))


class IgnoredTest(base.TestCase):
    """``[specguard] ignored_extra_specs``"""

    spec_flavor = with_extra_specs(
        quota__cpu_shares='400', hw__cpu_policy='shared', vendor='amd')
    current_flavor = with_extra_specs(
        quota__cpu_shares='500', quota__disk='9', hw__cpu_policy='shared',
        vendor='amd')

    def found(self, *patterns):
        return self.differences(
            builders.spec(flavor=self.spec_flavor),
            builders.current(flavor=self.current_flavor),
            ignored_extra_specs=list(patterns))

    def test_without_a_pattern_both_differ(self):
        difference = self.found()['flavor_extra_specs']
        self.assertEqual('quota:cpu_shares=400 quota:disk=-',
                         difference.spec_value)

    def test_pattern_ignores_whole_keys(self):
        self.assertEqual({}, self.found('quota:*'))
        self.assertNotEqual({}, self.found('quota:'))
        self.assertNotEqual({}, self.found('quota'))

    def test_any_of_several_patterns(self):
        self.assertEqual({}, self.found('quota:disk', 'nothing', '*_shares'))

    def test_what_no_pattern_matches_still_differs(self):
        difference = self.found('quota:d*')['flavor_extra_specs']
        self.assertEqual('quota:cpu_shares=400', difference.spec_value)

    def test_question_mark_and_brackets(self):
        self.assertEqual({}, self.found('quota:[cd]*'))
        self.assertEqual({}, self.found('quota:dis?', 'quota:cpu?shares'))

    def test_case_matters(self):
        self.assertNotEqual({}, self.found('QUOTA:*'))

    def test_everything(self):
        self.assertEqual({}, self.found('*'))

    def test_broken_pattern_matches_nothing_and_raises_nothing(self):
        for pattern in ('', '[', 'quota:[', '[!]', '(?P<'):
            self.assertNotEqual({}, self.found(pattern), pattern)


class ApplyTest(base.TestCase):

    def test_extra_specs_become_the_server_s(self):
        spec = builders.spec(flavor=with_extra_specs(vendor='intel', old='1'))
        current = builders.current(
            flavor=with_extra_specs(vendor='amd', new='1'))
        fields.apply(['flavor_extra_specs'], spec, current, self.options())
        self.assertEqual({'vendor': 'amd', 'new': '1'},
                         spec.flavor.extra_specs)
        self.assert_consistent(spec, current)

    def test_ignored_ones_stay_as_they_are(self):
        spec = builders.spec(flavor=with_extra_specs(
            vendor='intel', my__shelf='4', my__row='2'))
        current = builders.current(flavor=with_extra_specs(
            vendor='amd', my__shelf='5', my__room='7'))
        fields.apply(['flavor_extra_specs'], spec, current,
                     self.options(ignored_extra_specs=['my:*']))
        self.assertEqual(
            {'vendor': 'amd', 'my:shelf': '4', 'my:row': '2'},
            spec.flavor.extra_specs)

    def test_rest_of_the_flavor_stays_as_it_is(self):
        spec = builders.spec(flavor=builders.flavor(
            description='for all', extra_specs={'vendor': 'intel'}))
        fields.apply(
            ['flavor_extra_specs'], spec,
            builders.current(flavor=with_extra_specs(vendor='amd')),
            self.options())
        self.assertEqual('for all', spec.flavor.description)

    def test_flavor_object_of_somebody_else_is_not_changed(self):
        # nova-conductor passes one flavor object around.
        flavor = with_extra_specs(vendor='intel')
        current = builders.current(flavor=with_extra_specs(vendor='amd'))
        spec = builders.spec(flavor=flavor)
        fields.apply(['flavor_extra_specs'], spec, current, self.options())
        self.assertEqual({'vendor': 'intel'}, flavor.extra_specs)
        self.assertEqual({'vendor': 'amd'}, current.flavor.extra_specs)

    def test_corrected_request_can_be_changed_without_the_server(self):
        current = builders.current(flavor=with_extra_specs(vendor='amd'))
        spec = builders.spec(flavor=with_extra_specs(vendor='intel'))
        fields.apply(['flavor_extra_specs'], spec, current, self.options())
        spec.flavor.extra_specs['vendor'] = 'intel'
        self.assertEqual({'vendor': 'amd'}, current.flavor.extra_specs)

    def test_scheduler_can_be_sent_the_corrected_request(self):
        spec = builders.spec(flavor=with_extra_specs(vendor='intel'))
        fields.apply(
            ['flavor_extra_specs'], spec,
            builders.current(flavor=with_extra_specs(vendor='amd')),
            self.options())
        received = objects.RequestSpec.obj_from_primitive(
            builders.stored(spec))
        self.assertEqual({'vendor': 'amd'}, received.flavor.extra_specs)
