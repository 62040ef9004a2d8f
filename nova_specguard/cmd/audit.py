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
"""nova-specguard audit."""

import time

from nova_specguard import alerts
from nova_specguard.audit import report
from nova_specguard.cmd import base
from nova_specguard.cmd import errors


class Audit(base.AuditCommand):
    """Compare the request specs of servers with the servers.

    Reads the API database and all cells but cell0, and writes nothing. Prints
    one row per difference. Servers that nova is working on are not compared,
    unless it has been doing so for longer than --stuck-after. Each server
    with a difference is alerted as SPECGUARD-301 where nova's logs go.

    Exit codes: 0 nothing was found but what is shown only (heal: show); 1
    stopped at --max-count with more to do; 2 a database could not be read,
    the rest is reported; 3 drift was found; 127 bad arguments; 255 an
    unexpected error. Of several the highest, but 2 before 3 before 1.
    """

    TABLE_COLUMNS = ('instance_uuid', 'cell', 'host', 'field', 'drift_class',
                     'severity', 'spec_value', 'current_value', 'state')

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--summary', action='store_true',
            help='Print how many servers there are of each drift class.')
        parser.add_argument(
            '--textfile', metavar='FILE.prom',
            help='Also write the numbers to a file for the textfile '
                 'collector of the Prometheus node exporter.')
        return parser

    def columns(self, parsed_args):
        return (report.SUMMARY_COLUMNS if parsed_args.summary
                else report.COLUMNS)

    def take_action(self, parsed_args):
        running, found = self.audit(parsed_args)
        drifted = [finding for finding in found if report.is_drift(finding)]
        for of_server in report.by_server(drifted):
            alerts.at_rest(
                alerts.FOUND, 'audit', 'found', of_server[0],
                [finding.difference for finding in of_server])
        self.end(running, drifted)
        if parsed_args.textfile:
            self._write_textfile(parsed_args.textfile, running, found)
        if parsed_args.summary:
            return report.SUMMARY_COLUMNS, report.summary(found)
        return report.COLUMNS, list(map(report.row, found))

    def _write_textfile(self, path, running, found):
        try:
            report.replace_file(
                path, report.metrics(running, found, time.time()))
        except OSError as exc:
            self._failure = errors.CommandError(
                'cannot write %s: %s' % (path, exc.strerror))
