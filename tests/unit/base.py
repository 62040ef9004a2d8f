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

import dataclasses
import json
import logging
import re

import fixtures
from nova.conductor import manager as conductor_manager
import nova.conf
from nova import context as nova_context
from nova import objects
from nova.scheduler.client import query
from nova.scheduler import request_filter
from oslo_config import fixture as config_fixture
import testtools

from nova_specguard import actions
from nova_specguard import alerts
from nova_specguard import conf
from nova_specguard import fields
from nova_specguard.operation import Operation
from tests.unit import builders


class TestCase(testtools.TestCase):

    def setUp(self):
        super().setUp()
        # The last good values outlive a test; after the configuration is
        # reset, this reading makes them the defaults again.
        self.addCleanup(conf.options)
        self.conf = self.useFixture(config_fixture.Config(nova.conf.CONF))
        self.alerts = self.useFixture(Alerts())
        self.events = self.useFixture(Events()).events
        self.addCleanup(alerts.reporter.cache_clear)
        alerts.reporter.cache_clear()
        self.context = nova_context.RequestContext(
            'a-user', 'a-project', is_admin=False)

    def configure(self, **values):
        self.conf.config(group='specguard', **values)

    @staticmethod
    def options(**values):
        """The defaults but for some values."""
        return dataclasses.replace(conf.options(), **values)

    def use(self, reporter, seconds=0.0, **options):
        """The service handles a request."""
        options = self.options(**options)
        reporter.begin(options)
        reporter.end(options, seconds)

    def differences(self, spec, current,
                    operation=Operation.LIVE_MIGRATION, **options):
        """What differs, by the name of the field."""
        found = fields.differences(
            spec, current, operation, self.options(**options))
        return {difference.field: difference for difference in found}

    def assert_consistent(self, spec, current,
                          operation=Operation.LIVE_MIGRATION, **options):
        self.assertEqual(
            {}, self.differences(spec, current, operation, **options))

    def assert_drift(self, name, drift_class, spec, current,
                     operation=Operation.LIVE_MIGRATION, **options):
        """Exactly this field differs.

        :returns: its Difference
        """
        found = self.differences(spec, current, operation, **options)
        self.assertEqual(
            {name: drift_class},
            {field: difference.drift_class.name
             for field, difference in found.items()})
        return found[name]


class FieldTestCase(TestCase):
    """Compares every request spec as an object and as stored."""

    def differences(self, spec, current, *args, **options):
        found = super().differences(spec, current, *args, **options)
        if isinstance(spec, objects.RequestSpec):
            self.assertEqual(found, super().differences(
                builders.stored(spec), current, *args, **options))
        return found

    def assert_corrected(self, name, spec, current, *changed):
        """Correcting changes these attributes, and then nothing differs."""
        before = builders.stored(spec)['nova_object.data']
        fields.apply([name], spec, current, self.options())
        sent = builders.stored(spec)
        after = sent['nova_object.data']
        self.assertEqual(
            set(changed), {name for name in before.keys() | after.keys()
                           if before.get(name) != after.get(name)})
        self.assert_consistent(spec, current)
        self.assert_consistent(
            objects.RequestSpec.obj_from_primitive(sent), current)


class Nova(fixtures.Fixture):
    """Gives nova back as it was, whatever the guard puts into it."""

    METHODS = ('_live_migrate', '_cold_migrate', 'rebuild_instance',
               'unshelve_instance')
    _WRAPPED = {
        conductor_manager.ComputeTaskManager: METHODS,
        query.SchedulerQueryClient: ('select_destinations',),
    }

    def _setUp(self):
        for owner, names in self._WRAPPED.items():
            for name in names:
                self.addCleanup(setattr, owner, name, vars(owner)[name])
        filters = request_filter.ALL_REQUEST_FILTERS
        self.addCleanup(filters.__setitem__, slice(None), list(filters))


class Events(fixtures.Fixture):
    """What the guard would have written to instance actions.

    :ivar events: list of (context, instance UUID, name of the event, details)
    """

    def _setUp(self):
        self.events = []
        self.useFixture(fixtures.MockPatchObject(actions, '_writer', self))

    def put(self, *event):
        self.events.append(event)


class Alerts(fixtures.Fixture):
    """What the guard logs."""

    def _setUp(self):
        self.records = []
        handler = _Collector(self.records)
        logger = logging.getLogger('nova.specguard')
        self.addCleanup(setattr, logger, 'propagate', logger.propagate)
        self.addCleanup(logger.setLevel, logger.level)
        self.addCleanup(logger.removeHandler, handler)
        logger.propagate = False
        logger.setLevel(logging.DEBUG)
        logger.addHandler(handler)

    @property
    def lines(self):
        return [record.getMessage() for record in self.records]

    @property
    def all(self):
        return [parse(line) for line in self.lines]

    @property
    def codes(self):
        """The numbers of the codes, in order."""
        return [alert['code'][-3:] for alert in self.all]

    def of(self, number):
        return [alert for alert in self.all if alert['code'].endswith(number)]

    @property
    def incidents(self):
        """All but the life signs and the summaries."""
        return [alert for alert in self.all
                if not alert['code'].startswith('SPECGUARD-0')]


class _Collector(logging.Handler):

    def __init__(self, records):
        super().__init__()
        self._records = records

    def emit(self, record):
        self._records.append(record)


_PAIR = re.compile(r' ([a-z][a-z0-9_]*)=("(?:[^"\\]|\\.)*"|[^\s"=]*)')


def parse(line):
    """Read an alert as logfmt: all of it, or fail.

    :returns: dict with the pairs and ``code``
    """
    code, _space, _rest = line.partition(' ')
    alert = {'code': code}
    position = len(code)
    while position < len(line):
        match = _PAIR.match(line, position)
        if not match:
            raise ValueError('no pair at %r' % line[position:])
        key, value = match.groups()
        if key in alert:
            raise ValueError('%s twice in %r' % (key, line))
        alert[key] = json.loads(value) if value.startswith('"') else value
        position = match.end()
    return alert
