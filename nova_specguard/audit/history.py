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
"""What is on record about one server, in order of time."""

import collections
import datetime

from nova.db.api import models as api_models
from nova.db.main import models
import sqlalchemy as sa

from nova_specguard.audit import api_rows

MIGRATION, ACTION, ROW = 'migration', 'action', 'row'

_MIGRATIONS = models.Migration.__table__
_ACTIONS = models.InstanceAction.__table__
_EVENTS = models.InstanceActionEvent.__table__
_INSTANCES = models.Instance.__table__
_EXTRA = models.InstanceExtra.__table__
_SPECS = api_models.RequestSpec.__table__
_FLAVORS = api_models.Flavors.__table__

Event = collections.namedtuple('Event', 'time source event result details')


class Migration(collections.namedtuple(
        'Migration', 'id migration_type status old_instance_type_id '
        'new_instance_type_id source_compute dest_compute created_at '
        'updated_at')):
    """A migration, ended or not."""

    @property
    def time(self):
        return self.updated_at or self.created_at


class Action(collections.namedtuple(
        'Action', 'id action request_id start_time finish_time events')):
    """An instance action.

    :ivar events: list of (name, result, host)
    """

    @property
    def time(self):
        return self.start_time

    @property
    def failed(self):
        """Those of its events that ended with an error, or not at all."""
        return [event for event in self.events if event[1] != 'Success']

    @property
    def result(self):
        results = {event[1] for event in self.events}
        if 'Error' in results:
            return 'Error'
        return 'unfinished' if None in results or not results else 'Success'


class History:
    """What is on record about one server.

    :ivar migrations: list of Migration, oldest first
    :ivar actions: list of Action, oldest first
    :ivar spec_saved_at: datetime of the last save of its request spec, or
        None
    """

    def __init__(self, cell, instance_uuid):
        """Read the history.

        :param cell: Cell of cell_rows
        :param instance_uuid: UUID of the server
        :raises DatabaseUnreadable: if cell or API database cannot be read
        """
        self._cell = cell
        self._uuid = instance_uuid
        self.migrations = [Migration(*row) for row in self._select(
            _MIGRATIONS, Migration._fields, _MIGRATIONS.c.id)]
        self.actions = self._actions()
        self._rows = self._row_times()
        saved = [event.time for event in self._rows
                 if event.event.startswith('request_specs')]
        self.spec_saved_at = saved[-1] if saved else None

    def _select(self, table, names, order):
        return self._cell.execute(
            sa.select(*(table.c[name] for name in names))
            .where(table.c.instance_uuid == self._uuid).order_by(order))

    def _actions(self):
        names = Action._fields[:-1]
        events = {}
        for action_id, *event in self._cell.execute(
                sa.select(_EVENTS.c.action_id, _EVENTS.c.event,
                          _EVENTS.c.result, _EVENTS.c.host)
                .join(_ACTIONS, _ACTIONS.c.id == _EVENTS.c.action_id)
                .where(_ACTIONS.c.instance_uuid == self._uuid)
                .order_by(_EVENTS.c.id)):
            events.setdefault(action_id, []).append(tuple(event))
        return [Action(*row, events.get(row[0], [])) for row in self._select(
            _ACTIONS, names, _ACTIONS.c.id)]

    def _row_times(self):
        times = []
        for table, key, source in (
                (_INSTANCES, _INSTANCES.c.uuid, self._cell.execute),
                (_EXTRA, _EXTRA.c.instance_uuid, self._cell.execute),
                (_SPECS, _SPECS.c.instance_uuid, api_rows.execute)):
            for created_at, updated_at in source(
                    sa.select(table.c.created_at, table.c.updated_at)
                    .where(key == self._uuid)):
                times += [(created_at, table.name, 'created'),
                          (updated_at, table.name, 'last saved')]
        return [Event(time, ROW, '%s %s' % (name, what), None, None)
                for time, name, what in times if time]

    def flavor_names(self, embedded):
        """The names of the flavors that the migrations are about.

        :param embedded: dict of id to name, of flavors that may be deleted
        :returns: dict of id to name
        :raises DatabaseUnreadable: if the API database cannot be read
        """
        ids = {flavor_id for migration in self.migrations for flavor_id in (
            migration.old_instance_type_id, migration.new_instance_type_id)}
        return {**embedded, **dict(map(tuple, api_rows.execute(
            sa.select(_FLAVORS.c.id, _FLAVORS.c.name)
            .where(_FLAVORS.c.id.in_(ids - {None})))))}

    def events(self, flavor_names):
        """All of it, in order of time.

        :param flavor_names: dict of id to name
        :returns: list of Event; what has no time comes first
        """
        found = list(self._rows)
        for migration in self.migrations:
            found.append(Event(
                migration.time, MIGRATION, named(migration, flavor_names),
                migration.status, '%s to %s' % (
                    migration.source_compute or '-',
                    migration.dest_compute or '-')))
        for action in self.actions:
            found.append(Event(
                action.time, ACTION,
                '%s %s' % (action.action, action.request_id), action.result,
                ', '.join('%s: %s%s' % (name, result or 'unfinished',
                                        ' on %s' % host if host else '')
                          for name, result, host in action.failed)))
        return sorted(found, key=lambda event: (
            event.time or datetime.datetime.min))


def shown(time):
    """A time as text, to the second.

    :param time: datetime, or None
    """
    return time and time.isoformat(sep=' ', timespec='seconds')


def named(migration, flavor_names):
    """What to call a migration.

    :param migration: Migration
    :param flavor_names: dict of id to name
    :returns: text
    """
    text = '%s %s' % (migration.migration_type, migration.id)
    if migration.migration_type == 'resize':
        flavor_id = migration.new_instance_type_id
        text += ' to %s' % flavor_names.get(flavor_id,
                                            'flavor %s' % flavor_id)
    return text
