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

"""Reading a cell database in bulk."""

import collections

from nova.db.main import api as main_db
from nova.db.main import models
import sqlalchemy as sa
from sqlalchemy.ext import compiler

from nova_specguard.audit import reading
from nova_specguard import instances

_INSTANCES = models.Instance.__table__
_EXTRA = models.InstanceExtra.__table__
_METADATA = models.InstanceSystemMetadata.__table__
_DEVICES = models.BlockDeviceMapping.__table__
_MIGRATIONS = models.Migration.__table__
_NODES = models.ComputeNode.__table__

_COLUMNS = (
    'uuid', 'deleted', 'vm_state', 'task_state', 'host', 'node', 'image_ref',
    'project_id', 'user_id', 'created_at', 'updated_at', 'instance_type_id',
    'vcpus', 'memory_mb', 'root_gb', 'ephemeral_gb')
_EXTRA_COLUMNS = ('flavor', 'numa_topology', 'pci_requests')

# As in nova's own migration_get_in_progress_by_host_and_node.
_ENDED = ('confirmed', 'reverted', 'error', 'failed', 'completed',
          'cancelled', 'done')

Row = collections.namedtuple(
    'Row', _COLUMNS + _EXTRA_COLUMNS + ('image_metadata',))

Migration = collections.namedtuple(
    'Migration', 'instance_uuid id migration_type status '
    'old_instance_type_id new_instance_type_id created_at updated_at')


class _object(sa.sql.functions.FunctionElement):
    """The text of a JSON object of keys and values."""

    type = sa.Text()
    inherit_cache = True


@compiler.compiles(_object)
def _json_objectagg(element, compiler, **kwargs):
    return 'json_objectagg(%s)' % compiler.process(element.clauses, **kwargs)


@compiler.compiles(_object, 'postgresql')
def _json_object_agg(element, compiler, **kwargs):
    return 'json_object_agg(%s)::text' % compiler.process(
        element.clauses, **kwargs)


@compiler.compiles(_object, 'sqlite')
def _json_group_object(element, compiler, **kwargs):
    # of no rows, an empty object
    return "nullif(json_group_object(%s), '{}')" % compiler.process(
        element.clauses, **kwargs)


def image_metadata():
    """What system_metadata keeps of the image of a server.

    :returns: column of a select of instances, the text of a JSON object or
        None
    """
    # A row is a dozen times as expensive here as it is in the database.
    return (sa.select(_object(_METADATA.c.key, _METADATA.c.value))
            .where(_METADATA.c.instance_uuid == _INSTANCES.c.uuid,
                   _METADATA.c.deleted == 0,
                   _METADATA.c.key.like(r'image\_%', escape='\\'))
            .label('image_metadata'))


class Cell:
    """A cell database.

    :ivar name: what to call the cell
    """

    def __init__(self, name, context):
        """Begin to read a cell.

        :param name: what to call it
        :param context: RequestContext that is targeted at it
        """
        self.name = name
        self._context = context

    def execute(self, query):
        """Read rows.

        :param query: SQLAlchemy's select
        :returns: list of rows
        :raises DatabaseUnreadable: if the cell cannot be read
        """
        return reading.answer(self.name, self._execute, query)

    def _execute(self, query):
        engine = main_db.get_engine(context=self._context)
        with engine.connect() as connection:
            return connection.execute(query).all()

    def instances(self, uuids):
        """Servers, those that are deleted but not archived included.

        :returns: dict of UUID to Row
        :raises DatabaseUnreadable: if the cell cannot be read
        """
        rows = self.execute(
            sa.select(*(_INSTANCES.c[name] for name in _COLUMNS),
                      *(_EXTRA.c[name] for name in _EXTRA_COLUMNS),
                      image_metadata())
            .select_from(_INSTANCES.outerjoin(
                _EXTRA, sa.and_(_EXTRA.c.instance_uuid == _INSTANCES.c.uuid,
                                _EXTRA.c.deleted == 0)))
            .where(_INSTANCES.c.uuid.in_(uuids)))
        return {row[0]: Row._make(row) for row in rows}

    def root_destinations(self, uuids):
        """Where the servers' root block devices are.

        :returns: dict of UUID to ``volume``, ``local`` or None
        :raises DatabaseUnreadable: if the cell cannot be read
        """
        return dict(map(tuple, self.execute(
            sa.select(_DEVICES.c.instance_uuid, _DEVICES.c.destination_type)
            .where(_DEVICES.c.instance_uuid.in_(uuids),
                   _DEVICES.c.deleted == 0, _DEVICES.c.boot_index == 0))))

    def is_rebuilt(self, uuid):
        """How the last rebuild of a server ended.

        :returns: as :func:`nova_specguard.instances.is_rebuilt`
        :raises DatabaseUnreadable: if the cell cannot be read
        """
        return reading.answer(
            self.name, instances.is_rebuilt, self._context, uuid)

    def nodes(self):
        """The compute nodes.

        :returns: dict of (host, name of the node) to UUID, which is also that
            of its resource provider
        :raises DatabaseUnreadable: if the cell cannot be read
        """
        return {(host, name): uuid for uuid, host, name in self.execute(
            sa.select(_NODES.c.uuid, _NODES.c.host,
                      _NODES.c.hypervisor_hostname)
            .where(_NODES.c.deleted == 0))}

    def migrations(self, uuids):
        """Migrations of some servers that have not ended.

        :returns: list of Migration
        :raises DatabaseUnreadable: if the cell cannot be read
        """
        return self._migrations(_MIGRATIONS.c.instance_uuid.in_(uuids))

    def migrations_before(self, time):
        """Migrations that have not ended and were last changed before a time.

        :param time: datetime without time zone, in UTC
        :returns: list of Migration
        :raises DatabaseUnreadable: if the cell cannot be read
        """
        return self._migrations(sa.func.coalesce(
            _MIGRATIONS.c.updated_at, _MIGRATIONS.c.created_at) < time)

    def _migrations(self, condition):
        columns = (_MIGRATIONS.c[name] for name in Migration._fields)
        return [Migration._make(row) for row in self.execute(
            sa.select(*columns)
            .where(_MIGRATIONS.c.deleted == 0,
                   _MIGRATIONS.c.status.not_in(_ENDED), condition)
            .order_by(_MIGRATIONS.c.id))]
