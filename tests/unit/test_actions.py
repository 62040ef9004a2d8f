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


import logging
import threading
from unittest import mock

import fixtures
from nova import context as nova_context
from nova.db.main import api as main_db
from nova import objects
from oslo_db import exception as db_exception

from nova_specguard import actions
from tests.unit import base
from tests.unit import builders
from tests.unit import test_instances

PASSWORD = test_instances.PASSWORD
URL = test_instances.URL
# A limit if a thread should hang; nothing here takes that long.
TIMEOUT = 60


class Written:
    """Stands between the thread and what writes to the database.

    :param write: function to call, or None
    :ivar events: what was written, in order
    :ivar threads: threads that have called it
    """

    def __init__(self, write=None):
        self.events = []
        self.threads = set()
        self._write = write
        self._changed = threading.Condition()
        self._paused = False

    def __call__(self, *event):
        with self._changed:
            self.threads.add(threading.current_thread())
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._paused, TIMEOUT)
        try:
            if isinstance(event[0], BaseException):
                raise event[0]
            if self._write:
                self._write(*event)
        finally:
            with self._changed:
                self.events.append(event)
                self._changed.notify_all()

    def pause(self):
        self._paused = True

    def go_on(self):
        with self._changed:
            self._paused = False
            self._changed.notify_all()

    def wait_until_called(self):
        with self._changed:
            return self._changed.wait_for(lambda: self.threads, TIMEOUT)

    def wait_for(self, number):
        """Wait until a number of events has been written."""
        with self._changed:
            self._changed.wait_for(
                lambda: len(self.events) >= number, TIMEOUT)
            return self.events


class WriterTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.written = Written()
        self.writer = actions._Writer(self.written)
        self.addCleanup(self.writer.stop)
        self.addCleanup(self.written.go_on)
        self.useFixture(fixtures.MockPatchObject(
            actions, '_writer', self.writer))
        self.debug = self.useFixture(
            fixtures.FakeLogger(actions.__name__, level=logging.DEBUG))

    def record(self, details, outcome='corrected', context=None):
        actions.record(context or self.context, builders.UUID, outcome,
                       details)

    def details(self):
        return [event[-1] for event in self.written.events]


class RecordTest(WriterTestCase):

    def test_event_is_named_after_the_outcome(self):
        for outcome in ('corrected', 'refused', 'allowed'):
            self.record('text', outcome)
        self.assertEqual(
            [(builders.UUID, 'specguard_corrected', 'text'),
             (builders.UUID, 'specguard_refused', 'text'),
             (builders.UUID, 'specguard_allowed', 'text')],
            [event[1:] for event in self.written.wait_for(3)])

    def test_request_and_user_are_kept(self):
        self.record('text')
        ((context, *_rest),) = self.written.wait_for(1)
        self.assertEqual(self.context.request_id, context.request_id)
        self.assertEqual('a-user', context.user_id)
        self.assertEqual('a-project', context.project_id)

    def test_context_of_the_request_is_not_changed(self):
        before = self.context.to_dict()
        self.record('text')
        ((context, *_rest),) = self.written.wait_for(1)
        self.assertTrue(context.is_admin)
        self.assertEqual(before, self.context.to_dict())

    def test_it_does_not_wait(self):
        self.written.pause()
        for number in range(3):
            self.record(number)
        self.assertEqual([], self.written.events)
        self.written.go_on()
        self.written.wait_for(3)
        self.assertEqual([0, 1, 2], self.details())

    def test_without_context_nothing_is_raised(self):
        actions.record(None, builders.UUID, 'corrected', 'text')
        self.record('other')
        self.written.wait_for(1)
        self.assertEqual(['other'], self.details())

    def test_without_a_thread_nothing_is_raised(self):
        with mock.patch.object(threading.Thread, 'start',
                               side_effect=RuntimeError(URL)):
            self.record('lost')
        self.record('other')
        self.written.wait_for(1)
        self.assertEqual(['other'], self.details())
        self.assertNotIn(PASSWORD, self.debug.output)


class QueueTest(WriterTestCase):

    def fill(self):
        """One event is being written, and as many as may wait wait."""
        self.written.pause()
        self.record('first')
        self.assertTrue(self.written.wait_until_called())
        for number in range(actions.QUEUED):
            self.record(number)

    def test_event_is_dropped_when_the_queue_is_full(self):
        self.fill()
        self.record('one too many')
        self.written.go_on()
        self.written.wait_for(1 + actions.QUEUED)
        self.record('last')
        self.written.wait_for(2 + actions.QUEUED)
        self.assertEqual(
            ['first', *range(actions.QUEUED), 'last'], self.details())

    def test_thousands_of_events_have_one_thread(self):
        before = threading.active_count()
        self.fill()
        for number in range(3 * actions.QUEUED):
            self.record(number)
        self.assertEqual(before + 1, threading.active_count())
        self.assertEqual(1, len(self.written.threads))


class ThreadTest(WriterTestCase):

    def names(self):
        return [thread.name for thread in threading.enumerate()]

    def test_none_without_an_incident(self):
        self.assertNotIn(actions.THREAD, self.names())

    def test_it_does_not_keep_the_service_from_stopping(self):
        self.record('text')
        self.written.wait_for(1)
        (thread,) = self.written.threads
        self.assertTrue(thread.daemon)

    def test_first_incidents_at_once_share_one(self):
        workers = [threading.Thread(target=self.record, args=(number,))
                   for number in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.written.wait_for(8)
        self.assertEqual(1, len(self.written.threads))

    def test_it_survives_an_exception(self):
        for error in (RuntimeError(URL),
                      db_exception.DBConnectionError(Exception(URL))):
            self.writer.put(error, 'details')
        self.record('other')
        self.written.wait_for(3)
        self.assertEqual('other', self.details()[-1])
        self.assertEqual(1, len(self.written.threads))
        self.assertIn('DBConnectionError', self.debug.output)
        self.assertNotIn(PASSWORD, self.debug.output)

    def test_one_that_has_ended_is_replaced(self):
        # as eventlet ends a thread
        self.writer.put(SystemExit(), 'details')
        self.written.wait_for(1)
        (thread,) = self.written.threads
        thread.join()
        self.record('other')
        self.written.wait_for(2)
        self.assertEqual('other', self.details()[-1])

    def test_stop_ends_it_and_drops_what_waits(self):
        self.written.pause()
        for number in range(3):
            self.record(number)
        self.assertTrue(self.written.wait_until_called())
        (thread,) = self.written.threads
        join = thread.join

        def go_on_and_join():
            self.written.go_on()
            join()

        thread.join = go_on_and_join
        self.writer.stop()
        self.assertEqual([0], self.details())
        self.assertNotIn(actions.THREAD, self.names())

    def test_after_stop_it_starts_again(self):
        self.writer.stop()
        self.record(1)
        self.written.wait_for(1)
        self.writer.stop()
        self.record(2)
        self.written.wait_for(2)
        self.assertEqual([1, 2], self.details())


class WriteTest(test_instances.InstancesTestCase):
    """Into which row of which database."""

    def setUp(self):
        super().setUp()
        self.boot()

    def start_action(self, context=None, request_id=None, **values):
        context = context or self.context
        with nova_context.target_cell(context, self.cell.mapping) as cell:
            if request_id:
                cell.request_id = request_id
            return objects.InstanceAction.action_start(
                cell, builders.UUID, 'live-migration')

    def write(self, name='specguard_corrected', details='text',
              context=None):
        actions._write((context or self.context).elevated(), builders.UUID,
                       name, details)

    def written(self, action):
        with nova_context.target_cell(
                self.cell.context, self.cell.mapping) as cell:
            return main_db.action_events_get(cell, action.id)

    def test_event_of_the_running_action(self):
        action = self.start_action()
        self.conf.config(host='controller1')
        self.write()
        (event,) = self.written(action)
        self.assertEqual('specguard_corrected', event.event)
        self.assertEqual('Success', event.result)
        self.assertEqual('text', event.details)
        self.assertEqual('controller1', event.host)
        self.assertIsNone(event.traceback)
        self.assertIsNotNone(event.start_time)
        self.assertIsNotNone(event.finish_time)

    def test_action_is_not_made_older(self):
        # updated_at is what changes-since of the API goes by.
        action = self.start_action()
        self.write()
        with nova_context.target_cell(
                self.cell.context, self.cell.mapping) as cell:
            after = objects.InstanceAction.get_by_request_id(
                cell, builders.UUID, self.context.request_id)
        self.assertGreaterEqual(after.updated_at, action.updated_at)
        self.assertIsNone(after.finish_time)
        self.assertIsNone(after.message)

    def test_second_event_of_the_same_name_is_another_one(self):
        # of the other service, or of a retry in another worker
        action = self.start_action()
        self.write(details='one')
        self.write(details='two')
        self.assertEqual(
            {'one', 'two'}, {event.details for event in self.written(action)})

    def test_action_of_the_same_request_and_no_other(self):
        other = self.start_action(request_id='req-other')
        action = self.start_action()
        self.write()
        self.assertEqual([], self.written(other))
        self.assertEqual(1, len(self.written(action)))

    def test_without_action_nothing_is_written(self):
        other = self.start_action(request_id='req-other')
        self.write()
        self.assertEqual([], self.written(other))

    def test_without_action_and_project_nothing_is_written_either(self):
        # nova would take the latest action of the server.
        other = self.start_action(request_id='req-other')
        self.write(context=nova_context.get_admin_context())
        self.assertEqual([], self.written(other))

    def test_context_that_is_targeted_at_another_cell(self):
        action = self.start_action()
        other = self.cell.add_mapping('cell2', 'sqlite://')
        with nova_context.target_cell(self.context, other) as targeted:
            self.write(context=targeted)
        self.assertEqual(1, len(self.written(action)))

    def test_cell_conductor_without_api_database(self):
        self.conf.config(connection=None, group='api_database')
        self.cell.boot(context=self.cell.context, host='own')
        action = objects.InstanceAction.action_start(
            self.context, builders.UUID, 'live-migration')
        self.write()
        (event,) = main_db.action_events_get(self.cell.context, action.id)
        self.assertEqual('text', event.details)

    def test_through_the_thread(self):
        action = self.start_action()
        written = Written(actions._write)
        writer = actions._Writer(written)
        self.addCleanup(writer.stop)
        self.useFixture(fixtures.MockPatchObject(actions, '_writer', writer))
        actions.record(self.context, builders.UUID, 'refused', 'text')
        written.wait_for(1)
        (event,) = self.written(action)
        self.assertEqual('specguard_refused', event.event)


class NoPasswordTest(test_instances.InstancesTestCase):
    """Mappings and database errors carry connection URLs."""

    def test_log_of_a_failure_names_the_class_only(self):
        debug = self.useFixture(
            fixtures.FakeLogger('', level=logging.DEBUG))
        written = Written(actions._write)
        writer = actions._Writer(written)
        self.boot()
        places = (
            (nova_context, 'target_cell'),
            (objects.InstanceMapping, 'get_by_instance_uuid'),
            (objects.InstanceAction, 'get_by_request_id'))
        for number, (owner, name) in enumerate(places, start=1):
            with mock.patch.object(owner, name, side_effect=OSError(URL)):
                writer.put(self.context.elevated(), builders.UUID,
                           'specguard_corrected', 'text')
                written.wait_for(number)
        # The last one is logged by the time that the thread has ended.
        writer.stop()
        self.assertEqual(3, debug.output.count('OSError'))
        self.assertNotIn(PASSWORD, debug.output)
