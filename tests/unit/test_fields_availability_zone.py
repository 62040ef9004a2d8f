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

from nova_specguard import fields
from nova_specguard.fields import availability_zone
from nova_specguard.operation import Operation
from tests.unit import base
from tests.unit import builders


def server(zone, is_pin_known=True, **values):
    return builders.current(surroundings=builders.surroundings(
        zone=zone, is_pin_known=is_pin_known), **values)


class ZoneTestCase(base.FieldTestCase):

    def assert_zone(self, drift_class, spec, current, **kwargs):
        found = self.assert_drift(
            'availability_zone', drift_class, spec, current, **kwargs)
        self.assertFalse(found.is_correctable)
        self.assertFalse(found.is_refusable)
        self.assertFalse(found.shapes_others)
        self.assertFalse(found.is_derived)
        self.assertFalse(found.is_unseen)
        return found


class NoDifferenceTest(ZoneTestCase):

    def test_no_pin(self):
        for pin in (None, ''):
            for zone in (None, 'az1'):
                self.assert_consistent(
                    builders.spec(availability_zone=pin), server(zone, False))
        self.assert_consistent(builders.spec(), server('az1'))

    def test_host_in_the_zone(self):
        self.assert_consistent(
            builders.spec(availability_zone='az1'), server('az1'))

    def test_server_without_host(self):
        # shelved
        for operation in Operation:
            self.assert_consistent(
                builders.spec(availability_zone='az1'),
                server(None, host=None), operation)

    def test_pin_to_the_default_zone_which_no_aggregate_has(self):
        self.assert_consistent(
            builders.spec(availability_zone='nova'), server(None, False))
        self.assert_consistent(
            builders.spec(availability_zone='nova'),
            server(None, False, host=None))

    def test_default_zone_of_the_cloud(self):
        self.conf.config(default_availability_zone='home')
        self.assert_consistent(
            builders.spec(availability_zone='home'), server(None, False))
        self.assert_zone(
            'zone-pin-unknown', builders.spec(availability_zone='nova'),
            server(None, False))

    def test_surroundings_that_cannot_be_read(self):
        self.assert_consistent(
            builders.spec(availability_zone='az1'), builders.current())


class DifferenceTest(ZoneTestCase):

    def test_host_in_another_zone(self):
        for operation in Operation:
            found = self.assert_zone(
                'zone-pin-violated', builders.spec(availability_zone='az1'),
                server('az2'), operation=operation)
            self.assertEqual(('az1', 'az2'),
                             (found.spec_value, found.current_value))

    def test_host_in_no_zone(self):
        found = self.assert_zone(
            'zone-pin-violated', builders.spec(availability_zone='az1'),
            server(None))
        self.assertEqual('nova', found.current_value)

    def test_pin_to_the_default_zone_restricts_nothing(self):
        self.assert_consistent(builders.spec(availability_zone='nova'),
                               server('az1', False))

    def test_pin_to_the_default_zone_where_aggregates_have_it(self):
        self.assert_zone(
            'zone-pin-violated', builders.spec(availability_zone='nova'),
            server('az1', True))

    def test_zone_that_no_aggregate_has(self):
        for current in (server(None, False), server('az2', False),
                        server(None, False, host=None)):
            self.assert_zone(
                'zone-pin-unknown', builders.spec(availability_zone='az1'),
                current)

    def test_row_with_something_else(self):
        spec = builders.stored(builders.spec())
        for value in (1, ['az1'], {'az1': 1}, True):
            spec['nova_object.data']['availability_zone'] = value
            self.assert_zone('zone-pin-violated', spec, server('az1'))

    def test_long_names_are_shortened(self):
        found = self.assert_zone(
            'zone-pin-violated',
            builders.spec(availability_zone='a' * 255), server('z' * 255))
        self.assertLess(len(found.spec_value + found.current_value), 500)


class NeedsTest(base.TestCase):

    def test_surroundings_where_there_is_a_pin(self):
        spec = builders.spec(availability_zone='az1')
        for form in (spec, builders.stored(spec)):
            self.assertEqual({'surroundings'}, availability_zone.needs(
                form, builders.current()))
            self.assertEqual(frozenset(), availability_zone.needs(
                form, server('az1')))

    def test_nothing_without_pin(self):
        for spec in (builders.spec(), builders.spec(availability_zone=None)):
            self.assertEqual(frozenset(), availability_zone.needs(
                spec, builders.current()))


class ApplyTest(base.TestCase):

    def test_a_pin_is_never_changed(self):
        spec = builders.spec(availability_zone='az1')
        before = builders.stored(spec)
        fields.apply(['availability_zone'], spec, server('az2'),
                     self.options())
        self.assertEqual(before, builders.stored(spec))
