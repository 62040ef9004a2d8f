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

"""One server's rows, what is read of it so far, and its state."""

import datetime

from nova.compute import task_states
from nova.compute import vm_states

from nova_specguard.audit import stored
from nova_specguard import instances
from nova_specguard.operation import Operation
from nova_specguard import reader
from nova_specguard import surroundings

IDLE, IN_FLIGHT, STUCK = 'idle', 'in flight', 'stuck'

# The task states of what conductor schedules, and of its way back.
OPERATIONS = {
    task_states.RESIZE_PREP: Operation.RESIZE.value,
    task_states.RESIZE_MIGRATING: Operation.RESIZE.value,
    task_states.RESIZE_MIGRATED: Operation.RESIZE.value,
    task_states.RESIZE_FINISH: Operation.RESIZE.value,
    task_states.RESIZE_REVERTING: 'revert-resize',
    task_states.RESIZE_CONFIRMING: 'confirm-resize',
    task_states.MIGRATING: Operation.LIVE_MIGRATION.value,
    task_states.REBUILDING: Operation.REBUILD.value,
    task_states.REBUILD_BLOCK_DEVICE_MAPPING: Operation.REBUILD.value,
    task_states.REBUILD_SPAWNING: Operation.REBUILD.value,
    task_states.SHELVING: 'shelve',
    task_states.SHELVING_IMAGE_PENDING_UPLOAD: 'shelve',
    task_states.SHELVING_IMAGE_UPLOADING: 'shelve',
    task_states.SHELVING_OFFLOADING: 'shelve',
    task_states.UNSHELVING: Operation.UNSHELVE.value,
}


def last_change(row):
    """When a row was last changed.

    :param row: Row or Migration of cell_rows
    :returns: datetime without time zone, in UTC
    """
    return row.updated_at or row.created_at or datetime.datetime.min


class Server:
    """A server under audit.

    :ivar mapped: Mapped of api_rows
    :ivar row: Row of cell_rows
    :ivar cell: name of its cell
    :ivar zone: availability zone of its host, or None
    :ivar flavors: primitives of the embedded flavors by ``cur``, ``old`` and
        ``new``; empty if they cannot be read, or are not parsed
    :ivar spec: primitive of its request spec, or None
    :ivar faults: findings about what could not be read of spec and server
    :ivar current: CurrentInstance as far as it is read, or None if there is
        no flavor to compare with
    :ivar migrations: Migrations of cell_rows that have not ended
    """

    def __init__(self, mapped, row, cell, zone=None):
        self.mapped = mapped
        self.row = row
        self.cell = cell
        self.zone = zone
        self.flavors = {}
        self.spec = self.current = None
        self.faults = []
        self.migrations = []

    def parse(self, zones):
        """Parse spec and flavors, and begin with the current instance.

        :param zones: set of the availability zones
        """
        row = self.row
        self.flavors = reader.as_dict(stored.parse(row.flavor))
        if self.mapped.spec is not None:
            self.spec, self.faults = stored.parse_spec(self.mapped.spec)
        if self.spec is None or self.flavors.get('cur') is None:
            return
        pin = reader.get(self.spec, 'availability_zone')
        self.current = instances.CurrentInstance(
            uuid=row.uuid, project_id=row.project_id, user_id=row.user_id,
            cell=self.cell, task_state=row.task_state,
            flavor=self.flavors['cur'],
            numa_topology=stored.parse(row.numa_topology),
            pci_requests=stored.parse(row.pci_requests),
            image_ref=row.image_ref, host=row.host,
            surroundings=surroundings.Surroundings(
                self.mapped.groups, self.zone,
                isinstance(pin, str) and pin in zones))

    @property
    def operation(self):
        """What nova is doing with it, or None."""
        if self.row.task_state:
            return OPERATIONS.get(self.row.task_state, self.row.task_state)
        return 'boot' if self.row.vm_state == vm_states.BUILDING else None

    @property
    def is_resized(self):
        """Whether it waits for a resize to be confirmed or reverted."""
        return self.row.vm_state == vm_states.RESIZED

    def state(self, since):
        """Whether the server is in the middle of an operation.

        :param since: datetime; what has not changed since then is stuck
        :returns: IDLE, IN_FLIGHT or STUCK
        """
        if self.operation:
            return STUCK if last_change(self.row) < since else IN_FLIGHT
        if any(last_change(migration) >= since
               for migration in self.unexpected_migrations()):
            return IN_FLIGHT
        return IDLE

    def unexpected_migrations(self):
        """Migrations of a server at rest that have not ended.

        :returns: list of Migration; without that of a resize which waits to
            be confirmed or reverted
        """
        return [migration for migration in self.migrations
                if not (self.is_resized and migration.status == 'finished')]
