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
"""nova-specguard heal."""

import contextlib
import difflib
import json
import sys

from oslo_utils import timeutils

from nova_specguard import alerts
from nova_specguard.audit import healer
from nova_specguard.audit import healing
from nova_specguard.audit import journal as undo_journal
from nova_specguard.audit import report
from nova_specguard.cmd import base
from nova_specguard.cmd import errors
from nova_specguard.cmd import progress
from nova_specguard import conf
from nova_specguard import exception
from nova_specguard import reader

HEALED, WOULD_HEAL, LEFT = 'healed', 'would be healed', 'left'


class Heal(base.AuditCommand):
    """Repair the request specs of servers at rest.

    Audits the selected servers and repairs, in the API database, what is
    certain: a request spec that differs from its server. Shows the changes
    and asks before it writes. Only idle servers, only what differs, and only
    rows that nova does not change at the same time; what was written is
    looked at again. The old texts are kept in a journal, for restore. Each
    server is alerted as SPECGUARD-302 or 303 where nova's logs go.

    Exit codes: 0 nothing was found, or all of it was healed; 1 stopped at
    --max-count with more to do; 2 a database could not be read, or an
    instance action not be recorded; 3 drift is left, or would be without
    --dry-run; 127 bad arguments; 255 an unexpected error. Of several the
    highest, but 2 before 3 before 1.
    """

    COLUMNS = ('instance_uuid', 'cell', 'project_id', 'host', 'field',
               'drift_class', 'severity', 'spec_value', 'current_value',
               'outcome', 'reason', 'diff')
    TABLE_COLUMNS = ('instance_uuid', 'cell', 'host', 'field', 'drift_class',
                     'outcome', 'reason')
    TEXT_COLUMNS = ('diff',)
    WRITES = True

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--class', action='append', default=[], metavar='CLASS',
            dest='classes', choices=report.CLASS_NAMES,
            help='This drift class only, can be repeated: %s.'
                 % ', '.join(report.CLASS_NAMES))
        parser.add_argument(
            '--journal', metavar='FILE',
            help='Where to keep the old texts; the file must not exist '
                 '(default: nova-specguard-heal-TIME.jsonl in the current '
                 'directory).')
        parser.add_argument(
            '--record-action', action='store_true',
            help='Also record each repair as an instance action, which the '
                 'users of the server see.')
        parser.add_argument(
            '--dry-run', action='store_true',
            help='Show what would change, and write nothing.')
        parser.add_argument(
            '--yes', action='store_true', help='Do not ask.')
        return parser

    def take_action(self, parsed_args):
        # None if it is closed
        is_asked = sys.stdin is not None and sys.stdin.isatty()
        if not (parsed_args.dry_run or parsed_args.yes or is_asked):
            raise errors.CommandError(
                'nobody to ask: give --yes, or --dry-run')
        running, found = self.audit(parsed_args)
        found = [finding for finding in found
                 if self._is_wanted(parsed_args, finding.difference)]
        self._healer = healer.Healer(
            conf.options(), running.since,
            lambda difference: self._is_wanted(parsed_args, difference))
        self._unrecorded = {}
        plans, reasons = self._plan(found)
        is_table = parsed_args.formatter == 'table'
        if is_table:
            # Nothing is written that could not be shown.
            with self.printing():
                for plan in plans.values():
                    self.app.stdout.write(diff(plan))
        if not (parsed_args.dry_run or parsed_args.yes or
                is_table and self.app.stdout.isatty()):
            for plan in plans.values():
                self.app.stderr.write(diff(plan))
        outcome = WOULD_HEAL
        if plans and not parsed_args.dry_run:
            outcome = HEALED
            if parsed_args.yes or self._ask(len(plans)):
                self._carry_out(
                    found, plans, reasons,
                    parsed_args.journal or _default_journal(),
                    parsed_args.record_action)
            else:
                reasons.update(dict.fromkeys(plans, 'not confirmed'))
                plans = {}
        self.end(running, any(
            report.is_drift(finding) and not (
                outcome == HEALED and _is_in(plans, finding))
            for finding in found))
        if self._unrecorded:
            self._exit_code = base.UNREADABLE
        if not parsed_args.dry_run:
            for of_server in report.by_server(
                    finding for finding in found if report.is_drift(finding)
                    and not _is_in(plans, finding)):
                _alert(alerts.NOT_HEALED, of_server,
                       _reason(of_server[0], reasons))
        return self.COLUMNS, _rows(
            found, plans, {**reasons, **self._unrecorded}, outcome)

    @staticmethod
    def _is_wanted(parsed_args, difference):
        return ((not parsed_args.field or
                 difference.field in parsed_args.field) and
                (not parsed_args.classes or
                 difference.drift_class.name in parsed_args.classes))

    def _plan(self, found):
        plans, reasons = {}, {}
        for uuid in dict.fromkeys(finding.instance_uuid for finding in found
                                  if finding.difference.is_correctable):
            try:
                plans[uuid] = self._healer.plan(uuid)
            except exception.NotRepairable as exc:
                reasons[uuid] = exc.format_message()
        return plans, reasons

    def _ask(self, count):
        self.app.stderr.write('Repair %d servers? [y/N] ' % count)
        self.app.stderr.flush()
        return sys.stdin.readline().strip().lower() in ('y', 'yes')

    def _carry_out(self, found, plans, reasons, path, is_recorded):
        """Leaves in plans what was done."""
        try:
            journal = undo_journal.Journal(path)
        except OSError as exc:
            self._failure = errors.CommandError(
                'cannot write the journal %s: %s' % (path, exc.strerror))
            reasons.update(dict.fromkeys(plans, _no_journal(exc)))
            plans.clear()
            return
        self.app.LOG.warning('The old texts are in %s.', path)
        bar = progress.Bar(self.app.stderr)
        total = len(plans)
        with contextlib.closing(journal):
            for done, (uuid, plan) in enumerate(list(plans.items()), 1):
                try:
                    self._healer.carry_out(plan, journal)
                except exception.NotRepairable as exc:
                    reasons[uuid] = exc.format_message()
                except OSError as exc:
                    reasons[uuid] = _no_journal(exc)
                if uuid in reasons:
                    del plans[uuid]
                else:
                    if is_recorded:
                        self._record(plan)
                    _alert(alerts.HEALED, [
                        finding for finding in found if finding.instance_uuid
                        == uuid and _is_in(plans, finding)], None)
                bar.show(done, total)
        bar.clear()

    def _record(self, plan):
        try:
            self._healer.record(plan)
        except exception.DatabaseUnreadable as exc:
            self._unrecorded[plan.instance_uuid] = (
                'its instance action was not recorded: %s'
                % exc.kwargs['cause'])


def diff(plan):
    """What a repair changes, for people.

    :param plan: Plan
    :returns: unified diff of the indented texts
    """
    old, new = (
        json.dumps(json.loads(text), indent=2).splitlines(keepends=True)
        for text in (plan.old, plan.new))
    return ''.join(
        reader.printable(line.rstrip('\n')) + '\n'
        for line in difflib.unified_diff(
            old, new, 'request spec of %s' % plan.instance_uuid, 'repaired'))


def _default_journal():
    return 'nova-specguard-heal-%s.jsonl' % timeutils.utcnow().strftime(
        '%Y%m%dT%H%M%SZ')


def _no_journal(exc):
    return 'the journal cannot be written: %s' % exc.strerror


def _is_in(plans, finding):
    plan = plans.get(finding.instance_uuid)
    return plan is not None and finding.difference.field in plan.fields


def _alert(code, of_server, reason):
    alerts.at_rest(
        code, 'heal', HEALED if code == alerts.HEALED else LEFT,
        of_server[0], [finding.difference for finding in of_server], reason)


def _reason(finding, reasons):
    if finding.difference.is_correctable:
        return reasons.get(finding.instance_uuid, healing.MIXED)
    return report.advice(finding)


def _rows(found, plans, reasons, outcome):
    rows = []
    for finding in found:
        is_healed = _is_in(plans, finding)
        rows.append(report.row(finding)[:9] + (
            outcome if is_healed else LEFT,
            reasons.get(finding.instance_uuid) if is_healed
            else _reason(finding, reasons),
            diff(plans[finding.instance_uuid]) if is_healed else None))
    return rows
