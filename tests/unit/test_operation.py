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

from unittest import mock

from nova.compute import task_states
from nova import objects

from nova_specguard import operation
from nova_specguard.operation import Operation
from tests.unit import base
from tests.unit import builders

HINT = {'_nova_check_type': ['rebuild']}
TASK_STATES = [None] + sorted(
    value for name, value in vars(task_states).items()
    if name.isupper() and isinstance(value, str))
OF_MOVES = {
    task_states.MIGRATING: Operation.LIVE_MIGRATION,
    task_states.REBUILDING: Operation.EVACUATE,
    task_states.UNSHELVING: Operation.UNSHELVE,
}


def marked_destination(**values):
    """As nova-api makes it for a resize or a cold migration, and no other."""
    return builders.destination(allow_cross_cell_move=False, **values)


class OperationTestCase(base.TestCase):

    def from_request(self, spec, task_state, **values):
        """As the request filter asks, before the host manager."""
        return operation.from_request(
            spec, builders.current(task_state=task_state, **values),
            operation.is_marked_as_resize(spec))

    def from_request_too_late_for_the_mark(self, spec, task_state):
        """As the host filter asks, after the host manager."""
        return operation.from_request(
            spec, builders.current(task_state=task_state))


class NamesTest(base.TestCase):

    def test_operations_are_spelled_as_instance_actions(self):
        self.assertEqual(
            {'live-migration', 'migrate', 'resize', 'evacuate', 'unshelve',
             'rebuild', 'unknown'},
            {str(found) for found in Operation})

    def test_operation_equals_its_name(self):
        self.assertEqual('live-migration', Operation.LIVE_MIGRATION)


class BootTest(base.TestCase):
    """Known from the request alone: a boot costs no read."""

    def test_request_without_destination(self):
        self.assertTrue(operation.is_boot(
            builders.spec(requested_destination=None)))

    def test_request_whose_destination_was_never_set(self):
        self.assertTrue(operation.is_boot(objects.RequestSpec()))

    def test_multi_create(self):
        self.assertTrue(operation.is_boot(
            builders.spec(requested_destination=None, num_instances=3)))

    def test_boot_on_a_host_that_was_asked_for(self):
        self.assertTrue(operation.is_boot(builders.spec(
            requested_destination=objects.Destination(host='amd1', node='n'))))

    def test_boot_in_aggregates(self):
        # nova-api and request filters add these to the destination of a boot.
        self.assertTrue(operation.is_boot(builders.spec(
            requested_destination=objects.Destination(aggregates=['a']))))

    def test_move_is_none(self):
        self.assertFalse(operation.is_boot(builders.spec()))

    def test_move_to_a_host_is_none(self):
        self.assertFalse(operation.is_boot(builders.spec(
            requested_destination=builders.destination(host='amd1'))))

    def test_cross_cell_resize_to_a_host_is_none(self):
        # nova-conductor lifts the restriction by setting the cell to None.
        self.assertFalse(operation.is_boot(builders.spec(
            requested_destination=objects.Destination(
                host='amd1', cell=None, allow_cross_cell_move=True))))

    def test_nothing_is_read(self):
        with mock.patch.object(
                objects.InstanceMapping, 'get_by_instance_uuid',
                side_effect=AssertionError), mock.patch.object(
                objects.RequestSpec, 'obj_load_attr',
                side_effect=AssertionError):
            operation.is_boot(objects.RequestSpec())


class ResizeMarkTest(base.TestCase):

    def test_attribute_that_is_set_marks_a_resize(self):
        for value in (True, False):
            self.assertTrue(operation.is_marked_as_resize(builders.spec(
                requested_destination=builders.destination(
                    allow_cross_cell_move=value))))

    def test_unset_attribute_does_not(self):
        self.assertFalse(operation.is_marked_as_resize(builders.spec()))

    def test_no_destination_does_not(self):
        for spec in (builders.spec(requested_destination=None),
                     objects.RequestSpec()):
            self.assertFalse(operation.is_marked_as_resize(spec))

    def test_asking_does_not_set_it(self):
        # nova's host manager reads the attribute and thereby sets it.
        spec = builders.spec()
        operation.is_marked_as_resize(spec)
        self.assertNotIn('allow_cross_cell_move', spec.requested_destination)


class TableTest(OperationTestCase):
    """Every operation as captured at the scheduler (atlas B.1)."""

    def test_resize(self):
        self.assertEqual(Operation.RESIZE, self.from_request(
            builders.spec(flavor=builders.e2_medium(),
                          requested_destination=marked_destination(),
                          ignore_hosts=['amd1']),
            task_states.RESIZE_PREP))

    def test_resize_to_the_same_host_allowed(self):
        self.assertEqual(Operation.RESIZE, self.from_request(
            builders.spec(flavor=builders.e2_medium(),
                          requested_destination=marked_destination(),
                          ignore_hosts=[]),
            task_states.RESIZE_PREP))

    def test_cross_cell_resize(self):
        self.assertEqual(Operation.RESIZE, self.from_request(
            builders.spec(
                flavor=builders.e2_medium(),
                requested_destination=builders.destination(
                    allow_cross_cell_move=True)),
            task_states.RESIZE_PREP))

    def test_cross_cell_resize_to_a_host(self):
        self.assertEqual(Operation.RESIZE, self.from_request(
            builders.spec(
                flavor=builders.e2_medium(),
                requested_destination=objects.Destination(
                    host='amd2', cell=None, allow_cross_cell_move=True)),
            task_states.RESIZE_PREP))

    def test_cold_migration(self):
        self.assertEqual(Operation.MIGRATE, self.from_request(
            builders.spec(requested_destination=marked_destination(),
                          ignore_hosts=['amd1']),
            task_states.RESIZE_PREP))

    def test_cold_migration_to_a_host(self):
        self.assertEqual(Operation.MIGRATE, self.from_request(
            builders.spec(requested_destination=marked_destination(
                host='amd2', node='amd2')),
            task_states.RESIZE_PREP))

    def test_live_migration(self):
        self.assertEqual(Operation.LIVE_MIGRATION, self.from_request(
            builders.spec(ignore_hosts=['amd1']), task_states.MIGRATING))

    def test_live_migration_to_a_host(self):
        self.assertEqual(Operation.LIVE_MIGRATION, self.from_request(
            builders.spec(
                ignore_hosts=['amd1'],
                requested_destination=builders.destination(
                    host='amd2', node='amd2')),
            task_states.MIGRATING))

    def test_evacuation(self):
        self.assertEqual(Operation.EVACUATE, self.from_request(
            builders.spec(ignore_hosts=['amd1']), task_states.REBUILDING))

    def test_evacuation_to_a_host(self):
        self.assertEqual(Operation.EVACUATE, self.from_request(
            builders.spec(
                ignore_hosts=['amd1'],
                requested_destination=builders.destination(
                    host='amd2', node='amd2')),
            task_states.REBUILDING))

    def test_rebuild_to_a_new_image(self):
        self.assertEqual(Operation.REBUILD, self.from_request(
            builders.spec(scheduler_hints=HINT, force_hosts=['amd1'],
                          force_nodes=['amd1']),
            task_states.REBUILDING))

    def test_unshelve(self):
        self.assertEqual(Operation.UNSHELVE, self.from_request(
            builders.spec(), task_states.UNSHELVING))

    def test_unshelve_to_a_zone_or_host(self):
        self.assertEqual(Operation.UNSHELVE, self.from_request(
            builders.spec(
                availability_zone='east',
                requested_destination=builders.destination(host='amd1')),
            task_states.UNSHELVING))

    def test_host_filter_tells_the_moves_without_the_mark(self):
        for task_state, expected in OF_MOVES.items():
            self.assertEqual(
                expected, self.from_request_too_late_for_the_mark(
                    builders.spec(), task_state))

    def test_host_filter_tells_a_rebuild(self):
        self.assertEqual(
            Operation.REBUILD, self.from_request_too_late_for_the_mark(
                builders.spec(scheduler_hints=HINT, force_hosts=['amd1']),
                task_states.REBUILDING))


class TrapsTest(OperationTestCase):
    """Signals that lie (atlas B.2)."""

    def test_resize_prep_without_time_for_the_mark(self):
        for flavor, expected in (
                (builders.e2_medium(), Operation.RESIZE),
                (builders.flavor(), Operation.MIGRATE)):
            self.assertEqual(
                expected, self.from_request_too_late_for_the_mark(
                    builders.spec(flavor=flavor), task_states.RESIZE_PREP))

    def test_resize_prep_without_mark_is_no_resize(self):
        # A lagging node shows the resize before, while another move runs: the
        # flavor of the request is not one that was asked for.
        self.assertEqual(Operation.UNKNOWN, self.from_request(
            builders.spec(flavor=builders.e2_medium()),
            task_states.RESIZE_PREP))

    def test_cleared_task_state_of_a_resize(self):
        # A restart of the source or reset-state clears it on the way.
        self.assertEqual(Operation.RESIZE, self.from_request(
            builders.spec(flavor=builders.e2_medium(),
                          requested_destination=marked_destination()), None))

    def test_cleared_task_state_of_another_move(self):
        self.assertEqual(Operation.UNKNOWN, self.from_request(
            builders.spec(flavor=builders.e2_medium(),
                          ignore_hosts=['amd1']), None))

    def test_mark_overrules_every_task_state_of_a_lagging_node(self):
        for task_state in TASK_STATES:
            for flavor, expected in (
                    (builders.e2_medium(), Operation.RESIZE),
                    (builders.flavor(), Operation.MIGRATE)):
                self.assertEqual(expected, self.from_request(
                    builders.spec(
                        flavor=flavor,
                        requested_destination=marked_destination()),
                    task_state), task_state)

    def test_every_other_task_state_is_unknown(self):
        # DELETING can arrive in the middle of any move.
        for task_state in TASK_STATES:
            if task_state in OF_MOVES:
                continue
            self.assertEqual(Operation.UNKNOWN, self.from_request(
                builders.spec(), task_state), task_state)

    def test_left_over_rebuild_hint_is_not_believed(self):
        # Stored by a rebuild of a server whose request spec was older than
        # Rocky, together with the host of that time; nova resets the host in
        # every move, and the hint in none.
        for task_state in TASK_STATES:
            spec = builders.spec(scheduler_hints=dict(HINT))
            self.assertEqual(
                OF_MOVES.get(task_state, Operation.UNKNOWN),
                self.from_request(spec, task_state), task_state)

    def test_left_over_rebuild_hint_with_its_host(self):
        for task_state in TASK_STATES:
            if task_state == task_states.REBUILDING:
                continue
            spec = builders.spec(scheduler_hints=dict(HINT),
                                 force_hosts=['amd1'])
            self.assertEqual(
                OF_MOVES.get(task_state, Operation.UNKNOWN),
                self.from_request(spec, task_state), task_state)

    def test_left_over_rebuild_hint_in_a_resize(self):
        self.assertEqual(Operation.RESIZE, self.from_request(
            builders.spec(flavor=builders.e2_medium(), scheduler_hints=HINT,
                          requested_destination=marked_destination()),
            task_states.RESIZE_PREP))

    def test_left_over_rebuild_hint_where_the_mark_is_lost(self):
        # nova runs no request filter then, so the host filter asks first.
        for task_state, expected in OF_MOVES.items():
            self.assertEqual(
                expected, self.from_request_too_late_for_the_mark(
                    builders.spec(scheduler_hints=HINT), task_state))

    def test_hints_of_the_user_say_nothing(self):
        self.assertEqual(Operation.LIVE_MIGRATION, self.from_request(
            builders.spec(scheduler_hints={'group': ['rebuild']}),
            task_states.MIGRATING))

    def test_migration_records_are_never_read(self):
        # nova leaves stale ones behind and uses them again.
        reads = [
            mock.patch.object(owner, name, side_effect=AssertionError(name))
            for owner in (objects.Migration, objects.MigrationList)
            for name in dir(owner) if name.startswith('get')]
        for read in reads:
            read.start()
            self.addCleanup(read.stop)
        for task_state in TASK_STATES:
            self.from_request(builders.spec(), task_state)
            self.from_request(
                builders.spec(requested_destination=marked_destination()),
                task_state)

    def test_flavor_that_was_stashed_for_a_resize_says_nothing(self):
        # ``new`` in the instance row is a left-over of a failed resize as
        # often as not; only ``cur`` is read.
        row = builders.load('instance_extra_flavor.json')
        self.assertEqual(Operation.LIVE_MIGRATION, self.from_request(
            objects.RequestSpec.obj_from_primitive(
                builders.load('request_spec.json')),
            task_states.MIGRATING, flavor=row['cur']))

    def test_request_without_a_flavor(self):
        spec = objects.RequestSpec(
            requested_destination=marked_destination())
        self.assertEqual(Operation.RESIZE, self.from_request(
            spec, task_states.RESIZE_PREP))


class CandidatesTest(base.TestCase):
    """What it can be while the server cannot be read."""

    def candidates(self, spec):
        return operation.candidates(
            spec, operation.is_marked_as_resize(spec))

    def test_marked_request(self):
        self.assertEqual(
            {Operation.RESIZE, Operation.MIGRATE}, self.candidates(
                builders.spec(requested_destination=marked_destination(),
                              ignore_hosts=['amd1'])))

    def test_marked_request_with_a_left_over_hint(self):
        self.assertEqual(
            {Operation.RESIZE, Operation.MIGRATE}, self.candidates(
                builders.spec(requested_destination=marked_destination(),
                              scheduler_hints=HINT)))

    def test_request_that_ignores_its_source(self):
        # Refusing may leave an evacuated server in ERROR.
        self.assertEqual(
            {Operation.LIVE_MIGRATION, Operation.EVACUATE},
            self.candidates(builders.spec(ignore_hosts=['amd1'])))

    def test_request_without_source(self):
        for ignored in (None, []):
            self.assertEqual({Operation.UNSHELVE}, self.candidates(
                builders.spec(ignore_hosts=ignored)))

    def test_request_whose_source_was_never_set(self):
        self.assertEqual({Operation.UNSHELVE}, self.candidates(
            objects.RequestSpec(
                requested_destination=builders.destination())))

    def test_rebuild_and_left_over_hint_are_never_refused(self):
        for forced in (None, ['amd1']):
            found = self.candidates(builders.spec(
                scheduler_hints=HINT, force_hosts=forced,
                ignore_hosts=['amd1']))
            self.assertLessEqual(
                found, {Operation.REBUILD, Operation.UNKNOWN})
