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

"""What is wrong with a server."""

from nova_specguard.audit import classes
from nova_specguard.audit import server as audit_server
from nova_specguard.audit import stored
from nova_specguard import fields
from nova_specguard.operation import Operation
from nova_specguard import reader

# No operation is running: in this one every field has an expected value, and
# what is expected of a server at rest is what all moves but a resize expect.
OPERATION = Operation.UNKNOWN

# Name of the column of instances to the name in the flavor.
_COLUMNS = {'instance_type_id': 'id', 'vcpus': 'vcpus',
            'memory_mb': 'memory_mb', 'root_gb': 'root_gb',
            'ephemeral_gb': 'ephemeral_gb'}


def of(server, options):
    """Everything that is wrong with a server.

    :param server: Server, read as far as its fields need it
    :param options: nova_specguard.conf.Options
    :returns: list of Difference
    """
    found = list(server.faults)
    if server.mapped.spec is None:
        found.append(classes.finding(
            classes.SPEC, classes.SPEC_MISSING, None, None))
    if not fields.flavor.is_readable(server.flavors.get('cur')):
        found.append(classes.finding(
            classes.INSTANCE, classes.INSTANCE_UNREADABLE, None,
            'no flavor'))
    elif server.current is not None:
        differences = [
            difference for difference in fields.differences(
                server.spec, server.current, OPERATION, options)
            if options.field_modes.get(difference.field) != 'off']
        if differences and not found:
            # Where something is wrong, it is worth the time.
            found.extend(stored.load_faults(server.spec))
        found.extend(differences)
    if server.operation is None and not server.is_resized:
        found.extend(_stashed(server))
        found.extend(_columns(server))
    return found


def _stashed(server):
    stashed = {name: _name(server.flavors[name]) for name in ('old', 'new')
               if server.flavors.get(name) is not None}
    if stashed:
        yield classes.finding(
            classes.STASHED, classes.STASHED_FLAVOR,
            ' '.join('%s=%s' % item for item in stashed.items()),
            _name(server.flavors.get('cur')))


def _name(flavor):
    return '%s (%s)' % (reader.short(reader.get(flavor, 'name'), 60),
                        reader.short(reader.get(flavor, 'id'), 20))


def _columns(server):
    flavor = server.flavors.get('cur')
    pairs = {}
    for column, name in _COLUMNS.items():
        value = getattr(server.row, column)
        expected = reader.get(flavor, name)
        if None not in (value, expected) and value != expected:
            pairs[column] = (value, expected)
    if pairs:
        yield classes.finding(classes.COLUMNS, classes.INSTANCE_COLUMNS,
                              *fields.base.short_pairs(pairs))


def stuck(server, since):
    """What has not moved for too long.

    :param server: Server with its migrations
    :param since: datetime; what has not changed since then is stuck
    :returns: list of Difference
    """
    found = []
    if (server.operation and
            server.state(since) == audit_server.STUCK):
        found.append(_stuck('%s: task_state=%s since %s' % (
            server.operation, server.row.task_state,
            _time(server.row))))
    elif not server.operation:
        found.extend(
            _stuck('%s %s: %s, flavor %s to %s, since %s' % (
                migration.migration_type, migration.id, migration.status,
                migration.old_instance_type_id,
                migration.new_instance_type_id, _time(migration)))
            for migration in server.unexpected_migrations()
            if audit_server.last_change(migration) < since)
    return found


def _stuck(text):
    return classes.finding(
        classes.MIGRATION, classes.MIGRATION_STUCK, None, text)


def _time(row):
    return audit_server.last_change(row).isoformat(
        sep=' ', timespec='seconds')
