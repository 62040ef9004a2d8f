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

from nova.scheduler import utils as scheduler_utils

from nova_specguard.fields import scheduler_hints
from nova_specguard.operation import Operation
from tests.unit import base
from tests.unit import builders

HINT = {'_nova_check_type': ['rebuild']}
OF_THE_USER = {'group': [builders.GROUP], 'different_host': ['a', 'b'],
               'my_hint': ['1']}


class SchedulerHintsTest(base.FieldTestCase):

    def poisoned(self, **values):
        """As a rebuild of a server without ``is_bfv`` left the row."""
        return builders.spec(**{
            'scheduler_hints': {**OF_THE_USER, **HINT},
            'force_hosts': ['amd1'], 'force_nodes': ['amd1.local'], **values})

    def assert_rebuild_hint(self, spec, **kwargs):
        return self.assert_drift('scheduler_hints', 'rebuild-hint', spec,
                                 builders.current(), **kwargs)

    def test_hint_that_a_rebuild_left_behind(self):
        found = self.assert_rebuild_hint(self.poisoned())
        self.assertEqual('_nova_check_type=rebuild force_hosts=amd1',
                         found.spec_value)
        self.assertEqual('_nova_check_type=- force_hosts=-',
                         found.current_value)
        self.assertEqual('critical', found.drift_class.severity)

    def test_hint_without_forced_host(self):
        # nova-conductor clears it in most moves.
        found = self.assert_rebuild_hint(self.poisoned(
            force_hosts=None, force_nodes=None))
        self.assertIn('force_hosts=-', found.spec_value)

    def test_every_operation_but_rebuild(self):
        for operation in Operation:
            if operation != Operation.REBUILD:
                self.assert_rebuild_hint(self.poisoned(),
                                         operation=operation)

    def test_rebuild_has_a_right_one(self):
        self.assert_consistent(self.poisoned(), builders.current(),
                               Operation.REBUILD)

    def test_hint_that_nova_does_not_know(self):
        for value in ([], ['evacuate'], ['rebuild', 'rebuild']):
            self.assert_rebuild_hint(self.poisoned(
                scheduler_hints={'_nova_check_type': value}))

    def test_hints_of_the_user(self):
        for hints in (None, {}, OF_THE_USER):
            self.assert_consistent(
                builders.spec(scheduler_hints=hints), builders.current())

    def test_forced_host_alone_is_history(self):
        self.assert_consistent(
            builders.spec(force_hosts=['amd1']), builders.current())

    def test_row_without_hints_or_with_something_else(self):
        spec = builders.stored(builders.spec())
        for value in (None, [], '_nova_check_type', 1, ['_nova_check_type']):
            spec['nova_object.data']['scheduler_hints'] = value
            self.assert_consistent(spec, builders.current())
        del spec['nova_object.data']['scheduler_hints']
        self.assert_consistent(spec, builders.current())

    def test_row_whose_hint_is_no_list(self):
        spec = builders.stored(builders.spec())
        for value in (None, 'rebuild', 1, {'rebuild': 1}, [None, {}]):
            spec['nova_object.data'].update(
                scheduler_hints={'_nova_check_type': value}, force_hosts=1)
            self.assert_rebuild_hint(spec)

    def test_what_may_be_done_about_it(self):
        found = self.assert_rebuild_hint(self.poisoned())
        self.assertTrue(found.is_correctable)
        self.assertTrue(found.is_refusable)
        self.assertFalse(found.shapes_others)
        self.assertFalse(found.is_derived)
        self.assertFalse(found.is_unseen)

    def test_nothing_more_is_read(self):
        self.assertEqual(frozenset(), scheduler_hints.needs(
            self.poisoned(), builders.current()))

    def test_correct(self):
        spec = self.poisoned()
        self.assert_corrected(
            'scheduler_hints', spec, builders.current(),
            'scheduler_hints', 'force_hosts', 'force_nodes')
        self.assertEqual(OF_THE_USER, spec.scheduler_hints)
        self.assertIsNone(spec.force_hosts)
        self.assertIsNone(spec.force_nodes)

    def test_corrected_request_is_no_rebuild_to_nova(self):
        spec = self.poisoned()
        self.assertTrue(scheduler_utils.request_is_rebuild(spec))
        scheduler_hints.apply(spec, builders.current(), self.options())
        self.assertFalse(scheduler_utils.request_is_rebuild(spec))
