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

"""From page to page, from cell to cell."""

import contextlib
import dataclasses
import datetime
import typing

from nova import context as nova_context
from oslo_utils import timeutils

from nova_specguard.audit import alike
from nova_specguard.audit import allocations
from nova_specguard.audit import api_rows
from nova_specguard.audit import bulk
from nova_specguard.audit import causes
from nova_specguard.audit import cell_rows
from nova_specguard.audit import classes
from nova_specguard.audit import findings
from nova_specguard.audit import healing
from nova_specguard.audit import reading
from nova_specguard.audit import server as audit_server
from nova_specguard import exception
from nova_specguard.fields import base

PAGE_SIZE = 500


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that is wrong with one server.

    :ivar difference: what is wrong
    :ivar state: IDLE or STUCK of nova_specguard.audit.server
    :ivar operation: what nova is doing with the server, or None
    :ivar heal: REPAIR, WAIT, REPORT or SHOW of nova_specguard.audit.healing
    :ivar reason: why heal would not repair what can be corrected, or None
    :ivar cause: what made it, where the history of the server is certain
    """

    instance_uuid: str
    difference: base.Difference
    cell: typing.Optional[str] = None
    project_id: typing.Optional[str] = None
    host: typing.Optional[str] = None
    state: str = audit_server.IDLE
    operation: typing.Optional[str] = None
    heal: str = healing.REPORT
    reason: typing.Optional[str] = None
    cause: typing.Optional[str] = None


class Audit:
    """An audit of a cloud, or of the part of it that was selected.

    :ivar checked: how many servers were looked at
    :ivar in_flight: how many of them were not compared, because nova was
        working on them
    :ivar unreadable: texts about the databases that could not be read
    :ivar done: how many of the selected servers are behind it
    :ivar total: how many servers are selected, apart from the host
    """

    def __init__(self, selection, options, stuck_after,
                 with_allocations=False):
        """Prepare an audit.

        :param selection: Selection
        :param options: nova_specguard.conf.Options
        :param stuck_after: seconds
        :param with_allocations: whether to compare allocations, too
        """
        self.selection = selection
        self.options = options
        self.since = timeutils.utcnow() - datetime.timedelta(
            seconds=stuck_after)
        self.checked = 0
        self.in_flight = 0
        self.unreadable = []
        self.done = 0
        self.total = 0
        self._with_allocations = with_allocations
        self._context = nova_context.get_admin_context()
        self._clean = alike.Clean()
        self._zones = None

    @property
    def is_full(self):
        """Whether as many servers as were asked for were looked at."""
        return self.checked == self.selection.max_count

    @property
    def has_more(self):
        """Whether it stopped at ``max_count`` with more to do."""
        return self.is_full and self.done < self.total

    def run(self, progress):
        """Look at all servers.

        :param progress: callable without arguments, for each page
        :returns: iterable of Finding
        """
        cells = []
        with self._going_on():
            cells = [cell for cell in api_rows.cells(self._context)
                     if self.selection.has_cell(cell)]
            self._zones = api_rows.zones()
            self.total = api_rows.count(
                [cell.id for cell in cells], self.selection)
        if self._zones is None:
            return
        for cell in cells:
            if self.is_full:
                break
            with self._going_on():
                yield from self._cell(cell, progress)
        if self.selection.is_whole_cloud:
            with self._going_on():
                yield from self._specs_without_mapping()

    @contextlib.contextmanager
    def _going_on(self):
        try:
            yield
        except exception.DatabaseUnreadable as exc:
            text = exc.format_message()
            if text not in self.unreadable:
                self.unreadable.append(text)

    def _cell(self, mapping, progress):
        name = mapping.name or mapping.uuid
        with contextlib.ExitStack() as stack:
            with reading.of(name):
                context = stack.enter_context(
                    nova_context.target_cell(self._context, mapping))
            cell = cell_rows.Cell(name, context)
            reader = bulk.Reader(
                self._context, cell, self._zones, self.options,
                allocations.NEEDS if self._with_allocations else frozenset())
            allocated = allocations.Allocations(self._context, cell)
            overdue = {migration.instance_uuid for migration
                       in cell.migrations_before(self.since)}
            suspects = []
            for page in self._pages(reader, mapping.id):
                suspects += self._suspects(reader, *page, overdue, allocated)
                if len(suspects) >= PAGE_SIZE:
                    yield from self._look_again(reader, mapping.id, suspects)
                    suspects = []
                progress()
                if self.is_full:
                    break
            if suspects:
                yield from self._look_again(reader, mapping.id, suspects)

    def _pages(self, reader, cell_id):
        after = 0
        while page := api_rows.page(
                cell_id, self.selection, after, PAGE_SIZE):
            after = page[-1].id
            yield page, *reader.servers(page)

    def _suspects(self, reader, page, servers, lost, overdue, allocated):
        """The servers of a page with which something may be wrong.

        :returns: list of UUIDs
        """
        servers = [server for server in servers
                   if self.selection.has_host(server.row.host)]
        if self.selection.max_count:
            left = self.selection.max_count - self.checked
            if len(servers) > left:
                del servers[left:]
                page = page[:page.index(servers[-1].mapped) + 1]
        self.done += len(page)
        self.checked += len(servers)
        suspects = []
        idle = []
        for server in servers:
            state = server.state(self.since)
            if state == audit_server.IDLE:
                idle.append(server)
            elif state == audit_server.STUCK:
                suspects.append(server.row.uuid)
            else:
                self.in_flight += 1
        suspects.extend(server.row.uuid for server in idle
                        if server.row.uuid in overdue)
        clean = None if self._with_allocations else self._clean
        for server in reader.read(idle, clean):
            if (findings.of(server, self.options) or
                    self._misallocated(server, allocated)):
                suspects.append(server.row.uuid)
            else:
                self._clean.add(server)
        if not self.selection.hosts:
            suspects.extend(
                mapped.uuid for mapped in lost if mapped.spec is not None)
        return suspects

    def _misallocated(self, server, allocated):
        if not self._with_allocations or server.operation:
            return []
        with self._going_on():
            return allocations.differences(server, allocated.of(server))
        # The rest goes on without.
        self._with_allocations = False
        return []

    def _look_again(self, reader, cell_id, suspects):
        """What is still wrong with servers that were read piece by piece.

        API database and cell were read one after the other: an operation can
        have begun or ended in between.
        """
        servers, lost = reader.servers(api_rows.again(cell_id, suspects))
        migrations = {}
        for migration in reader.cell.migrations(suspects):
            migrations.setdefault(migration.instance_uuid, []).append(
                migration)
        for server in servers:
            server.migrations = migrations.get(server.row.uuid, [])
        quiet = [server for server in servers
                 if server.state(self.since) != audit_server.IN_FLIGHT]
        self.in_flight += len(servers) - len(quiet)
        reader.read(quiet)
        # which have to be as new as the rows
        allocated = allocations.Allocations(self._context, reader.cell)
        found = [(server, findings.of(server, self.options) +
                  findings.stuck(server, self.since) +
                  self._misallocated(server, allocated)) for server in quiet]
        certain = causes.certain(reader.cell, found)
        for server, differences in found:
            outlook = healing.outlook(
                server, differences, self.since, self.options,
                self._is_wanted)
            for difference in filter(self._is_wanted, differences):
                heal, reason = outlook.get(
                    difference.field, (healing.otherwise(difference), None))
                yield Finding(
                    server.row.uuid, difference, server.cell,
                    server.row.project_id, server.row.host,
                    server.state(self.since), server.operation, heal, reason,
                    certain.get((server.row.uuid, difference.field)))
        if self.selection.has_field(classes.SPEC):
            for mapped in lost:
                yield Finding(
                    mapped.uuid, _orphan('no server in the cell'),
                    reader.cell.name, mapped.project_id)

    def _is_wanted(self, difference):
        return self.selection.has_field(difference.field)

    def _specs_without_mapping(self):
        last = ''
        while uuids := api_rows.specs_without_mapping(last, PAGE_SIZE):
            last = uuids[-1]
            for uuid in uuids:
                # nova deletes mapping and spec one after the other
                if (api_rows.has_spec_without_mapping(uuid) and
                        self.selection.has_field(classes.SPEC)):
                    yield Finding(uuid, _orphan('no instance mapping'))


def _orphan(reason):
    return classes.finding(classes.SPEC, classes.SPEC_ORPHAN, None, reason)
