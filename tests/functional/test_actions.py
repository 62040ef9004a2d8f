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


"""What the guard did is shown by nova's API, beside the move.

By its instance actions, from microversion 2.84 on with details.
"""

import threading
import types
from unittest import mock

import fixtures
from oslo_db import exception as db_exception

from nova_specguard import actions
from nova_specguard import instances
from tests.functional import base
from tests.functional import fixtures as specguard_fixtures
from tests.functional import test_faults
from tests.functional.world import A2_MEDIUM
from tests.functional.world import E2_MEDIUM


class ActionsTestCase(test_faults.FaultTestCase):

    def drifted(self):
        server = self.boot_reported_case()
        self.fail_resize(server, E2_MEDIUM)
        return server


class EventTest(ActionsTestCase):

    def test_corrected(self):
        server = self.drifted()
        self.live_migrate(server)
        self.assert_runs(server, 'amd2', A2_MEDIUM)
        self.assert_events(server, 'specguard_corrected')
        (event,) = self.events_of(server)
        self.assertEqual('Success', event['result'])
        self.assertEqual(base.CONF.host, event['host'])
        self.assertIsNone(event['traceback'])
        self.assertIsNotNone(event['start_time'])
        self.assertIsNotNone(event['finish_time'])
        details = specguard_fixtures.parse_alert(event['details'])
        self.assertEqual('101', details['code'])
        self.assertEqual('corrected', details['outcome'])
        self.assertIn('e2.medium', details['flavor_spec'])
        self.assertIn('a2.medium', details['flavor_current'])

    def test_refused(self):
        server = self.drifted()
        self.set_guard(correct=False)
        self.live_migrate(server)
        self.assert_runs(server, 'amd1', A2_MEDIUM)
        self.assert_alert('102', server, 'live-migration', 'flavor')
        self.assert_events(server, 'specguard_refused')

    def test_allowed(self):
        server = self.drifted()
        self.set_guard(mode='warn')
        self.live_migrate(server)
        self.assert_alert('103', server, 'live-migration', 'flavor')
        self.assert_events(server, 'specguard_allowed')

    def test_unverifiable_and_refused(self):
        server = self.boot(host='amd1')
        self.guard_reads_with(test_faults.unreadable)
        self.live_migrate(server)
        self.assert_incidents(('201', 'live-migration', 'refused'))
        self.assert_events(server, 'specguard_refused')

    def test_unverifiable_and_allowed(self):
        server = self.boot(host='amd1')
        self.guard_reads_with(test_faults.unreadable)
        self.evacuate(server)
        self.assert_incidents(('201', 'evacuate|live-migration', 'allowed'))
        self.assert_events(server, 'specguard_allowed')

    def test_each_move_has_its_own(self):
        server = self.drifted()
        self.live_migrate(server)
        self.live_migrate(server)
        self.assert_events(
            server, 'specguard_corrected', 'specguard_corrected')

    def test_no_incident_no_event(self):
        server = self.boot(host='amd1')
        self.live_migrate(server)
        self.migrate(server)
        self.confirm(server)
        self.assert_no_alert()
        self.assertEqual([], self.events_of(server))
        self.assertNotIn(
            actions.THREAD, [t.name for t in threading.enumerate()])


class OtherCellTest(ActionsTestCase):
    """The event goes where the server is, not to the database at hand."""

    NUMBER_OF_CELLS = 2
    cell_name = 'cell2'

    def setUp(self):
        self.useFixture(specguard_fixtures.HonestContexts())
        super().setUp()

    def test_corrected_by_the_conductor(self):
        server = self.drifted()
        self.live_migrate(server)
        self.assert_alert(
            '101', server, 'live-migration', 'flavor', cell='cell2')
        self.assert_events(server, 'specguard_corrected')

    def test_refused_by_the_scheduler(self):
        server = self.drifted()
        self.set_guard(correct=False)
        self.live_migrate(server)
        self.assert_alert(
            '102', server, 'live-migration', 'flavor', cell='cell2')
        self.assert_events(server, 'specguard_refused')


class DatabaseTest(ActionsTestCase):
    """Trouble with the event is no trouble for the move."""

    def setUp(self):
        super().setUp()
        self.server = self.drifted()

    def assert_moved(self):
        self.live_migrate(self.server)
        self.assert_runs(self.server, 'amd2', A2_MEDIUM)
        self.assert_alert('101', self.server, 'live-migration', 'flavor')

    def test_event_is_written_when_a_paused_database_goes_on(self):
        paused = threading.Event()
        released = threading.Event()
        self.addCleanup(released.set)
        cell_mapping = instances.cell_mapping

        def wait(*args):
            # The guard's lookup asks for the mapping as well.
            if threading.current_thread().name == actions.THREAD:
                paused.set()
                released.wait()
            return cell_mapping(*args)
        self.useFixture(fixtures.MockPatchObject(
            instances, 'cell_mapping', wait))

        self.assert_moved()
        self.assertTrue(paused.wait(60))
        self.assertEqual([], self.events_of(self.server))
        released.set()
        self.assert_events(self.server, 'specguard_corrected')

    def test_move_goes_on_where_the_event_cannot_be_written(self):
        failed = threading.Event()

        def fail(*args):
            failed.set()
            raise db_exception.DBConnectionError()
        with mock.patch.object(
                actions, 'main_db',
                types.SimpleNamespace(action_event_start=fail)):
            self.assert_moved()
            self.assertTrue(failed.wait(60))
        self.assertEqual([], self.events_of(self.server))

        # The thread has survived it.
        self.live_migrate(self.server)
        self.eventually(lambda: self.assertEqual(
            [self.alerts.incidents[1]['request_id']],
            [event['request_id'] for event in self.events_of(self.server)]))
