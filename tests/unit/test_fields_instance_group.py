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

from nova_specguard.fields import instance_group
from nova_specguard.operation import Operation
from tests.unit import base
from tests.unit import builders

OTHER_GROUP = 'f5a6f5a2-3a86-4b7c-a9f5-5a0f4f3c9d77'


def spec(group=None, **values):
    return builders.spec(
        instance_group=group and builders.server_group(group), **values)


def member_of(*groups, **values):
    return builders.current(
        surroundings=builders.surroundings(*groups), **values)


class NoDifferenceTest(base.FieldTestCase):

    def test_no_group_on_either_side(self):
        self.assert_consistent(builders.spec(), member_of())
        self.assert_consistent(spec(None), member_of())

    def test_same_group(self):
        self.assert_consistent(spec(builders.GROUP),
                               member_of(builders.GROUP))

    def test_one_of_several_groups(self):
        self.assert_consistent(spec(OTHER_GROUP),
                               member_of(builders.GROUP, OTHER_GROUP))

    def test_what_else_the_spec_says_of_the_group(self):
        # nova reads it anew before it schedules.
        stored = builders.stored(spec(builders.GROUP))
        group = stored['nova_object.data']['instance_group']
        group['nova_object.data'] = {'uuid': builders.GROUP}
        group['nova_object.version'] = '9.9'
        self.assert_consistent(stored, member_of(builders.GROUP))

    def test_hint_alone_is_what_the_user_asked_for(self):
        self.assert_consistent(
            spec(None, scheduler_hints={'group': [builders.GROUP]}),
            member_of())

    def test_surroundings_that_cannot_be_read(self):
        # in a cell conductor without API database
        for group in (None, builders.GROUP):
            self.assert_consistent(spec(group), builders.current())


class MissingTest(base.FieldTestCase):

    def assert_missing(self, spec, current, **kwargs):
        return self.assert_drift(
            'instance_group', 'server-group-missing', spec, current, **kwargs)

    def test_membership_that_the_spec_has_not(self):
        for operation in Operation:
            found = self.assert_missing(
                builders.spec(), member_of(builders.GROUP),
                operation=operation)
            self.assertEqual('-', found.spec_value)
            self.assertEqual(builders.GROUP, found.current_value)

    def test_another_group(self):
        found = self.assert_missing(
            spec(OTHER_GROUP), member_of(builders.GROUP))
        self.assertEqual(OTHER_GROUP, found.spec_value)

    def test_nova_fails_where_the_spec_has_none(self):
        self.assertTrue(self.assert_missing(
            spec(None), member_of(builders.GROUP)).is_unseen)
        self.assertFalse(self.assert_missing(
            spec(OTHER_GROUP), member_of(builders.GROUP)).is_unseen)

    def test_group_that_was_read_can_be_put_in(self):
        found = self.assert_missing(spec(None), member_of(
            builders.GROUP, server_group=builders.server_group()))
        self.assertTrue(found.is_correctable)
        self.assertFalse(found.is_refusable)
        self.assertFalse(found.shapes_others)
        self.assertFalse(found.is_derived)

    def test_none_of_several_groups_can_be_chosen(self):
        found = self.assert_missing(
            spec(None), member_of(builders.GROUP, OTHER_GROUP))
        self.assertFalse(found.is_correctable)
        self.assertFalse(found.is_refusable)
        self.assertEqual(builders.GROUP + ',' + OTHER_GROUP,
                         found.current_value)

    def test_row_with_something_else(self):
        stored = builders.stored(spec(builders.GROUP))
        for value in (None, [], 'x', 1, {}, {'nova_object.data': None},
                      {'nova_object.data': {'uuid': [builders.GROUP]}},
                      {'nova_object.data': {'uuid': None}}):
            stored['nova_object.data']['instance_group'] = value
            self.assert_missing(stored, member_of(builders.GROUP))


class GoneTest(base.FieldTestCase):

    def test_group_that_the_server_is_no_member_of(self):
        for operation in Operation:
            found = self.assert_drift(
                'instance_group', 'server-group-gone', spec(builders.GROUP),
                member_of(), operation)
            self.assertEqual((builders.GROUP, '-'),
                             (found.spec_value, found.current_value))
            self.assertFalse(found.is_correctable)
            self.assertFalse(found.is_refusable)
            self.assertFalse(found.is_unseen)


class NeedsTest(base.TestCase):

    def needs(self, spec, current):
        found = instance_group.needs(spec, current)
        self.assertEqual(found, instance_group.needs(
            builders.stored(spec), current))
        return found

    def test_surroundings_always(self):
        for group in (None, builders.GROUP):
            self.assertEqual({'surroundings'},
                             self.needs(spec(group), builders.current()))

    def test_group_only_where_it_is_missing(self):
        self.assertEqual({'server_group'}, self.needs(
            spec(None), member_of(builders.GROUP)))
        self.assertEqual({'server_group'}, self.needs(
            spec(OTHER_GROUP), member_of(builders.GROUP)))
        for group, of_server in (
                (None, ()), (builders.GROUP, ()),
                (builders.GROUP, (builders.GROUP,)),
                (builders.GROUP, (OTHER_GROUP, builders.GROUP))):
            self.assertEqual(frozenset(), self.needs(
                spec(group), member_of(*of_server)))

    def test_nothing_once_it_is_read(self):
        self.assertEqual(frozenset(), self.needs(spec(None), member_of(
            builders.GROUP, server_group=builders.server_group())))


class ApplyTest(base.FieldTestCase):

    server = member_of(builders.GROUP, server_group=builders.server_group())

    def test_correct(self):
        found = spec(None, scheduler_hints={'different_host': ['a']})
        self.assert_corrected('instance_group', found, self.server,
                              'instance_group', 'scheduler_hints')
        self.assertEqual({'different_host': ['a'],
                          'group': [builders.GROUP]}, found.scheduler_hints)
        self.assertEqual('anti-affinity', found.instance_group.policy)

    def test_correct_without_hints(self):
        found = spec(None, scheduler_hints=None)
        self.assert_corrected('instance_group', found, self.server,
                              'instance_group', 'scheduler_hints')
        self.assertEqual({'group': [builders.GROUP]}, found.scheduler_hints)

    def test_another_group_is_replaced_with_its_hint(self):
        found = spec(OTHER_GROUP, scheduler_hints={'group': [OTHER_GROUP]})
        self.assert_corrected('instance_group', found, self.server,
                              'instance_group', 'scheduler_hints')
        self.assertEqual({'group': [builders.GROUP]}, found.scheduler_hints)

    def test_nova_collects_the_hosts_itself(self):
        found = spec(None)
        instance_group.apply(found, self.server, self.options())
        self.assertNotIn('hosts', found.instance_group)
