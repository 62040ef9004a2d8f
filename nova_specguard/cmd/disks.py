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

"""nova-specguard disks export and disks audit."""

import os

from cliff import command
import nova.conf

from nova_specguard import alerts
from nova_specguard.audit import report
from nova_specguard.cmd import base
from nova_specguard.cmd import errors
from nova_specguard.cmd import progress
from nova_specguard.disks import audit
from nova_specguard.disks import export
from nova_specguard.disks import facts
from nova_specguard.disks import findings
from nova_specguard import exception

CONF = nova.conf.CONF


class Export(command.Command):
    """Write down what "disks audit" on a compute host has to know.

    Run it on a controller. Reads the API database and the cell of the host,
    and prints the file: the servers that are on the host, or that have a
    migration to or from it. There are no names, addresses or secrets in it.

    Exit codes: 0 printed; 2 a database could not be read; 127 bad arguments,
    as a host that nova does not know; 255 an unexpected error.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--host', required=True, metavar='HOST',
            help='Name of the compute service.')
        return parser

    def take_action(self, parsed_args):
        try:
            found = export.of_host(parsed_args.host)
        except exception.DatabaseUnreadable as exc:
            raise errors.CommandError(exc.format_message(), base.UNREADABLE)
        if found is None:
            raise errors.CommandError(
                'no compute host %s' % parsed_args.host)
        self.app.stdout.write(found.dump())


class Audit(base.Command):
    """Compare the disks of a compute host with the images of its servers.

    Run it on the compute host as the user of nova-compute, with the file that
    "disks export" has printed. Reads the headers of the files that each qcow2
    disk stands on, with qemu-img and in the formats that nova has recorded,
    which is safe while guests run; writes nothing. Prints one row per finding
    and per disk that could not be read. Each server with a finding is alerted
    as SPECGUARD-401 where nova's logs go.

    Exit codes: 0 nothing was found, but headers in raw disks; 2 a folder or
    disk could not be read, the rest is reported; 3 something was found; 127
    bad arguments, as a file of another release; 255 an unexpected error. Of
    several the highest, but 2 before 3.
    """

    COLUMNS = findings.COLUMNS
    TABLE_COLUMNS = ('instance_uuid', 'disk', 'drift_class', 'severity',
                     'state', 'reason', 'safe_until')

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--facts', required=True, metavar='FILE',
            help='What "disks export" has printed; - for stdin.')
        parser.add_argument(
            '--instances-path', metavar='DIR',
            help="nova's folder of servers (default: that of nova.conf).")
        parser.add_argument(
            '--all', action='store_true',
            help='Print a row for each disk, also for those that are right, '
                 'or that do not apply.')
        return parser

    def take_action(self, parsed_args):
        running = self._begin(parsed_args)
        bar = progress.Bar(self.app.stderr)
        try:
            found = list(running.run(
                lambda: bar.show(running.done, running.total)))
        except (exception.QemuImgAsRoot, exception.QemuImgMissing) as exc:
            raise errors.CommandError(exc.format_message())
        finally:
            bar.clear()
        drifted = list(filter(findings.is_drift, found))
        for of_server in report.by_server(drifted):
            alerts.at_rest(
                alerts.DISK, 'disks-audit', 'found', of_server[0],
                [finding.difference for finding in of_server])
        self._end(found, drifted)
        return self.COLUMNS, [
            findings.row(finding) for finding in found
            if parsed_args.all or finding.state in (
                findings.FOUND, findings.UNREADABLE)]

    def _begin(self, parsed_args):
        known = self._facts(parsed_args.facts)
        if known.host != CONF.host:
            self.app.LOG.warning(
                '%s is of host %s, this one is %s by its configuration',
                parsed_args.facts, known.host, CONF.host)
        path = os.path.abspath(
            parsed_args.instances_path or CONF.instances_path)
        try:
            return audit.Audit(known, path)
        except OSError as exc:
            raise errors.CommandError(
                'cannot read %s: %s' % (path, exc.strerror))

    def _facts(self, path):
        try:
            if path == '-':
                return facts.load(self.app.stdin.read())
            with open(path, encoding='utf-8') as read:
                return facts.load(read.read())
        except OSError as exc:
            raise errors.CommandError(
                'cannot read %s: %s' % (path, exc.strerror))
        except exception.FactsUnreadable as exc:
            raise errors.CommandError(
                '%s is %s' % (path, exc.format_message()))

    def _end(self, found, drifted):
        if any(finding.state == findings.UNREADABLE for finding in found):
            self._exit_code = base.UNREADABLE
        else:
            self._exit_code = base.DRIFT if drifted else 0
