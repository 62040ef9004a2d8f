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

import argparse
import gc
import time

from cliff import lister
from nova import context
from oslo_utils import uuidutils

from nova_specguard.audit import api_rows
from nova_specguard.audit import audit
from nova_specguard.audit import report
from nova_specguard.audit import selection
from nova_specguard.cmd import errors
from nova_specguard.cmd import progress
from nova_specguard import conf
from nova_specguard import exception

STOPPED = 1
UNREADABLE = 2
DRIFT = 3

_DAY = 24 * 60 * 60


class Audit(lister.Lister):
    """Compare the request specs of servers with the servers.

    Reads the API database and all cells but cell0, and writes nothing. Prints
    one row per difference. Servers that nova is working on are not compared,
    unless it has been doing so for longer than --stuck-after.

    Exit codes: 0 nothing was found; 1 stopped at --max-count with more to do;
    2 a database could not be read, the rest is reported; 3 drift was found;
    127 bad arguments; 255 an unexpected error. Of several the highest, but 2
    before 3 before 1.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--cell', action='append', default=[], metavar='CELL',
            help='Name or UUID of a cell, can be repeated.')
        parser.add_argument(
            '--instance', action='append', default=[], metavar='UUID',
            type=_uuid, help='UUID of a server, can be repeated.')
        parser.add_argument(
            '--project', action='append', default=[], metavar='PROJECT',
            help='Id of a project, can be repeated.')
        parser.add_argument(
            '--host', action='append', default=[], metavar='HOST',
            help='Name of a compute service, can be repeated.')
        parser.add_argument(
            '--field', action='append', default=[], metavar='FIELD',
            choices=selection.FIELDS,
            help='Report this field only, can be repeated: %s.'
                 % ', '.join(selection.FIELDS))
        parser.add_argument(
            '--max-count', type=_positive, metavar='N',
            help='Look at N servers at most.')
        parser.add_argument(
            '--summary', action='store_true',
            help='Print how many servers there are of each drift class.')
        parser.add_argument(
            '--stuck-after', type=_positive, default=_DAY, metavar='SECONDS',
            help='How long a server or migration may be in the middle of an '
                 'operation without a change (default: %(default)s).')
        parser.add_argument(
            '--allocations', action='store_true',
            help='Also read from placement what is allocated to the servers, '
                 'one request per compute node, and compare it with their '
                 'flavors.')
        parser.add_argument(
            '--textfile', metavar='FILE.prom',
            help='Also write the numbers to a file for the textfile '
                 'collector of the Prometheus node exporter.')
        return parser

    def run(self, parsed_args):
        self._check_columns(parsed_args)
        super().run(parsed_args)
        return self._exit_code

    def take_action(self, parsed_args):
        running = audit.Audit(
            _selection(parsed_args), conf.options(), parsed_args.stuck_after,
            parsed_args.allocations)
        _check(running.selection)
        # All that nova has imported stays: it need not be searched for garbage
        # once for every few thousand rows.
        gc.freeze()
        bar = progress.Bar(self.app.stderr)
        found = list(running.run(
            lambda: bar.show(running.done, running.total)))
        bar.clear()
        for text in running.unreadable:
            self.app.LOG.error(text)
        self._exit_code = exit_code(running, found)
        if parsed_args.textfile:
            self._write_textfile(parsed_args.textfile, running, found)
        if parsed_args.summary:
            return report.SUMMARY_COLUMNS, report.summary(found)
        return report.COLUMNS, list(map(report.row, found))

    def _check_columns(self, parsed_args):
        columns = (report.SUMMARY_COLUMNS if parsed_args.summary
                   else report.COLUMNS)
        for column in parsed_args.columns:
            if column not in columns:
                raise errors.CommandError('no column %r, only %s' % (
                    column, ', '.join(columns)))
        if not (parsed_args.columns or parsed_args.summary or
                parsed_args.formatter != 'table'):
            parsed_args.columns = list(report.TABLE_COLUMNS)

    def _write_textfile(self, path, running, found):
        try:
            report.replace_file(
                path, report.metrics(running, found, time.time()))
        except OSError as exc:
            raise errors.CommandError(
                'cannot write %s: %s' % (path, exc.strerror))


def exit_code(audited, found):
    """With what the program ends.

    :param audited: Audit that has run
    :param found: list of Finding
    :returns: an exit code
    """
    if audited.unreadable:
        return UNREADABLE
    if found:
        return DRIFT
    return STOPPED if audited.has_more else 0


def _uuid(text):
    if not uuidutils.is_uuid_like(text):
        raise argparse.ArgumentTypeError('%r is no UUID' % text)
    return text


def _positive(text):
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError('%r is not above 0' % text)
    return int(text)


def _selection(parsed_args):
    return selection.Selection(
        cells=frozenset(parsed_args.cell),
        instances=frozenset(parsed_args.instance),
        projects=frozenset(parsed_args.project),
        hosts=frozenset(parsed_args.host),
        fields=frozenset(parsed_args.field),
        max_count=parsed_args.max_count)


def _check(selected):
    """What was misspelled would otherwise look like a healthy cloud.

    :raises CommandError: if there is no such cell or server
    """
    try:
        cells = api_rows.cells(context.get_admin_context())
        servers = api_rows.known(selected.instances)
    except exception.DatabaseUnreadable:
        # the audit will say so
        return
    for cell in selected.cells:
        if not any(cell in (known.name, known.uuid) for known in cells):
            raise errors.CommandError('no cell %s' % cell)
    for uuid in selected.instances - servers:
        raise errors.CommandError('no server %s' % uuid)
