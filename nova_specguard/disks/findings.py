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

"""What an audit says of a disk."""

import dataclasses
import typing

from nova_specguard.fields import base

# Of a row's ``field``, and of the guard's field that is made of it.
FIELD = 'disk'

BASE_OTHER = base.DriftClass(
    'disk-base-other', 'warning',
    'An unshelve before nova 22, or one that failed; a rebuild in between '
    'lost the record of the image.',
    'LP#1732428, LP#1893618, LP#1934094.')
BASE_MISSING = base.DriftClass(
    'disk-base-missing', 'critical',
    'The base was deleted: by hand, or by the image cache manager, which only '
    'knows what a disk named "disk" uses directly.')
CHAIN = base.DriftClass(
    'disk-chain', 'warning',
    'A snapshot that libvirt or an operator made and did not merge.')
UNSAFE = base.DriftClass(
    'disk-unsafe', 'critical',
    'The disk names a file or a server that no disk of nova names. Made by '
    'hand, or by a tenant.', 'CVE-2024-32498.')

# It does no harm as long as nova goes by its own record, and a tenant shall
# not be able to raise alarms by it.
HEADER = dataclasses.replace(
    UNSAFE, severity='info',
    cause='A tenant wrote the header of an image format to the start of its '
          'raw disk, as anyone may.')

# What an audit says: something is wrong; nothing is; it was left out, and the
# reason says why; it could not be read.
FOUND, CLEAN, NOT_APPLICABLE, UNREADABLE = (
    'found', 'clean', 'not applicable', 'unreadable')

COLUMNS = ('instance_uuid', 'cell', 'project_id', 'host', 'field', 'disk',
           'drift_class', 'severity', 'spec_value', 'current_value', 'path',
           'state', 'reason', 'safe_until', 'audited_at')


@dataclasses.dataclass(frozen=True)
class Finding:
    """What an audit says of one disk.

    :ivar instance_uuid: name of the folder where it is not that of a server
    :ivar disk: name of the file, as ``disk``; None for what concerns the whole
        folder
    :ivar path: absolute path of the disk
    :ivar state: one of FOUND, CLEAN, NOT_APPLICABLE, UNREADABLE
    :ivar drift_class: DriftClass, if FOUND
    :ivar expected_base: path of the base that nova would use, if there is one
    :ivar found_base: what is written in the disk; can be anything
    :ivar reason: one line
    :ivar safe_until: what is safe now and when that ends, if FOUND
    :ivar cell: name of the cell, if the server is known
    :ivar project_id: if the server is known
    :ivar host: name of the compute service
    :ivar audited_at: text as 2026-12-01T04:00:00Z, in UTC: when the audit of
        the folder began
    """

    instance_uuid: str
    disk: typing.Optional[str]
    path: str
    state: str
    drift_class: typing.Optional[base.DriftClass] = None
    expected_base: typing.Optional[str] = None
    found_base: typing.Optional[str] = None
    reason: typing.Optional[str] = None
    safe_until: typing.Optional[str] = None
    cell: typing.Optional[str] = None
    project_id: typing.Optional[str] = None
    host: typing.Optional[str] = None
    audited_at: typing.Optional[str] = None

    @property
    def difference(self):
        """The finding in the form of a field's, for an alert.

        :returns: Difference
        """
        return base.Difference(
            FIELD, self.drift_class, self.expected_base, self.found_base,
            is_correctable=False)


def is_drift(finding):
    """Whether anything has to be done about a finding.

    :param finding: Finding
    """
    return (finding.state == FOUND and
            finding.drift_class.severity != HEADER.severity)


def row(finding):
    """A finding as values of COLUMNS.

    :param finding: Finding
    :returns: tuple
    """
    drift_class = finding.drift_class
    return (finding.instance_uuid, finding.cell, finding.project_id,
            finding.host, FIELD, finding.disk,
            drift_class and drift_class.name,
            drift_class and drift_class.severity, finding.expected_base,
            finding.found_base, finding.path, finding.state, finding.reason,
            finding.safe_until, finding.audited_at)
