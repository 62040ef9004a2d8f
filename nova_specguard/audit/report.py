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

"""Rows, sums, metrics."""

import collections
import os
import tempfile

from nova_specguard.audit import classes
from nova_specguard import fields
from nova_specguard import reader

COLUMNS = ('instance_uuid', 'cell', 'project_id', 'host', 'field',
           'drift_class', 'severity', 'spec_value', 'current_value', 'state',
           'operation', 'cause', 'heal', 'reason')
SUMMARY_COLUMNS = ('drift_class', 'field', 'severity', 'servers')

CLASS_NAMES = tuple(sorted(
    drift_class.name for known in (
        *(field.CLASSES for field in fields.FIELDS),
        *classes.CLASSES.values())
    for drift_class in known))

_ADVICE = {
    classes.ALLOCATION_OTHER:
        'nova-manage placement heal_allocations --instance %(uuid)s --force',
    classes.ALLOCATION_UNJUDGED:
        'compare all its providers with what the flavor asks for: openstack '
        'resource provider allocation show %(uuid)s',
    classes.MIGRATION_STUCK:
        'set its state, and look for what the migration holds: '
        'nova-manage placement audit --verbose',
    classes.STASHED_FLAVOR: 'nothing: the next resize overwrites it',
    classes.SPEC_MISSING:
        'nova has no tool for it: put the row back from a backup',
    classes.SPEC_ORPHAN: 'nothing: no server uses it',
    fields.image.AMBIGUOUS:
        'rebuild it to the image that is on its disk',
}

_METRICS = (
    ('nova_specguard_audit_drifts', 'Servers by what was found.'),
    ('nova_specguard_audit_servers', 'Servers that were looked at.'),
    ('nova_specguard_audit_in_flight',
     'Servers that were not compared, because nova was working on them.'),
    ('nova_specguard_audit_unreadable', 'Databases that were not read.'),
    ('nova_specguard_audit_last_run_timestamp_seconds',
     'When the audit ended.'),
)


def row(finding):
    """A finding as values of COLUMNS.

    :param finding: Finding
    :returns: tuple
    """
    difference = finding.difference
    return (finding.instance_uuid, finding.cell, finding.project_id,
            finding.host, difference.field, difference.drift_class.name,
            difference.drift_class.severity, difference.spec_value,
            difference.current_value, finding.state, finding.operation,
            finding.cause or difference.drift_class.cause, finding.heal,
            finding.reason if difference.is_correctable else advice(finding))


def is_drift(finding):
    """Whether anything has to be done about a finding.

    :param finding: Finding
    """
    return finding.difference.drift_class not in classes.SHOWN


def advice(finding):
    """What a person can do about what heal does not repair.

    :param finding: Finding
    :returns: text
    """
    drift_class = finding.difference.drift_class
    return _ADVICE.get(drift_class, 'see %s in the reference' %
                       drift_class.name) % {'uuid': finding.instance_uuid}


def by_server(found):
    """The findings of each server.

    :param found: iterable of Finding
    :returns: list of lists of Finding, in the order found
    """
    servers = {}
    for finding in found:
        servers.setdefault(finding.instance_uuid, []).append(finding)
    return list(servers.values())


def summary(findings):
    """How many servers each drift class was found with.

    :param findings: iterable of Finding
    :returns: list of values of SUMMARY_COLUMNS, most first
    """
    servers = {}
    for finding in findings:
        found = finding.difference
        servers.setdefault(
            (found.drift_class.name, found.field, found.drift_class.severity),
            set()).add(finding.instance_uuid)
    return sorted((key + (len(uuids),) for key, uuids in servers.items()),
                  key=lambda line: (-line[-1],) + line)


def metrics(audit, findings, now):
    """The result of an audit for Prometheus.

    :param audit: Audit that has run
    :param findings: list of Finding
    :param now: seconds since the epoch
    :returns: text in the exposition format
    """
    drifts = collections.Counter()
    seen = set()
    for finding in findings:
        found = finding.difference.drift_class
        key = finding.cell or '', found.name, found.severity
        if (finding.instance_uuid, key) not in seen:
            seen.add((finding.instance_uuid, key))
            drifts[key] += 1
    samples = (
        [('{cell="%s",drift_class="%s",severity="%s"}'
          % ((escaped(key[0]),) + key[1:]), count)
         for key, count in sorted(drifts.items())],
        [('', audit.checked)], [('', audit.in_flight)],
        [('', len(audit.unreadable))], [('', int(now))])
    lines = []
    for (name, text), values in zip(_METRICS, samples):
        lines += ['# HELP %s %s' % (name, text), '# TYPE %s gauge' % name]
        lines += ['%s%s %d' % (name, labels, value)
                  for labels, value in values]
    return '\n'.join(lines) + '\n'


def escaped(value):
    """The value of a label.

    :param value: anything
    :returns: text without its quotes
    """
    return reader.short(value).replace('\\', r'\\').replace(
        '"', r'\"').replace('\n', r'\n')


def replace_file(path, text):
    """Write a file so that a reader finds either the old or the new one.

    :param path: path of the file
    :param text: its contents
    :raises OSError: if it cannot be written; the old file is kept
    """
    handle, temporary = tempfile.mkstemp(
        dir=os.path.dirname(path) or '.',
        prefix='.%s.' % os.path.basename(path))
    try:
        # What Prometheus reads, whatever the locale.
        with os.fdopen(handle, 'w', encoding='utf-8') as written:
            written.write(text)
        # node exporter runs as another user
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
