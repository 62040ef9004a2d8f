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

"""Alerts of every code, as services of nova log them to syslog."""

import collections
import dataclasses
import itertools
import json
import logging as python_logging
import socket
import time
from unittest import mock

from nova import context as nova_context
from oslo_config import cfg
from oslo_context import context
from oslo_log import handlers
from oslo_log import log as logging
from oslo_utils import uuidutils

from nova_specguard import actions
from nova_specguard import alerts
from nova_specguard.audit import audit
from nova_specguard.audit import classes
from nova_specguard import conf
from nova_specguard import fields
from nova_specguard.fields import base as fields_base
from nova_specguard import guard
from nova_specguard.operation import Operation
from tests.unit import builders
from tests.unit import test_alerts

SERVICE = 'nova-scheduler'

# no longer than the columns of nova's databases
TEXTS = [text[:255] for text in ('plain', *test_alerts.HOSTILE.values())]
CANDIDATES = ('migrate|resize', 'evacuate|live-migration', 'unshelve')
DRIFT = ((alerts.CORRECTED, 'corrected'), (alerts.REFUSED, 'refused'),
         (alerts.ALLOWED, 'allowed'))
AT_REST = ((alerts.FOUND, 'audit', 'found'),
           (alerts.HEALED, 'heal', 'healed'),
           (alerts.NOT_HEALED, 'heal', 'left'),
           (alerts.DISK, 'disks-audit', 'found'),
           (alerts.DISK_REPAIRED, 'disks-repair', 'repaired'),
           (alerts.DISK_NOT_REPAIRED, 'disks-repair', 'left'))


class Syslog:
    """syslog(3), whose socket cannot be chosen, with another one.

    Stands in for Python's module in oslo.log's handler.
    """

    LOG_USER = 1 << 3

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.connect(path)

    def openlog(self, ident, logoption, facility):
        self._facility = facility

    def syslog(self, priority, message):
        self._socket.send(('<%d>%s %s: %s' % (
            self._facility | priority, time.strftime('%b %e %H:%M:%S'),
            SERVICE, message)).encode('utf-8', 'surrogateescape'))


def drifts():
    """Differences of all fields, full of hostile text.

    :returns: list of tuples of Difference
    """
    found = [fields.differences(
        builders.spec(flavor=builders.e2_medium(
            name=text, extra_specs={text: text})),
        builders.current(flavor=builders.flavor(extra_specs={
            text: text + ' x', 'hw:' + text: text})),
        Operation.LIVE_MIGRATION, conf.options()) for text in TEXTS]
    names = [field.NAME for field in fields.FIELDS] + list(classes.NAMES)
    for name, text in zip(names, itertools.cycle(TEXTS)):
        found.append((fields_base.Difference(
            name, fields_base.DriftClass(name, 'warning', ''), text, text),))
    found.append(sum(found[-len(names):], ()))
    return found


class Burst:
    """Logs alerts and keeps count of them.

    :ivar expected: dict of ``alerts``, ``fields`` and ``summary`` to Counter
        of the labels of the metric
    """

    def __init__(self):
        self.expected = {name: collections.Counter()
                         for name in ('alerts', 'fields', 'summary')}
        self._reporter = alerts.Reporter(SERVICE)
        self._options = conf.options()
        self._drifts = drifts()
        self._operations = list(Operation)
        self._currents = [builders.current(project_id=text) for text in TEXTS]
        self._specs = [builders.spec(project_id=text) for text in TEXTS]
        self._context = nova_context.RequestContext(
            builders.USER, builders.PROJECT, is_admin=False, overwrite=True)

    def log(self, number):
        """One alert of each code.

        :param number: tells it from the others
        """
        text = TEXTS[number % len(TEXTS)]
        operation = self._operations[number % len(self._operations)]
        differences = self._drifts[number % len(self._drifts)]
        # an incident is told from others by its request
        self._context.request_id = context.generate_request_id()
        spec = self._specs[number % len(TEXTS)]
        current = self._currents[number % len(TEXTS)]
        self._signs(text)
        for code, outcome in DRIFT:
            self._reporter.drift(
                code, outcome, self._context, guard.Finding(
                    operation, current, differences, cell=text), differences)
            self._expect(code, operation.value, outcome, differences)
        self._unverifiable(number, text, spec)
        try:
            raise ValueError(text)
        except ValueError as exc:
            self._reporter.fault(self._context, spec, operation, exc)
        self._expect(alerts.FAULT, operation.value, 'allowed')
        finding = audit.Finding(
            uuidutils.generate_uuid(), differences[0], text, text)
        for code, command, outcome in AT_REST:
            alerts.at_rest(code, command, outcome, finding, differences, text)
            self._expect(code, command, outcome, differences)

    def _signs(self, text):
        """The first request of a worker process, and a summary."""
        reporter = alerts.Reporter(SERVICE)
        reporter.begin(self._with(problems=(text,)))
        reporter.end(self._with(summary_interval=0), 0.25)
        for code in (alerts.IN_PLACE, alerts.MISCONFIGURED, alerts.SUMMARY):
            self._expect(code, '', '')
        self.expected['summary'][SERVICE, 'checked'] += 1

    def _with(self, **values):
        return dataclasses.replace(self._options, **values)

    def _unverifiable(self, number, text, spec):
        operation = CANDIDATES[number % len(CANDIDATES)]
        outcome = ('refused', 'allowed')[number % 2]
        self._reporter.unverifiable(
            outcome, self._context, spec,
            guard.Finding(Operation.UNKNOWN, unverifiable=text, cell=text),
            operation)
        self._expect(alerts.UNVERIFIABLE, operation, outcome)

    def _expect(self, code, operation, outcome, differences=()):
        self.expected['alerts'][code, operation, outcome] += 1
        for difference in differences:
            self.expected['fields'][
                code, operation, outcome, difference.field] += 1


def forge(number):
    """Log what must not be taken for an alert."""
    line = ('2026-12-01 03:12:44.512 7 ERROR nova.specguard [-] SPECGUARD-102 '
            'operation=live-migration outcome=refused fields=flavor')
    python_logging.getLogger('nova.api').error('name is "%s"', (
        line, '\n' + line, '\r\n' + line, 'SPECGUARD-102 ' + line)[number % 4])


def main(path, count, result):
    """Log, and write down what has to be counted.

    For a process that does nothing else.

    :param path: of the syslog socket
    :param count: how many of each code
    :param result: path of a file, for JSON
    """
    with mock.patch.object(handlers, 'syslog', Syslog(path)), \
            mock.patch.object(actions, 'record'):
        options = cfg.ConfigOpts()
        logging.register_options(options)
        options([], default_config_files=[], default_config_dirs=[])
        options.set_override('use_syslog', True)
        logging.setup(options, 'nova')
        # oslo.log logs to stdout as well, where no file is set
        root = python_logging.getLogger()
        root.handlers = [handler for handler in root.handlers
                         if isinstance(handler, handlers.OSSysLogHandler)]
        running = Burst()
        for number in range(count):
            running.log(number)
            forge(number)
    with open(result, 'w') as file:
        json.dump({name: list(counter.items())
                   for name, counter in running.expected.items()}, file)
