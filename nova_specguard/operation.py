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

"""Which move operation a request is.

The conductor knows it from its entry point. The scheduler is handed a request
spec only and judges from that and from the instance row
(:func:`from_request`); Migration records are never asked, because nova leaves
stale ones behind and uses them again.
"""

import enum

from nova.compute import task_states
from nova.scheduler import utils as scheduler_utils

from nova_specguard import reader


class Operation(str, enum.Enum):
    """A move operation, spelled as in nova's instance actions."""

    LIVE_MIGRATION = 'live-migration'
    MIGRATE = 'migrate'
    RESIZE = 'resize'
    EVACUATE = 'evacuate'
    UNSHELVE = 'unshelve'
    REBUILD = 'rebuild'
    UNKNOWN = 'unknown'

    def __str__(self):
        return self.value


def _destination(spec):
    return (spec.requested_destination
            if 'requested_destination' in spec else None)


def is_boot(spec):
    """Tell a boot from a move, without a read.

    Conductor restricts every move to a cell before it schedules; in a
    cross-cell resize with a target host it sets the cell to None.

    :param spec: nova.objects.RequestSpec as handed to the scheduler
    """
    destination = _destination(spec)
    return destination is None or 'cell' not in destination


def is_marked_as_resize(spec):
    """Whether nova-api marked the request as a resize or cold migration.

    Valid only before the host manager has seen the request:
    ``HostManager.get_host_states_by_uuids`` sets the attribute on all.

    :param spec: nova.objects.RequestSpec as handed to the scheduler
    """
    destination = _destination(spec)
    return destination is not None and 'allow_cross_cell_move' in destination


def _is_rebuild(spec):
    # A stored _nova_check_type hint survives into other operations (atlas A8);
    # only nova-api's rebuild also forces the current host.
    return (scheduler_utils.request_is_rebuild(spec) and
            'force_hosts' in spec and bool(spec.force_hosts))


def from_request(spec, current, marked=None):
    """Tell the operation from the request and the instance row.

    :param spec: nova.objects.RequestSpec as handed to the scheduler
    :param current: nova_specguard.instances.CurrentInstance
    :param marked: what :func:`is_marked_as_resize` said before the host
        manager saw the request; None if nobody asked in time
    :returns: Operation; UNKNOWN where the two contradict each other, as after
        a reset-state or on a database node that lags behind
    """
    task_state = current.task_state
    if marked or (marked is None and task_state == task_states.RESIZE_PREP):
        same = (reader.get(reader.get(spec, 'flavor'), 'id') ==
                reader.get(current.flavor, 'id'))
        return Operation.MIGRATE if same else Operation.RESIZE
    if task_state == task_states.MIGRATING:
        return Operation.LIVE_MIGRATION
    if task_state == task_states.UNSHELVING:
        return Operation.UNSHELVE
    if task_state == task_states.REBUILDING:
        return Operation.REBUILD if _is_rebuild(spec) else Operation.EVACUATE
    return Operation.UNKNOWN


def candidates(spec, marked=None):
    """The operations a request can be while its instance row is unreadable.

    :param spec: nova.objects.RequestSpec as handed to the scheduler
    :param marked: as in :func:`from_request`
    :returns: set of Operation
    """
    if marked:
        return {Operation.MIGRATE, Operation.RESIZE}
    if scheduler_utils.request_is_rebuild(spec):
        return {Operation.REBUILD if _is_rebuild(spec) else Operation.UNKNOWN}
    if 'ignore_hosts' in spec and spec.ignore_hosts:
        # the source host: both set it, and nothing else tells them apart
        return {Operation.LIVE_MIGRATION, Operation.EVACUATE}
    return {Operation.UNSHELVE}
