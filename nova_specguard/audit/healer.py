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
"""Repairing request specs at rest, one server at a time.

nova saves a whole request spec from memory and asks nobody. So a row is
repaired only while nova does nothing with the server, only if it still is
what was read, and looked at again afterwards.
"""

import functools
import json

from nova import context as nova_context

from nova_specguard import actions
from nova_specguard.audit import api_rows
from nova_specguard.audit import cell_rows
from nova_specguard.audit import findings
from nova_specguard.audit import healing
from nova_specguard.audit import journal as undo_journal
from nova_specguard.audit import reading
from nova_specguard.audit import server as audit_server
from nova_specguard.audit import spec_row
from nova_specguard.audit import stored
from nova_specguard import exception
from nova_specguard import fields
from nova_specguard import instances
from nova_specguard import reader


class Healer:
    """Plans repairs and carries them out."""

    def __init__(self, options, since, is_wanted):
        """Prepare repairs.

        :param options: nova_specguard.conf.Options
        :param since: datetime; migrations that have not changed since then
            are stuck, and nobody works on them
        :param is_wanted: callable that is given a Difference and tells
            whether it is to be repaired
        """
        self._options = options
        self._since = since
        self._is_wanted = is_wanted
        self._context = nova_context.get_admin_context()

    def plan(self, instance_uuid):
        """Work out what a repair would write; nothing is written.

        :param instance_uuid: UUID of the server
        :returns: Plan
        :raises NotRepairable: if it cannot be repaired, or not now
        """
        server = self._idle(instance_uuid)
        spec, faults = stored.parse_spec(server.mapped.spec)
        healing.check_faults(faults)
        return healing.plan(
            server, *self._compare(instance_uuid, spec), self._options,
            self._is_wanted)

    def carry_out(self, plan, journal):
        """Write what was planned.

        :param plan: Plan
        :param journal: Journal
        :raises NotRepairable: if the server or its request spec changed, or
            began to, and it is left, or put back, as it was
        :raises OSError: if the journal cannot be written; nothing else is
        """
        if self.plan(plan.instance_uuid) != plan:
            raise exception.NotRepairable(
                reason='it has changed since it was looked at')
        journal.write(undo_journal.Entry(
            plan.instance_uuid, plan.cell, list(plan.fields), plan.old,
            plan.new))
        if not self._replace(plan.instance_uuid, plan.old, plan.new):
            raise exception.NotRepairable(
                reason='nova has saved it at the same moment')
        try:
            self._look_again(plan)
        except exception.NotRepairable as exc:
            is_undone = self._replace(
                plan.instance_uuid, plan.new, plan.old)
            raise exception.NotRepairable(reason='%s: %s' % (
                'undone' if is_undone else 'nova has saved it since',
                exc.format_message())) from None

    def put_back(self, entry, is_dry_run=False):
        """Undo a repair.

        As careful as the repair was: nova can save the request spec from
        memory over what is put back, and lose the rest of it.

        :param entry: Entry of a journal; the row is as it says
        :param is_dry_run: whether to look only
        :raises NotRepairable: if the server or its request spec changed, or
            began to, and it is left, or put right again, as it was
        :raises NotReached: if a database could not be read or written
        """
        self._idle(entry.instance_uuid)
        if is_dry_run:
            return
        if not self._replace(entry.instance_uuid, entry.new, entry.old):
            raise exception.NotRepairable(reason='nova has saved it since')
        try:
            self._idle(entry.instance_uuid)
        except exception.NotRepairable as exc:
            is_undone = self._replace(
                entry.instance_uuid, entry.old, entry.new)
            raise type(exc)(reason='%s: %s' % (
                'undone' if is_undone else 'nova has saved it since',
                exc.format_message())) from None

    @staticmethod
    def record(plan):
        """Tell the users of the server, as an instance action.

        :param plan: Plan that was carried out
        :raises DatabaseUnreadable: if the action, or all of it, could not be
            written; the repair stays
        """
        reading.answer(
            plan.cell, actions.record_heal, nova_context.get_admin_context(),
            plan.instance_uuid,
            'request spec repaired: %s' % ', '.join(plan.fields))

    def _idle(self, instance_uuid):
        """Make sure that nova does nothing with the server.

        :returns: Server
        :raises NotRepairable: if it does, or if there is nothing to repair
        """
        try:
            mapping = api_rows.mapping(self._context, instance_uuid)
            if mapping is None:
                raise exception.NotRepairable(reason='it is in no cell')
            name = mapping.name or mapping.uuid
            with instances.targeted(self._context, mapping) as context:
                cell = cell_rows.Cell(name, context)
                row = cell.instances([instance_uuid]).get(instance_uuid)
                migrations = cell.migrations([instance_uuid])
                mapped = api_rows.again(mapping.id, [instance_uuid])
        except exception.DatabaseUnreadable as exc:
            raise exception.NotReached(reason=exc.format_message())
        if row is None or row.deleted or not mapped or not mapped[0].spec:
            raise exception.NotRepairable(reason='it is gone')
        server = audit_server.Server(mapped[0], row, name)
        server.migrations = migrations
        healing.check_idle(server, self._since)
        return server

    def _compare(self, instance_uuid, spec):
        """By the guard's own reading.

        :returns: (CurrentInstance, list of Difference)
        :raises NotRepairable: if the server cannot be read
        """
        try:
            current = instances.read(
                self._context, instance_uuid, self._options.lookup_timeout,
                functools.partial(fields.needs, spec, self._options),
                reader.get(spec, fields.availability_zone.NAME))
            found = fields.differences(
                spec, current, findings.OPERATION, self._options)
        except (exception.InstanceGone, exception.Unverifiable) as exc:
            raise exception.NotRepairable(reason=exc.format_message())
        return current, [
            difference for difference in found
            if self._options.field_modes.get(difference.field) != 'off']

    def _look_again(self, plan):
        if self._idle(plan.instance_uuid).mapped.spec != plan.new:
            raise exception.NotRepairable(reason='it was saved once more')
        _current, differences = self._compare(
            plan.instance_uuid, json.loads(plan.new))
        if any(difference.field in plan.fields
               for difference in differences):
            raise exception.NotRepairable(reason='the server has changed')

    def _replace(self, instance_uuid, old, new):
        try:
            return reading.answer(api_rows.NAME, spec_row.replace,
                                  self._context, instance_uuid, old, new)
        except exception.DatabaseUnreadable as exc:
            raise exception.NotReached(
                reason='its row could not be written: %s'
                       % exc.kwargs['cause'])
