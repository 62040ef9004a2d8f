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
"""What is on record about servers, in order of time."""

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

    def __init__(self, migrations, actions, rows):
        """Put together what was read.

        :param rows: list of Event, those of the request spec last
        """
        self.migrations = migrations
        self.actions = actions
        self._rows = rows
        saved = [event.time for event in rows
                 if event.event.startswith('request_specs')]
        self.spec_saved_at = saved[-1] if saved else None

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


def read(cell, uuids):
    """Read the histories of some servers.

    :param cell: Cell of cell_rows
    :param uuids: UUIDs of the servers
    :returns: dict of UUID to History
    :raises DatabaseUnreadable: if cell or API database cannot be read
    """
    migrations = _of_each(_select(
        cell, _MIGRATIONS, Migration._fields, uuids), Migration)
    events = _of_each(cell.execute(
        sa.select(_EVENTS.c.action_id, _EVENTS.c.event, _EVENTS.c.result,
                  _EVENTS.c.host)
        .join(_ACTIONS, _ACTIONS.c.id == _EVENTS.c.action_id)
        .where(_ACTIONS.c.instance_uuid.in_(uuids)).order_by(_EVENTS.c.id)),
        lambda *event: event)
    actions = _of_each(
        _select(cell, _ACTIONS, Action._fields[:-1], uuids),
        lambda *row: Action(*row, events.get(row[0], [])))
    rows = {}
    for table, key, execute in (
            (_INSTANCES, _INSTANCES.c.uuid, cell.execute),
            (_EXTRA, _EXTRA.c.instance_uuid, cell.execute),
            (_SPECS, _SPECS.c.instance_uuid, api_rows.execute)):
        for uuid, *times in execute(
                sa.select(key, table.c.created_at, table.c.updated_at)
                .where(key.in_(uuids))):
            rows.setdefault(uuid, []).extend(
                Event(time, ROW, '%s %s' % (table.name, what), None, None)
                for time, what in zip(times, ('created', 'last saved'))
                if time)
    return {uuid: History(*(found.get(uuid, [])
                            for found in (migrations, actions, rows)))
            for uuid in uuids}


def _select(cell, table, names, uuids):
    return cell.execute(
        sa.select(table.c.instance_uuid, *(table.c[name] for name in names))
        .where(table.c.instance_uuid.in_(uuids)).order_by(table.c.id))


def _of_each(rows, make):
    """Make something of rows.

    :param rows: iterable of whose it is, and values
    :param make: callable that is given the values
    :returns: dict of whose it is to list of what was made
    """
    found = {}
    for owner, *values in rows:
        found.setdefault(owner, []).append(make(*values))
    return found


def flavor_names(histories):
    """The names of the flavors that migrations are about.

    :param histories: iterable of History
    :returns: dict of id to name; without flavors that are deleted
    :raises DatabaseUnreadable: if the API database cannot be read
    """
    ids = {flavor_id for history in histories
           for migration in history.migrations for flavor_id in (
               migration.old_instance_type_id,
               migration.new_instance_type_id)}
    return dict(map(tuple, api_rows.execute(
        sa.select(_FLAVORS.c.id, _FLAVORS.c.name)
        .where(_FLAVORS.c.id.in_(ids - {None})))))


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
