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

"""SELECTs that the guard adds to an operation, by service and database.

Two clouds do the same things, one of them without the guard; what is read
more in the other is the guard's.
"""

import collections
import threading
import time
from unittest import mock

import fixtures
from nova import context as nova_context
from nova.db.api import api as api_db
from oslo_messaging.rpc import dispatcher
import sqlalchemy
from sqlalchemy import engine

from tests.functional import base
from tests.functional import fixtures as specguard_fixtures
from tests.functional import world


def _service(message):
    if message.get('namespace') == 'compute_task':
        return 'conductor'
    if message.get('method') == 'select_destinations':
        return 'scheduler'
    return None


class Selects(fixtures.Fixture):
    """Counts the SELECTs of each RPC request that a service handles.

    All services share this process and their databases, so a statement
    belongs to the service whose request its thread, or the thread that
    started it, is handling. Threads of pools, subclasses of Thread, outlive
    the request and are not followed.

    :ivar counts: Counter of (service, database)
    """

    def __init__(self, databases):
        self.counts = collections.Counter()
        self._databases = databases
        self._handling = threading.local()
        self._requests = set()

    def _setUp(self):
        self._patch(dispatcher.RPCDispatcher, 'dispatch', self._dispatch)
        self._patch(threading.Thread, 'start', self._start)
        hook = (engine.Engine, 'before_cursor_execute', self._count)
        sqlalchemy.event.listen(*hook)
        self.addCleanup(sqlalchemy.event.remove, *hook)

    def _patch(self, owner, name, around):
        original = getattr(owner, name)
        self.useFixture(fixtures.MonkeyPatch(
            '%s.%s.%s' % (owner.__module__, owner.__name__, name),
            lambda *args: around(original, *args)))

    def _dispatch(self, original, server, incoming):
        self._handling.service = _service(incoming.message)
        self._requests.add(incoming)
        try:
            return original(server, incoming)
        finally:
            self._requests.discard(incoming)
            self._handling.service = None

    def wait(self):
        """Until no request is handled any more."""
        while self._requests:
            time.sleep(0.01)

    def _start(self, original, thread):
        service, run = getattr(self._handling, 'service', None), thread.run

        def run_for_service():
            self._handling.service = service
            run()
        if type(thread) is threading.Thread:
            thread.run = run_for_service
        original(thread)

    def _count(self, connection, _cursor, statement, *_args):
        service = getattr(self._handling, 'service', None)
        # placement's own database is none of them
        database = self._databases.get(connection.engine)
        # older oslo.db says SELECT 1 to see whether a connection lives
        is_read = statement.startswith('SELECT') and 'FROM' in statement
        if service and database and is_read:
            self.counts[service, database] += 1


class _Cloud(base.TestCase):
    """Does every operation, with a plain server and with a NUMA server."""

    def measure(self):
        selects = self.useFixture(Selects(self._databases()))

        def step(operation, function, *args, **kwargs):
            selects.counts.clear()
            result = function(*args, **kwargs)
            selects.wait()
            self.results[label, operation] = dict(selects.counts)
            return result

        # nova reads an image's EC2 id once in the life of a process.
        self.boot(world.A2_MEDIUM)
        selects.wait()

        for label, flavor, source in (
                ('plain', world.A2_MEDIUM, 'amd1'),
                ('NUMA', world.E2_NUMA, 'intel1')):
            step('boot of two', self.boot, flavor, min_count=2)
            server = step('boot', self.boot, flavor, host=source)
            step('live-migration', self.live_migrate, server)
            step('live-migration (host)', self.live_migrate, server, source)
            step('live-migration (API 2.1)', self.live_migrate_by_old_api,
                 server)
            step('live-migration (forced)', self.force_live_migrate, server,
                 source)
            step('migrate', self.migrate, server)
            self.revert(server)
            step('resize', self.resize, server, world.A2_LARGE)
            self.revert(server)
            self.shelve(server)
            step('unshelve', self.unshelve, server)
            step('rebuild', self.rebuild, server)
            step('evacuate', self.evacuate, server)

        # Drift that sends the server to the same host, guarded or not.
        label = 'drifted'
        server = self.boot(world.A2_MEDIUM, host='amd2')
        self.fail_resize(server, world.A2_LARGE)
        step('live-migration', self.live_migrate, server)

    def _databases(self):
        engines = {api_db.context_manager.writer.get_engine(): 'API'}
        for cell in self.cell_mappings.values():
            with nova_context.target_cell(self.context, cell) as context:
                engines[context.db_connection.writer.get_engine()] = 'cell'
        return engines


def measure(run):
    """Count what the guard reads.

    :param run: runs a test case class, gives its results
    :returns: dict of (flavor, operation) to dict of (service, database) to
        number of SELECTs
    """
    with mock.patch.object(specguard_fixtures, 'GUARDED', False):
        without = run(_Cloud)
    guarded = run(_Cloud)
    return {step: {(service, database):
                   counts.get((service, database), 0) -
                   without[step].get((service, database), 0)
                   for service in ('conductor', 'scheduler')
                   for database in ('API', 'cell')}
            for step, counts in guarded.items()}
