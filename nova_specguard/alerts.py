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

"""Permanent alert codes, the log lines that carry them, the counts.

A line is ``CODE key=value ...`` in logfmt. The codes and keys are an
interface: alerting rules and dashboards are written for them.
"""

import collections
import functools
import json
import re
import threading
import time
import traceback

import nova.version
from oslo_log import log as logging
from oslo_utils import strutils

from nova_specguard import actions
from nova_specguard.fields import base
from nova_specguard import reader

# Below nova's own logger, so that a logging configuration file written for
# nova ([DEFAULT] log_config_append) lets alerts through.
LOGGER = 'nova.specguard'
LOG = logging.getLogger(LOGGER)

SUMMARY = 'SPECGUARD-001'
IN_PLACE = 'SPECGUARD-002'
CORRECTED = 'SPECGUARD-101'
REFUSED = 'SPECGUARD-102'
ALLOWED = 'SPECGUARD-103'
UNVERIFIABLE = 'SPECGUARD-201'
FAULT = 'SPECGUARD-202'
MISCONFIGURED = 'SPECGUARD-203'
FOUND = 'SPECGUARD-301'
HEALED = 'SPECGUARD-302'
NOT_HEALED = 'SPECGUARD-303'
DISK = 'SPECGUARD-401'
DISK_REPAIRED = 'SPECGUARD-402'
DISK_NOT_REPAIRED = 'SPECGUARD-403'

_LEVELS = {
    SUMMARY: logging.INFO,
    IN_PLACE: logging.INFO,
    CORRECTED: logging.WARNING,
    REFUSED: logging.ERROR,
    ALLOWED: logging.WARNING,
    UNVERIFIABLE: logging.ERROR,
    FAULT: logging.ERROR,
    MISCONFIGURED: logging.ERROR,
    FOUND: logging.WARNING,
    HEALED: logging.WARNING,
    NOT_HEALED: logging.WARNING,
    DISK: logging.WARNING,
    DISK_REPAIRED: logging.WARNING,
    DISK_NOT_REPAIRED: logging.WARNING,
}
_REMEMBERED_INCIDENTS = 4096
_PLAIN = re.compile(r'[A-Za-z0-9_.:/@+,|-]+\Z')
# Greedy: a password may hold what should have been escaped.
_CREDENTIALS = re.compile(r'(://)\S*@')


def line(code, values):
    """Format an alert.

    Whatever a value holds (flavor names and extra specs are free text), it
    stays on one line and inside its own value.

    :param code: one of the codes of this module
    :param values: dict of key to value, in order; None is left out
    :returns: str
    """
    return ' '.join([code] + ['%s=%s' % (key, _escape(value))
                              for key, value in values.items()
                              if value is not None])


def _escape(value):
    text = mask(value)
    # json.dumps escapes quotes, backslashes, control characters and all that
    # is not ASCII, line separators and terminal sequences included.
    return text if _PLAIN.match(text) else json.dumps(text)


def mask(value):
    """A value as text without passwords.

    :param value: anything
    :returns: str
    """
    return strutils.mask_password(_CREDENTIALS.sub(r'\1***@', str(value)))


def _observed(differences):
    """What an alert says of differences: keys and values, in order."""
    values = {
        'fields': ','.join(d.field for d in differences),
        'classes': ','.join(d.drift_class.name for d in differences),
        'severity': min((d.drift_class.severity for d in differences),
                        key=base.SEVERITIES.index)}
    for difference in differences:
        values[difference.field + '_spec'] = difference.spec_value
        values[difference.field + '_current'] = difference.current_value
    return values


def at_rest(code, operation, outcome, finding, differences, reason=None):
    """Alert what a command found of a server at rest, or did about it.

    :param code: FOUND, HEALED, NOT_HEALED, DISK, DISK_REPAIRED or
        DISK_NOT_REPAIRED
    :param operation: name of the command
    :param outcome: its name in the line
    :param finding: what has instance_uuid, project_id and cell, as
        nova_specguard.audit.audit.Finding
    :param differences: the differences that this outcome is about
    :param reason: why it was not healed or repaired
    """
    LOG.log(_LEVELS[code], '%s', line(code, {
        'operation': operation, 'outcome': outcome,
        'instance': finding.instance_uuid, 'project': finding.project_id,
        **_observed(differences), 'cell': finding.cell, 'reason': reason,
        'service': 'nova-specguard'}))


class Reporter:
    """The alerts and the counts of one service in this process.

    :param service: name of the service's binary
    """

    COUNTED = ('checked', 'corrected', 'refused', 'allowed', 'unverifiable',
               'faults')

    def __init__(self, service):
        self.service = service
        self.hook_problems = []
        self._option_problems = ()
        self._lock = threading.Lock()
        self._seen = collections.OrderedDict()
        self._counts = collections.Counter()
        self._seconds = 0.0
        self._since = None

    def _log(self, code, values, **kwargs):
        LOG.log(_LEVELS[code], '%s', line(code, values), **kwargs)

    def _log_incident(self, code, values, context):
        """Log an incident and have it shown with the instance action."""
        self._log(code, values)
        actions.record(context, values['instance'], values['outcome'],
                       line(code, values))

    def begin(self, options):
        """Start on a request.

        Says at first use that the guard is in place, and what is
        misconfigured: at first use and when it is new.

        :param options: nova_specguard.conf.Options
        """
        with self._lock:
            first = self._since is None
            if first:
                self._since = time.monotonic()
            known, self._option_problems = (self._option_problems,
                                            options.problems)
        if first:
            self._log(IN_PLACE, {
                'service': self.service, 'mode': options.mode,
                'nova': nova.version.version_string()})
            self._log_problems(self.hook_problems)
        self._log_problems(problem for problem in options.problems
                           if problem not in known)

    def end(self, options, seconds):
        """Finish a request, and write the summary when one is due.

        :param options: nova_specguard.conf.Options
        :param seconds: time that the guard took for the request
        """
        now = time.monotonic()
        with self._lock:
            self._counts['checked'] += options.mode != 'off'
            self._seconds += seconds
            interval = now - self._since
            if interval < options.summary_interval:
                return
            summary = {name: self._counts[name] for name in self.COUNTED}
            summary.update(seconds='%.3f' % self._seconds,
                           interval='%.0f' % interval)
            self._counts.clear()
            self._seconds = 0.0
            self._since = now
        self._log(SUMMARY, {'service': self.service, **summary})
        self._log_problems([*self.hook_problems, *options.problems])

    def _log_problems(self, problems):
        for problem in problems:
            self._log(MISCONFIGURED, {'service': self.service,
                                      'reason': problem})

    def _is_new(self, context, instance_uuid, code):
        """Whether an incident has no line yet in this process."""
        request_id = getattr(context, 'request_id', None)
        if request_id is None:
            return True
        incident = (request_id, instance_uuid, code)
        with self._lock:
            if incident in self._seen:
                return False
            self._seen[incident] = True
            if len(self._seen) > _REMEMBERED_INCIDENTS:
                self._seen.popitem(last=False)
            return True

    def drift(self, code, outcome, context, finding, differences):
        """Alert that fields of a request spec differ, and what was done.

        :param code: CORRECTED, REFUSED or ALLOWED
        :param outcome: its name in the line and in the summary
        :param context: RequestContext of the request
        :param finding: nova_specguard.guard.Finding
        :param differences: the differences that this outcome is about
        """
        current = finding.current
        if not self._is_new(context, current.uuid, code):
            return
        with self._lock:
            self._counts[outcome] += 1
        self._log_incident(code, {
            'operation': finding.operation, 'outcome': outcome,
            'instance': current.uuid, 'project': current.project_id,
            **_observed(differences), 'cell': finding.cell,
            'request_id': context.request_id, 'service': self.service},
            context)

    def unverifiable(self, outcome, context, spec, finding, operation):
        """Alert that a request could not be checked.

        :param outcome: ``refused`` or ``allowed``
        :param context: RequestContext of the request
        :param spec: nova.objects.RequestSpec
        :param finding: nova_specguard.guard.Finding
        :param operation: which one it is, or can be
        """
        if not self._is_new(context, spec.instance_uuid, UNVERIFIABLE):
            return
        with self._lock:
            self._counts['unverifiable'] += 1
            self._counts[outcome] += 1
        self._log_incident(UNVERIFIABLE, {
            'operation': operation, 'outcome': outcome,
            'instance': spec.instance_uuid,
            'project': reader.get(spec, 'project_id'),
            'reason': finding.unverifiable,
            'cell': finding.cell,
            'request_id': context.request_id, 'service': self.service},
            context)

    def fault(self, context, spec, operation, exc):
        """Alert that the guard itself failed; the request goes on.

        Call it from an except clause.

        :param context: RequestContext of the request, or None
        :param spec: nova.objects.RequestSpec, or None
        :param operation: which one it is, as far as it is known
        :param exc: the exception
        """
        instance_uuid = reader.get(spec, 'instance_uuid')
        if not self._is_new(context, instance_uuid, FAULT):
            return
        with self._lock:
            self._counts['faults'] += 1
        # Not chained and with its message masked: tracebacks go to the log.
        masked = type(type(exc).__name__, (Exception,), {})(_escape(exc))
        where = traceback.extract_tb(exc.__traceback__)[-1]
        self._log(FAULT, {
            'operation': operation, 'outcome': 'allowed',
            'instance': instance_uuid,
            'project': reader.get(spec, 'project_id'),
            'error': type(exc).__name__, 'message': reader.short(mask(exc)),
            'where': '%s:%s' % (where.filename.rpartition('/')[2],
                                where.lineno),
            'request_id': getattr(context, 'request_id', None),
            'service': self.service},
            exc_info=(type(masked), masked, exc.__traceback__))


@functools.lru_cache(maxsize=None)
def reporter(service):
    """The reporter of a service, made once.

    :param service: ``nova-conductor`` or ``nova-scheduler``
    :returns: Reporter
    """
    return Reporter(service)
