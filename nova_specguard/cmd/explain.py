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
"""nova-specguard explain."""

import contextlib

import nova.conf
from nova import context as nova_context

from nova_specguard.audit import api_rows
from nova_specguard.audit import audit
from nova_specguard.audit import cell_rows
from nova_specguard.audit import history as server_history
from nova_specguard.audit import parting
from nova_specguard.audit import reading
from nova_specguard.audit import report
from nova_specguard.audit import selection
from nova_specguard.audit import stored
from nova_specguard.cmd import base
from nova_specguard.cmd import errors
from nova_specguard import conf
from nova_specguard import exception
from nova_specguard import instances
from nova_specguard import reader


CONF = nova.conf.CONF
DRIFT = 'drift'


class Explain(base.Command):
    """Tell the story of one server.

    Migrations, instance actions and the times of its rows, in order; then one
    row for each difference that an audit finds, with the event after which
    the copies parted, most probably. Reads only.

    Exit codes: 0 no drift; 2 a database could not be read; 3 drift was found;
    127 bad arguments, or no such server; 255 an unexpected error. Of several
    the highest, but 2 before 3.
    """

    COLUMNS = server_history.Event._fields

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'instance', metavar='UUID', type=base.instance_uuid,
            help='UUID of the server.')
        return parser

    def take_action(self, parsed_args):
        uuid = parsed_args.instance
        running = audit.Audit(
            selection.Selection(instances=frozenset({uuid})), conf.options(),
            base.DAY)
        found, rows = [], []
        try:
            mapping = _mapping(uuid)
            found = list(running.run(lambda: None))
            rows = story(mapping, uuid, found)
        except exception.DatabaseUnreadable as exc:
            if exc.format_message() not in running.unreadable:
                running.unreadable.append(exc.format_message())
        for text in running.unreadable:
            self.app.LOG.error(text)
        if running.in_flight:
            self.app.LOG.warning(
                'nova is working on the server: it was not compared.')
        self._exit_code = base.exit_code(
            running, any(map(report.is_drift, found)))
        return self.COLUMNS, rows


def _mapping(uuid):
    if CONF.api_database.connection is None:
        # the files of a cell conductor
        raise exception.DatabaseUnreadable(
            database=api_rows.NAME, cause='no [api_database] connection')
    mapping = api_rows.mapping(nova_context.get_admin_context(), uuid)
    if mapping is None:
        raise errors.CommandError(
            'no server %s, or it is in no cell yet' % uuid)
    return mapping


def story(mapping, uuid, found):
    """The rows of a server: what is on record, then the conclusions.

    :param mapping: nova.objects.CellMapping of its cell
    :param uuid: UUID of the server
    :param found: list of Finding
    :returns: list of values of Event, times as text
    :raises DatabaseUnreadable: if its cell or the API database cannot be read
    """
    name = mapping.name or mapping.uuid
    context = nova_context.get_admin_context()
    with contextlib.ExitStack() as stack:
        with reading.of(name):
            cell_context = stack.enter_context(
                instances.targeted(context, mapping))
        cell = cell_rows.Cell(name, cell_context)
        history = server_history.read(cell, [uuid])[uuid]
        embedded = _flavors(cell, mapping, uuid)
        names = {**dict(embedded.values()),
                 **server_history.flavor_names([history])}
    events = history.events(names) + [
        _conclusion(finding.difference, embedded, history, names)
        for finding in found]
    return [(server_history.shown(event.time), *event[1:])
            for event in events]


def _conclusion(difference, embedded, history, names):
    time, text = parting.event(
        difference, parting.foreign_flavors(difference, embedded), history,
        names)
    return server_history.Event(
        time, DRIFT, difference.field, difference.drift_class.name, text)


def _flavors(cell, mapping, uuid):
    """The flavors of the server and of its request spec.

    :returns: dict of ``cur``, ``old``, ``new`` and ``spec`` to (id, name)
    """
    row = cell.instances([uuid]).get(uuid)
    mapped = api_rows.again(mapping.id, [uuid])
    return parting.copies(
        reader.as_dict(stored.parse(row.flavor)) if row else {},
        stored.parse(mapped[0].spec) if mapped else None)
