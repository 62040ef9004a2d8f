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
"""nova-specguard restore."""

import datetime

from nova import context
from oslo_utils import timeutils

from nova_specguard.audit import api_rows
from nova_specguard.audit import healer
from nova_specguard.audit import journal
from nova_specguard.audit import reading
from nova_specguard.audit import spec_row
from nova_specguard.cmd import base
from nova_specguard.cmd import errors
from nova_specguard import conf
from nova_specguard import exception


class Restore(base.Command):
    """Undo what heal wrote.

    Puts the texts of a journal back, the last one first, and only where the
    request spec still is exactly what heal wrote: what nova has saved since
    stays. Only idle servers, as heal; they are looked at again afterwards.

    Exit codes: 0 all of it is as it was before; 2 a row could not be read or
    written; 3 a row has been changed since, or is gone, or nova is working on
    its server; 127 bad arguments, or no journal; 255 an unexpected error. Of
    several the highest, but 2 before 3.
    """

    COLUMNS = ('instance_uuid', 'cell', 'fields', 'outcome')
    WRITES = True

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'journal', metavar='JOURNAL', help='File that heal has written.')
        parser.add_argument(
            '--instance', action='append', default=[], metavar='UUID',
            type=base.instance_uuid,
            help='UUID of a server, can be repeated.')
        base.add_stuck_after(parser)
        parser.add_argument(
            '--dry-run', action='store_true',
            help='Show what would be put back, and write nothing.')
        return parser

    def take_action(self, parsed_args):
        try:
            entries = journal.read(parsed_args.journal)
        except OSError as exc:
            raise errors.CommandError('cannot read %s: %s' % (
                parsed_args.journal, exc.strerror))
        except journal.JournalUnreadable as exc:
            raise errors.CommandError('%s: %s' % (parsed_args.journal, exc))
        known = {entry.instance_uuid for entry in entries}
        for uuid in parsed_args.instance:
            if uuid not in known:
                raise errors.CommandError(
                    'no server %s in %s' % (uuid, parsed_args.journal))
        self._healer = healer.Healer(
            conf.options(), timeutils.utcnow() - datetime.timedelta(
                seconds=parsed_args.stuck_after), lambda difference: False)
        return self.COLUMNS, [
            (entry.instance_uuid, entry.cell, ','.join(entry.fields),
             self._restore(entry, parsed_args.dry_run))
            for entry in entries if not parsed_args.instance or
            entry.instance_uuid in parsed_args.instance]

    def _restore(self, entry, is_dry_run):
        try:
            text = reading.answer(
                api_rows.NAME, spec_row.read, context.get_admin_context(),
                entry.instance_uuid)
            if text == entry.old:
                return 'as it was before'
            if text is None:
                raise exception.NotRepairable(
                    reason='its request spec is gone')
            if text != entry.new:
                raise exception.NotRepairable(
                    reason='nova has saved it since')
            self._healer.put_back(entry, is_dry_run)
        except (exception.DatabaseUnreadable, exception.NotReached) as exc:
            self._exit_code = base.UNREADABLE
            return 'not restored: %s' % exc.format_message()
        except exception.NotRepairable as exc:
            self._exit_code = self._exit_code or base.DRIFT
            return 'not restored: %s' % exc.format_message()
        return 'would be restored' if is_dry_run else 'restored'
