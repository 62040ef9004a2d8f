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

"""Reading what a compute host has to know of its servers."""

import time

from nova import block_device
from nova import context as nova_context
from nova.db.main import models
from nova import exception as nova_exception
from nova import objects
import sqlalchemy as sa

from nova_specguard.audit import api_rows
from nova_specguard.audit import cell_rows
from nova_specguard.audit import reading
from nova_specguard.audit import stored
from nova_specguard.disks import facts
from nova_specguard import reader

PAGE_SIZE = 500

_INSTANCES = models.Instance.__table__
_EXTRA = models.InstanceExtra.__table__
_DEVICES = models.BlockDeviceMapping.__table__
_MIGRATIONS = models.Migration.__table__


def of_host(host):
    """Read the servers of a compute host.

    :param host: name of the compute service
    :returns: Facts, or None if there is no such host
    :raises DatabaseUnreadable: if a database cannot be read
    """
    begun = int(time.time())
    context = nova_context.get_admin_context()
    with reading.of(api_rows.NAME):
        try:
            mapping = objects.HostMapping.get_by_host(
                context, host).cell_mapping
        except nova_exception.HostMappingNotFound:
            return None
    name = mapping.name or mapping.uuid
    with reading.of(name):
        with nova_context.target_cell(context, mapping) as cell_context:
            servers = _Reader(cell_rows.Cell(name, cell_context))
            return facts.Facts(host, name, begun, servers.of(host))


class _Reader:

    def __init__(self, cell):
        self._cell = cell

    def of(self, host):
        migrations = self._migrations(host)
        here = self._cell.execute(
            sa.select(_INSTANCES.c.uuid)
            .where(_INSTANCES.c.host == host, _INSTANCES.c.deleted == 0))
        uuids = sorted({row[0] for row in here} | set(migrations))
        found = {}
        for start in range(0, len(uuids), PAGE_SIZE):
            found.update(self._page(uuids[start:start + PAGE_SIZE],
                                    migrations))
        return found

    def _migrations(self, host):
        """Migrations to or from the host that have not ended.

        :returns: dict of UUID of the server to status
        """
        uuids = [row[0] for row in self._cell.execute(
            sa.select(_MIGRATIONS.c.instance_uuid).distinct()
            .where(_MIGRATIONS.c.deleted == 0,
                   sa.or_(_MIGRATIONS.c.source_compute == host,
                          _MIGRATIONS.c.dest_compute == host)))]
        return {migration.instance_uuid: migration.status
                for start in range(0, len(uuids), PAGE_SIZE)
                for migration in self._cell.migrations(
                    uuids[start:start + PAGE_SIZE])}

    def _page(self, uuids, migrations):
        rows = self._cell.execute(
            sa.select(_INSTANCES.c.uuid, _INSTANCES.c.project_id,
                      _INSTANCES.c.host, _INSTANCES.c.vm_state,
                      _INSTANCES.c.task_state, _INSTANCES.c.image_ref,
                      _INSTANCES.c.os_type, _INSTANCES.c.ephemeral_key_uuid,
                      _EXTRA.c.flavor, cell_rows.image_metadata())
            .select_from(_INSTANCES.outerjoin(
                _EXTRA, sa.and_(_EXTRA.c.instance_uuid == _INSTANCES.c.uuid,
                                _EXTRA.c.deleted == 0)))
            .where(_INSTANCES.c.uuid.in_(uuids), _INSTANCES.c.deleted == 0))
        roots = self._cell.root_destinations(uuids)
        devices = self._devices(uuids)
        for row in rows:
            flavor = reader.get(stored.parse(row.flavor), 'cur')
            image = reader.as_dict(stored.parse(row.image_metadata))
            local = devices.get(row.uuid, ())
            yield row.uuid, facts.Server(
                project_id=row.project_id, host=row.host,
                vm_state=row.vm_state, task_state=row.task_state,
                image_ref=row.image_ref,
                base_image_ref=image.get('image_base_image_ref'),
                os_type=row.os_type, root_gb=reader.get(flavor, 'root_gb'),
                swap_mb=reader.get(flavor, 'swap'),
                ephemeral_gb=reader.get(flavor, 'ephemeral_gb'),
                ephemerals_gb=[
                    device['volume_size'] for device in local
                    if block_device.new_format_is_ephemeral(device)],
                swaps_mb=[device['volume_size'] for device in local
                          if block_device.new_format_is_swap(device)],
                # as compute_utils.is_volume_backed_instance
                is_volume_backed=(
                    roots[row.uuid] == 'volume' if row.uuid in roots
                    else not row.image_ref),
                is_encrypted=bool(
                    row.ephemeral_key_uuid or
                    any(device['encrypted'] for device in local)),
                migration=migrations.get(row.uuid))

    def _devices(self, uuids):
        """Local block devices.

        :returns: dict of UUID to list of mappings, in nova's order
        """
        found = {}
        for row in self._cell.execute(
                sa.select(_DEVICES.c.instance_uuid, _DEVICES.c.source_type,
                          _DEVICES.c.destination_type,
                          _DEVICES.c.guest_format, _DEVICES.c.volume_size,
                          _DEVICES.c.encrypted)
                .where(_DEVICES.c.instance_uuid.in_(uuids),
                       _DEVICES.c.deleted == 0,
                       _DEVICES.c.destination_type == 'local')
                .order_by(_DEVICES.c.id)):
            found.setdefault(row.instance_uuid, []).append(row._mapping)
        return found
