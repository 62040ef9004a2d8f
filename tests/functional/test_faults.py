# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What the guard cannot read, or trips over, in the middle of a move.

nova's own reads work all the while: only the guard's are replaced.
"""

import itertools
import threading
import types
from unittest import mock

import fixtures
from nova.db.main import api as main_db
from nova import exception
from nova import objects
from nova.tests.functional.api import client
from oslo_db import exception as db_exception
import sqlalchemy
from sqlalchemy import engine

from nova_specguard import fields
from nova_specguard import instances
from tests.functional import base
from tests.functional.world import A2_LARGE
from tests.functional.world import A2_MEDIUM
from tests.functional.world import E2_MEDIUM


def unreadable(*args, **kwargs):
    raise db_exception.DBConnectionError()


def gone(context, uuid, **kwargs):
    raise exception.InstanceNotFound(instance_id=uuid)


class FaultTestCase(base.TestCase):

    def guard_reads_with(self, get_by_uuid, mapping=objects.InstanceMapping):
        self.useFixture(fixtures.MockPatchObject(
            instances, 'objects', types.SimpleNamespace(
                InstanceMapping=mapping,
                Instance=types.SimpleNamespace(get_by_uuid=get_by_uuid))))

    def guard_reads_old_row(self, **old):
        """As from a database node that lags behind."""
        def get_by_uuid(*args, **kwargs):
            instance = objects.Instance.get_by_uuid(*args, **kwargs)
            for name, value in old.items():
                setattr(instance, name, value)
            return instance
        self.guard_reads_with(get_by_uuid)

    def guard_gets_no_answer(self):
        """As from a paused server: connected, and no answer.

        Of the API database, since the fixture of the cell databases makes
        all others wait for one that is being read.
        """
        released = threading.Event()
        self.addCleanup(released.set)

        def wait(*args, **kwargs):
            released.wait()
            return unreadable()
        self.set_guard(lookup_timeout=1)
        self.guard_reads_with(
            unreadable, types.SimpleNamespace(get_by_instance_uuid=wait))

    def assert_incidents(self, *expected):
        self.assertEqual(
            list(expected),
            [(i['code'], i.get('operation'), i['outcome'])
             for i in self.alerts.incidents])


class UnreadableTestCase(FaultTestCase):
    """201, and what nova makes of the answer."""

    def test_live_migration_is_refused(self):
        server = self.boot(host='amd1')
        self.guard_reads_with(unreadable)
        self.live_migrate(server)
        self.assert_incidents(('201', 'live-migration', 'refused'))
        self.assert_runs(server, 'amd1', A2_MEDIUM)

    def test_live_migration_of_an_unanswered_lookup_is_refused(self):
        server = self.boot(host='amd1')
        self.guard_gets_no_answer()
        self.live_migrate(server)
        self.assert_incidents(('201', 'live-migration', 'refused'))
        self.assertIn('did not answer', self.alerts.incidents[0]['reason'])
        self.assert_runs(server, 'amd1', A2_MEDIUM)

    def test_live_migration_by_old_api_is_refused(self):
        server = self.boot(host='amd1')
        self.guard_reads_with(unreadable)
        self.assertRaises(client.OpenStackApiException,
                          self.live_migrate_by_old_api, server)
        self.settle(server)
        self.assert_incidents(('201', 'live-migration', 'refused'))
        self.assert_runs(server, 'amd1', A2_MEDIUM)

    def test_cold_migration_is_refused(self):
        server = self.boot(host='amd1')
        self.guard_reads_with(unreadable)
        self.migrate(server)
        self.assert_incidents(('201', 'migrate', 'refused'))
        self.assert_runs(server, 'amd1', A2_MEDIUM)

    def test_resize_is_refused(self):
        server = self.boot(host='amd1')
        self.guard_reads_with(unreadable)
        self.resize(server, A2_LARGE)
        self.assert_incidents(('201', 'resize', 'refused'))
        self.assert_runs(server, 'amd1', A2_MEDIUM)

    def test_unshelve_is_refused(self):
        server = self.boot(host='amd1')
        self.shelve(server)
        self.guard_reads_with(unreadable)
        self.unshelve(server)
        self.assert_incidents(('201', 'unshelve', 'refused'))
        shown = self.show(server)
        self.assertEqual('SHELVED_OFFLOADED', shown['status'])
        self.assertIsNone(shown['OS-EXT-STS:task_state'])

    def test_evacuation_is_allowed(self):
        server = self.boot(host='amd1')
        self.guard_reads_with(unreadable)
        self.evacuate(server)
        self.assert_incidents(('201', 'evacuate|live-migration', 'allowed'))
        self.assert_runs(server, 'amd2', A2_MEDIUM)

    def test_evacuation_is_refused_where_the_operator_wrote_it(self):
        server = self.boot(host='amd1')
        self.set_guard(operation_modes={'evacuate': 'enforce'})
        self.guard_reads_with(unreadable)
        self.evacuate(server)
        self.assert_incidents(('201', 'evacuate', 'refused'))
        self.assert_runs(server, 'amd1', A2_MEDIUM, status='ERROR')

    def test_rebuild_is_allowed(self):
        server = self.boot(host='amd1')
        self.guard_reads_with(unreadable)
        self.rebuild(server)
        self.assert_incidents(('201', 'rebuild', 'allowed'))
        self.assert_runs(server, 'amd1', A2_MEDIUM)

    def test_forced_live_migration_is_allowed(self):
        server = self.boot(host='amd1')
        self.guard_reads_with(unreadable)
        self.force_live_migrate(server, 'amd2')
        self.assert_incidents(('201', 'live-migration', 'allowed'))
        self.assert_runs(server, 'amd2', A2_MEDIUM)

    def test_on_unverifiable_allow(self):
        server = self.boot(host='amd1')
        self.set_guard(on_unverifiable='allow')
        self.guard_reads_with(unreadable)
        self.live_migrate(server)
        self.assert_incidents(('201', 'evacuate|live-migration', 'allowed'))
        self.assert_runs(server, 'amd2', A2_MEDIUM)

    def test_mode_warn_allows(self):
        server = self.boot(host='amd1')
        self.set_guard(mode='warn')
        self.guard_reads_with(unreadable)
        self.live_migrate(server)
        self.assert_incidents(('201', 'evacuate|live-migration', 'allowed'))
        self.assert_runs(server, 'amd2', A2_MEDIUM)

    def test_mode_off_reads_nothing(self):
        server = self.boot(host='amd1')
        self.set_guard(mode='off')
        self.guard_reads_with(unreadable)
        self.live_migrate(server)
        self.assert_no_alert()
        self.assert_runs(server, 'amd2', A2_MEDIUM)

    def test_row_gone_after_its_mapping_was_read_is_left_to_nova(self):
        server = self.boot(host='amd1')
        self.guard_reads_with(gone)
        self.live_migrate(server)
        self.assert_no_alert()
        self.assert_runs(server, 'amd2', A2_MEDIUM)


class FailingStatement(fixtures.Fixture):
    """The database raises at the n-th statement of the guard's lookups.

    :ivar seen: number of statements so far
    """

    def __init__(self, number):
        super().__init__()
        self.number = number
        self.seen = 0

    def _setUp(self):
        hook = (engine.Engine, 'before_cursor_execute', self._count)
        sqlalchemy.event.listen(*hook)
        self.addCleanup(sqlalchemy.event.remove, *hook)

    def _count(self, connection, cursor, statement, *args):
        # others are those of a connection: SELECT 1, PRAGMA
        if (threading.current_thread().name == 'specguard-lookup' and
                ' FROM ' in statement.replace('\n', ' ')):
            self.seen += 1
            if self.seen == self.number:
                unreadable()


class EachStatementTestCase(FaultTestCase):
    """An error at each single statement, one after the other."""

    def live_migrate_with_an_error_at_each(self, server):
        """:returns: what each attempt came to: (alerts, whether it moved)"""
        results = []
        for number in itertools.count(1):
            source = self.host_of(server)
            known = len(self.alerts.incidents)
            with FailingStatement(number) as statements:
                self.live_migrate(server)
            results.append((
                [(alert['service'], alert['code'], alert['outcome'])
                 for alert in self.alerts.incidents[known:]],
                self.host_of(server) != source))
            if statements.seen < number:
                return results

    def test_healthy_server(self):
        server = self.boot(host='amd1')
        results = self.live_migrate_with_an_error_at_each(server)
        refused = ([('nova-conductor', '201', 'refused')], False)
        # The scheduler cannot tell it from an evacuation. With the server
        # read it can, and takes what it could not read for a reason.
        allowed = ([('nova-scheduler', '201', 'allowed')], True)
        self.assertEqual(
            [refused] * 4 + [allowed] * 4 + [([], True)], results)
        self.assert_runs(server, self.host_of(server), A2_MEDIUM)

    def test_drifted_server(self):
        server = self.boot_reported_case()
        self.fail_resize(server, E2_MEDIUM)
        results = self.live_migrate_with_an_error_at_each(server)
        refused = ([('nova-conductor', '201', 'refused')], False)
        corrected = ('nova-conductor', '101', 'corrected')
        self.assertEqual(
            [refused] * 4 +
            [([corrected, ('nova-scheduler', '201', 'allowed')], True)] * 4 +
            [([corrected], True)], results)
        self.assert_runs(server, self.host_of(server), A2_MEDIUM)
        self.assertIn(self.host_of(server), ('amd1', 'amd2'))


class ManyServersTestCase(FaultTestCase):

    def test_host_is_evacuated_by_two_conductors(self):
        self.start_service('conductor', host='conductor2')
        servers = [self.boot_reported_case() for _number in range(3)]
        for server in servers:
            self.fail_resize(server, E2_MEDIUM)
        self.fence('amd1')
        for server in servers:
            self.admin_api.post_server_action(server['id'], {'evacuate': {}})
        for server in servers:
            self.settle(server)
            self.assert_runs(server, 'amd2', A2_MEDIUM)
        self.assertEqual(
            sorted(('101', server['id']) for server in servers),
            sorted((alert['code'], alert['instance'])
                   for alert in self.alerts.incidents))


class GuardFaultTestCase(FaultTestCase):
    """202: a fault of the guard stops nobody."""

    def break_guard(self):
        self.useFixture(fixtures.MockPatchObject(
            fields, 'differences', mock.Mock(side_effect=KeyError('bug'))))

    def assert_faults(self, *services):
        self.assertEqual(
            [('202', service) for service in services],
            [(i['code'], i['service']) for i in self.alerts.incidents])

    def test_live_migration(self):
        server = self.boot(host='amd1')
        self.break_guard()
        self.live_migrate(server)
        self.assert_faults('nova-conductor', 'nova-scheduler')
        self.assert_runs(server, 'amd2', A2_MEDIUM)

    def test_cold_migration(self):
        server = self.boot(host='amd1')
        self.break_guard()
        self.migrate(server)
        self.confirm(server)
        self.assert_faults('nova-conductor', 'nova-scheduler')
        self.assert_runs(server, 'amd2', A2_MEDIUM)

    def test_evacuation(self):
        server = self.boot(host='amd1')
        self.break_guard()
        self.evacuate(server)
        self.assert_faults('nova-conductor', 'nova-scheduler')
        self.assert_runs(server, 'amd2', A2_MEDIUM)

    def test_rebuild(self):
        server = self.boot(host='amd1')
        self.break_guard()
        self.rebuild(server)
        self.assert_faults('nova-conductor', 'nova-scheduler')
        self.assert_runs(server, 'amd1', A2_MEDIUM)

    def test_unshelve(self):
        server = self.boot(host='amd1')
        self.shelve(server)
        self.break_guard()
        self.unshelve(server)
        self.assert_faults('nova-conductor', 'nova-scheduler')
        self.assert_runs(server, 'amd1', A2_MEDIUM)


class SignalTestCase(FaultTestCase):
    """Signals that lie about the operation (atlas B.2)."""

    def test_spec_without_a_flavor_is_given_the_server_s(self):
        server = self.boot(host='amd1')
        self.edit_spec(server, lambda spec: spec.pop('flavor'))
        self.live_migrate(server)
        self.assert_alert('101', server, 'live-migration', 'flavor')
        self.assert_runs(server, 'amd2', A2_MEDIUM)

    def test_emptied_system_metadata_does_not_hide_a_drifted_flavor(self):
        server = self.boot_reported_case()
        self.fail_resize(server, E2_MEDIUM)
        with self.cell_of(server) as cell_context:
            main_db.instance_system_metadata_update(
                cell_context, server['id'], {}, delete=True)
        self.live_migrate(server)
        self.assert_alert('101', server, 'live-migration', 'flavor')
        self.assert_runs(server, 'amd2', A2_MEDIUM)

    def test_group_of_a_policy_that_nova_does_not_know_stops_nothing(self):
        server = self.boot(host='amd1')
        group = objects.InstanceGroup(
            self.context, policy='legacy', name='legacy',
            project_id=server['tenant_id'], user_id=server['user_id'])
        group.create()
        objects.InstanceGroup.add_members(
            self.context, group.uuid, [server['id']])
        self.set_guard(correct=False)
        self.live_migrate(server)
        self.assert_runs(server, 'amd2', A2_MEDIUM)

    def test_cleared_task_state_does_not_hide_a_drifted_flavor(self):
        server = self.boot_reported_case()
        self.fail_resize(server, E2_MEDIUM)
        self.guard_reads_old_row(task_state=None)
        self.live_migrate(server)
        self.assert_alert('101', server, 'live-migration', 'flavor')
        self.assert_runs(server, 'amd2', A2_MEDIUM)

    def test_cleared_task_state_does_not_stop_a_resize(self):
        server = self.boot(host='amd1')
        self.guard_reads_old_row(task_state=None)
        self.resize(server, A2_LARGE)
        self.confirm(server)
        self.assert_no_alert()
        self.assert_runs(server, 'amd2', A2_LARGE)

    def test_old_task_state_of_a_lagging_node_does_not_stop_a_resize(self):
        server = self.boot(host='amd1')
        self.guard_reads_old_row(task_state='migrating')
        self.resize(server, A2_LARGE)
        self.confirm(server)
        self.assert_no_alert()
        self.assert_runs(server, 'amd2', A2_LARGE)

    def test_old_flavor_of_a_lagging_node_is_not_corrected_to(self):
        server = self.boot(host='amd1')
        old = self.instance_of(server).flavor
        self.resize(server, A2_LARGE)
        self.confirm(server)
        self.guard_reads_old_row(task_state=None, flavor=old)
        self.live_migrate(server)
        self.assert_alert('103', server, 'unknown', 'flavor')
        self.assert_runs(server, 'amd1', A2_LARGE)

    def test_stale_resize_record_does_not_make_a_move_a_resize(self):
        server = self.boot_reported_case()
        self.fail_resize(server, E2_MEDIUM)
        self.stale_record(server, 'resize', 'pre-migrating')
        self.set_guard(correct=False)
        self.live_migrate(server)
        self.assert_alert('102', server, 'live-migration', 'flavor')
        self.assert_runs(server, 'amd1', A2_MEDIUM)

    def test_poisoned_hint_does_not_make_a_move_a_rebuild(self):
        server = self.boot_reported_case()
        self.fail_resize(server, E2_MEDIUM)
        self.edit_spec(server, lambda spec: spec.update(
            scheduler_hints={'_nova_check_type': ['rebuild']},
            force_hosts=['amd1']))
        self.set_guard(correct=False)
        self.live_migrate(server)
        self.assert_alert(
            '102', server, 'live-migration', 'flavor,scheduler_hints')
        self.assert_runs(server, 'amd1', A2_MEDIUM)

    def stale_record(self, server, migration_type, status):
        """As nova leaves one behind when the cast to the target is lost."""
        instance = self.instance_of(server)
        objects.Migration(
            context=self.context, instance_uuid=server['id'],
            migration_type=migration_type, status=status,
            source_compute=instance.host, source_node=instance.node,
            old_instance_type_id=instance.flavor.id,
            new_instance_type_id=instance.flavor.id + 1).create()


class SchedulerOnlyTestCase(FaultTestCase):
    """A cloud that has configured the scheduler only."""

    conductor_is_guarded = False

    def test_flavor_too_big_for_any_host_is_refused_with_an_alert(self):
        server = self.boot(host='amd1')
        self.exceed_all_hosts(server)
        self.set_guard(correct=False)
        self.live_migrate(server)
        self.assert_alert('102', server, 'live-migration', 'flavor')
        self.assert_runs(server, 'amd1', A2_MEDIUM)

    def test_cleared_task_state_is_alerted_and_not_refused(self):
        server = self.boot_reported_case()
        self.fail_resize(server, E2_MEDIUM)
        self.guard_reads_old_row(task_state=None)
        self.live_migrate(server)
        self.assert_alert('103', server, 'unknown', 'flavor')

    def test_unreadable_move_that_may_be_an_evacuation_is_allowed(self):
        server = self.boot(host='amd1')
        self.guard_reads_with(unreadable)
        self.live_migrate(server)
        self.assert_incidents(('201', 'evacuate|live-migration', 'allowed'))
        self.assert_runs(server, 'amd2', A2_MEDIUM)
