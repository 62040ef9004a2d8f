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
"""What the commands have in common that begin with an audit."""

import argparse
import contextlib
import datetime
import gc
import uuid

from cliff import lister
from nova import context
from oslo_utils import timeutils
from oslo_utils import uuidutils

from nova_specguard.audit import api_rows
from nova_specguard.audit import audit
from nova_specguard.audit import selection
from nova_specguard.cmd import errors
from nova_specguard.cmd import output
from nova_specguard.cmd import progress
from nova_specguard import conf
from nova_specguard import exception
from nova_specguard import reader

STOPPED = 1
UNREADABLE = 2
DRIFT = 3

DAY = 24 * 60 * 60


class Command(lister.Lister):
    """A command that prints rows."""

    COLUMNS = ()
    # What fits on a terminal, if not all.
    TABLE_COLUMNS = ()
    # Several lines each, that are printable already.
    TEXT_COLUMNS = ()
    # Whether it changes rows of nova.
    WRITES = False

    def run(self, parsed_args):
        self._exit_code = 0
        self._failure = None
        self._choose_columns(parsed_args)
        self._check_options()
        super().run(parsed_args)
        if self._failure is not None:
            # After the rows: the work that they tell of is done.
            raise self._failure
        return self._exit_code

    def _check_options(self):
        problems = conf.options().problems
        if problems and self.WRITES:
            raise errors.CommandError(
                'nothing is written while options are invalid: %s'
                % '; '.join(problems))
        for problem in problems:
            self.app.LOG.warning(problem)

    def produce_output(self, parsed_args, column_names, data):
        # Names, hints and extra specs are free text of users.
        rows = [
            [reader.printable(value) if isinstance(value, str)
             and name not in self.TEXT_COLUMNS else value
             for name, value in zip(column_names, row)] for row in data]
        with self.printing():
            return super().produce_output(parsed_args, column_names, rows)

    @contextlib.contextmanager
    def printing(self):
        """Print something, and be sure that it is written.

        :raises BrokenPipeError: if nobody reads it any more
        :raises CommandError: if it cannot be written
        """
        try:
            yield
            self.app.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as exc:
            raise errors.CommandError(output.message(exc))

    def columns(self, parsed_args):
        """The columns that there are.

        :returns: tuple of names
        """
        return self.COLUMNS

    def _choose_columns(self, parsed_args):
        columns = self.columns(parsed_args)
        for column in parsed_args.columns:
            if column not in columns:
                raise errors.CommandError('no column %r, only %s' % (
                    column, ', '.join(columns)))
        if not parsed_args.columns and parsed_args.formatter == 'table':
            parsed_args.columns = [
                column for column in columns
                if column in self.TABLE_COLUMNS] or list(columns)


class AuditCommand(Command):
    """A command over servers that are selected and audited."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--cell', action='append', default=[], metavar='CELL',
            help='Name or UUID of a cell, can be repeated.')
        parser.add_argument(
            '--instance', action='append', default=[], metavar='UUID',
            type=instance_uuid, help='UUID of a server, can be repeated.')
        parser.add_argument(
            '--project', action='append', default=[], metavar='PROJECT',
            help='Id of a project, can be repeated.')
        parser.add_argument(
            '--host', action='append', default=[], metavar='HOST',
            help='Name of a compute service, can be repeated.')
        parser.add_argument(
            '--field', action='append', default=[], metavar='FIELD',
            choices=selection.FIELDS,
            help='This field only, can be repeated: %s.'
                 % ', '.join(selection.FIELDS))
        parser.add_argument(
            '--max-count', type=_positive, metavar='N',
            help='Look at N servers at most.')
        parser.add_argument(
            '--allocations', action='store_true',
            help='Also read from placement what is allocated to the servers, '
                 'one request per compute node, and compare it with their '
                 'flavors.')
        add_stuck_after(parser)
        return parser

    def audit(self, parsed_args):
        """Audit the selected servers.

        :returns: (Audit that has run, list of Finding)
        :raises CommandError: if there is no such cell or server
        """
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
        if not (running.checked or running.unreadable or
                running.selection.is_whole_cloud):
            # Of a project or host that is misspelled, nova knows nothing.
            self.app.LOG.warning('no server was selected')
        return running, found

    def end(self, running, is_drift_left):
        """Set with what the program ends.

        :param running: Audit that has run
        :param is_drift_left: whether there is drift that was not repaired
        """
        self._exit_code = exit_code(running, is_drift_left)


def add_stuck_after(parser):
    """Add the option that says what nova no longer works on."""
    parser.add_argument(
        '--stuck-after', type=_age, default=DAY, metavar='SECONDS',
        help='How long a server or migration may be in the middle of an '
             'operation without a change (default: %d).' % DAY)


def exit_code(running, is_drift_left):
    """With what a program ends.

    :param running: Audit that has run
    """
    if running.unreadable:
        return UNREADABLE
    if is_drift_left:
        return DRIFT
    return STOPPED if running.has_more else 0


def instance_uuid(text):
    """Type of an argument.

    :returns: the UUID as nova writes it
    :raises ArgumentTypeError: if it is none
    """
    if not uuidutils.is_uuid_like(text):
        raise argparse.ArgumentTypeError('%r is no UUID' % text)
    # as nova writes it: with hyphens, in lower case
    return str(uuid.UUID(text))


def _positive(text):
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError('%r is not above 0' % text)
    return int(text)


def _age(text):
    seconds = _positive(text)
    try:
        timeutils.utcnow() - datetime.timedelta(seconds=seconds)
    except OverflowError:
        raise argparse.ArgumentTypeError('%s seconds are too many' % text)
    return seconds


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
    for instance in selected.instances - servers:
        raise errors.CommandError('no server %s' % instance)
