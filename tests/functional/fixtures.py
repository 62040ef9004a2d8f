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

import json
import logging
import os
import re
import sys

import fixtures

from nova.conductor import manager as conductor_manager
from nova import objects
from nova import rpc
from nova.scheduler.client import query
from nova.scheduler import request_filter
from nova.tests import fixtures as nova_fixtures

GUARDED = os.environ.get('SPECGUARD_TESTS_GUARD') != 'off'

WRAPPED = (
    (conductor_manager.ComputeTaskManager, '_live_migrate'),
    (conductor_manager.ComputeTaskManager, '_cold_migrate'),
    (conductor_manager.ComputeTaskManager, 'rebuild_instance'),
    (conductor_manager.ComputeTaskManager, 'unshelve_instance'),
    (query.SchedulerQueryClient, 'select_destinations'),
)

_CODE = re.compile(r'SPECGUARD-(\d+)\b')
_PAIR = re.compile(r'([^\s=]+)=("(?:[^"\\]|\\.)*"|\S*)')


class SpecGuard(fixtures.Fixture):
    """The guard in the nova services of this process.

    To be used before the scheduler starts, which reads its filters once.
    SPECGUARD_TESTS_GUARD=off leaves nova alone: every test that needs the
    guard has to fail then.

    :param conductor: False for a cloud that has configured the scheduler
        only, where all_filters puts things in place
    """

    def __init__(self, conductor=True):
        super().__init__()
        self.conductor = conductor

    def _setUp(self):
        if not GUARDED:
            return
        self._restore_nova_on_cleanup()
        from nova_specguard import actions
        from nova_specguard import alerts
        import nova_specguard.conf  # noqa: F401
        from nova_specguard import plugin
        self.addCleanup(alerts.reporter.cache_clear)
        # Its databases are gone by then: what waits is not for the next test.
        self.addCleanup(actions.stop)
        if self.conductor:
            plugin.install()

    def _restore_nova_on_cleanup(self):
        for owner, name in WRAPPED:
            self.addCleanup(setattr, owner, name, vars(owner)[name])
        filters = request_filter.ALL_REQUEST_FILTERS
        self.addCleanup(filters.__setitem__, slice(None), list(filters))


class HonestContexts(fixtures.Fixture):
    """Contexts as they arrive in production: without a cell.

    nova's own fixtures send the cell along with every context, and give an
    untargeted one the database that was used last; both hide code that
    forgets to target the cell. Here a context that conductor or scheduler
    received means cell0 until it is targeted, the database that these
    services are configured with.

    To be used before nova's services start.
    """

    _TOPICS = ('conductor', 'scheduler')

    def _setUp(self):
        databases = nova_fixtures.CellDatabases
        for method, honest in (
                ('_wrap_get_server', self._get_server),
                ('_wrap_get_context_manager', self._get_context_manager)):
            self.useFixture(fixtures.MockPatchObject(
                databases, method, honest(getattr(databases, method))))

    def _get_server(self, get_server):
        nova_module = sys.modules[get_server.__module__]

        def honest(databases, target, *args, **kwargs):
            if target.topic not in self._TOPICS:
                return get_server(databases, target, *args, **kwargs)
            with fixtures.MockPatchObject(
                    nova_module, 'CheatingSerializer', _HonestSerializer):
                return get_server(databases, target, *args, **kwargs)
        return honest

    def _get_context_manager(self, get_context_manager):
        def honest(databases, context):
            if (getattr(context, 'specguard_is_from_rpc', False) and
                    not context.db_connection):
                return databases._ctxt_mgrs[objects.CellMapping.CELL0_UUID]
            return get_context_manager(databases, context)
        return honest


class _HonestSerializer(rpc.RequestContextSerializer):

    def deserialize_context(self, context):
        received = super().deserialize_context(context)
        # Copied along by elevated() and target_cell().
        received.specguard_is_from_rpc = True
        return received


class Alerts(fixtures.Fixture):
    """What the guard wrote to the log, parsed."""

    def _setUp(self):
        self._texts = []
        handler = _Collector(self._texts)
        logger = logging.getLogger('nova.specguard')
        logger.addHandler(handler)
        self.addCleanup(logger.removeHandler, handler)

    @property
    def all(self):
        return [parse_alert(text) for text in list(self._texts)]

    @property
    def incidents(self):
        """All but the service's own life signs (001, 002)."""
        return [alert for alert in self.all if alert['code'] >= '100']


class _Collector(logging.Handler):

    def __init__(self, texts):
        super().__init__()
        self._texts = texts

    def emit(self, record):
        self._texts.append(record.getMessage())


def parse_alert(text):
    alert = {'code': _CODE.search(text).group(1), 'text': text}
    for key, value in _PAIR.findall(text):
        if value.startswith('"'):
            value = json.loads(value)
        alert[key] = value
    return alert
