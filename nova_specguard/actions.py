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


"""What the guard did, as an event of the instance action that is running.

nova's API shows it beside the move that it belongs to. Best effort: the log
line is the alert. A database that is slow or gone delays no move, because the
events are written by a thread of their own, and costs no memory, because few
of them may wait.

And what heal did, as an action of its own, if the operator asks for it.
"""

import os
import queue
import threading

import nova.conf
from nova.db.main import api as main_db
from nova import objects
from oslo_log import log as logging

from nova_specguard import instances

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

THREAD = 'specguard-actions'
# Name of the action of heal.
HEAL = 'specguard-heal'
# Events that may wait. More than there are servers on a host, since all of
# them are evacuated at once.
QUEUED = 1000


def record(context, instance_uuid, outcome, details):
    """Have an event written. Raises nothing and waits for nothing.

    Without an action of this request, and with a full queue, there is none.

    :param context: RequestContext of the request; it is not changed
    :param instance_uuid: UUID of the server
    :param outcome: ``corrected``, ``refused`` or ``allowed``
    :param details: text, credentials masked
    """
    try:
        _writer.put(context.elevated(), instance_uuid, 'specguard_' + outcome,
                    details)
    except Exception as exc:
        _log_lost(exc)


def _log_lost(exc):
    # Its class only: messages of database drivers can carry a connection URL.
    LOG.debug('An instance action event was not written: %s',
              type(exc).__name__)


def _write(context, instance_uuid, name, details):
    """Write an event into the cell of the server.

    :param context: elevated RequestContext of the request
    :param instance_uuid: UUID of the server
    :param name: name of the event
    :param details: text
    :raises Exception: whatever databases and nova raise
    """
    mapping = instances.cell_mapping(context, instance_uuid)
    with instances.targeted(context, mapping) as cell_context:
        # For a context without project nova would fall back to the latest
        # action of the server.
        if not objects.InstanceAction.get_by_request_id(
                cell_context, instance_uuid, context.request_id):
            return
        _write_event(cell_context, instance_uuid, name, details)


def _write_event(cell_context, instance_uuid, name, details):
    event = objects.InstanceActionEvent
    values = event.pack_action_event_start(
        cell_context, instance_uuid, name, host=CONF.host)
    values.update(event.pack_action_event_finish(
        cell_context, instance_uuid, name), details=details)
    # In one go. nova finishes the first event of a name, and the other
    # service, or a retry, may have written one already.
    main_db.action_event_start(cell_context, values)


def record_heal(context, instance_uuid, details):
    """Write an action that is begun and ended, with its event.

    :param context: RequestContext of this repair only: its request is what
        the action is found by, its time when it began
    :param instance_uuid: UUID of the server
    :param details: text, for administrators
    :raises Exception: whatever databases and nova raise
    """
    mapping = instances.cell_mapping(context, instance_uuid)
    with instances.targeted(context, mapping) as cell_context:
        objects.InstanceAction.action_start(
            cell_context, instance_uuid, HEAL, want_result=False)
        _write_event(
            cell_context, instance_uuid, 'specguard_healed', details)
        objects.InstanceAction.action_finish(
            cell_context, instance_uuid, want_result=False)


class _Writer:
    """The thread that writes, and the queue that feeds it.

    The thread is started by the first event, so in the worker process that
    the event belongs to. eventlet's monkey patching turns it green.

    :param write: function that is called with each event's values
    """

    def __init__(self, write):
        self._write = write
        self.forget()

    def forget(self):
        """Begin anew: a forked process has no thread, only copies of locks.
        """
        self._lock = threading.Lock()
        self._queue = queue.Queue(QUEUED)
        self._thread = None

    def put(self, *event):
        """Queue an event.

        :raises queue.Full: if too many are waiting
        :raises RuntimeError: if no thread can be started
        """
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                # A daemon: it must not keep the service from stopping.
                thread = threading.Thread(
                    target=self._run, args=(self._queue,), name=THREAD,
                    daemon=True)
                thread.start()
                self._thread = thread
            self._queue.put_nowait(event)

    def stop(self):
        """End the thread after the event that it is writing; drop the rest.

        For tests, and for programs that embed nova's services.
        """
        thread, events = self._thread, self._queue
        self.forget()
        if thread is None:
            return
        try:
            while True:
                events.get_nowait()
        except queue.Empty:
            events.put(None)
        thread.join()

    def _run(self, events):
        for event in iter(events.get, None):
            try:
                self._write(*event)
            except Exception as exc:
                _log_lost(exc)


_writer = _Writer(_write)
os.register_at_fork(after_in_child=_writer.forget)


def stop():
    """End the thread of this process; the next event starts another one."""
    _writer.stop()
