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

"""The current instance: mapping, cell, bounded read."""

from concurrent import futures
import contextlib
import dataclasses
import threading
import typing

from nova.compute import instance_actions
from nova.compute import utils as compute_utils
import nova.conf
from nova import context as nova_context
from nova.db.main import api as main_db
from nova import exception as nova_exception
from nova import objects
from nova import utils

from nova_specguard import exception
from nova_specguard import surroundings

CONF = nova.conf.CONF

# of utils.get_system_metadata_from_image
_MAX_TEXT = 255


@dataclasses.dataclass(frozen=True)
class CurrentInstance:
    """A server as the cell database has it now.

    :ivar cell: name, or else uuid, of the cell; None in a cell conductor
        without API database
    :ivar flavor: nova.objects.Flavor, or its primitive
    :ivar numa_topology: nova.objects.InstanceNUMATopology, or its primitive,
        or None: the topology that was fitted to the host
    :ivar pci_requests: nova.objects.InstancePCIRequests, or the list stored in
        ``instance_extra``, or None
    :ivar image_ref: id of the image; empty if the server is volume-backed
    :ivar host: name of the compute service, or None

    Read where a guarded field needs them, else None:

    :ivar image_meta: nova.objects.ImageMeta of the system_metadata
    :ivar cut_off: names of image properties that the system_metadata has
        only the first 255 bytes of
    :ivar base_image_ref: ``image_base_image_ref`` of the system_metadata
    :ivar is_volume_backed: what the root block device says
    :ivar is_rebuilt: whether nova-compute ended the last rebuild, that of the
        request itself apart; None if there was none
    :ivar surroundings: Surroundings; always None in a cell conductor without
        API database
    :ivar server_group: nova.objects.InstanceGroup that the server is a member
        of, if it is a member of exactly one
    """

    uuid: str
    project_id: str
    user_id: typing.Optional[str]
    cell: typing.Optional[str]
    task_state: typing.Optional[str]
    flavor: typing.Any
    numa_topology: typing.Any = None
    pci_requests: typing.Any = None
    image_ref: typing.Optional[str] = None
    host: typing.Optional[str] = None
    image_meta: typing.Any = None
    cut_off: frozenset = frozenset()
    base_image_ref: typing.Optional[str] = None
    is_volume_backed: typing.Optional[bool] = None
    is_rebuilt: typing.Optional[bool] = None
    surroundings: typing.Optional['surroundings.Surroundings'] = None
    server_group: typing.Any = None


def read(context, instance_uuid, timeout, needs, availability_zone=None):
    """Read the current instance.

    1 API and 1 cell SELECT, and 1 for each attribute that is needed.

    :param context: RequestContext of the request, targeted or not; it is not
        changed
    :param instance_uuid: UUID of the server
    :param timeout: seconds for all of it
    :param needs: callable that is given the CurrentInstance as far as it is
        read and gives the names of attributes that it lacks
    :param availability_zone: the zone whose existence is to be looked up with
        the surroundings
    :returns: CurrentInstance
    :raises InstanceGone: if the server or its mapping does not exist, or it
        is in no cell yet
    :raises LookupTimedOut: if there was no answer in time
    :raises FlavorMissing: if the row has no flavor
    :raises LookupFailed: if a read raised anything else that databases, rows
        and connections can be the reason of
    """
    lookup = _Lookup(context, instance_uuid, needs, availability_zone)
    try:
        return within(timeout, lookup.read)
    except exception.Unverifiable as exc:
        exc.kwargs['cell'] = lookup.cell
        raise


def cell_mapping(context, instance_uuid):
    """Read which cell a server is in: 1 API SELECT.

    Its URLs carry passwords: keep it out of messages and dataclasses.

    :param context: RequestContext, targeted or not
    :param instance_uuid: UUID of the server
    :returns: nova.objects.CellMapping; None in a cell conductor without API
        database, whose own database is the cell
    :raises nova.exception.InstanceMappingNotFound: if the server is in no
        cell, or not yet
    """
    if CONF.api_database.connection is None:
        return None
    mapping = objects.InstanceMapping.get_by_instance_uuid(
        context, instance_uuid)
    if mapping.cell_mapping is None:
        raise nova_exception.InstanceMappingNotFound(uuid=instance_uuid)
    return mapping.cell_mapping


def targeted(context, mapping):
    """Target a cell.

    :param context: RequestContext
    :param mapping: what :func:`cell_mapping` returned
    :returns: context manager that gives the RequestContext to use
    """
    if mapping is None:
        return contextlib.nullcontext(context)
    return nova_context.target_cell(context, mapping)


def is_rebuilt(context, instance_uuid):
    """Read how the last rebuild ended, that of the request itself apart.

    nova-api saves the new image before anything else happens. Only the event
    of nova-compute shows that the disk followed.

    :param context: RequestContext that is targeted at the server's cell
    :param instance_uuid: UUID of the server
    :returns: whether nova-compute ended it, or None if there was none
    """
    for action in objects.InstanceActionList.get_by_instance_uuid(
            context, instance_uuid):
        if (action.action == instance_actions.REBUILD and
                action.request_id != context.request_id):
            return any(
                event.event == 'compute_rebuild_instance' and
                event.result == 'Success'
                for event in objects.InstanceActionEventList.get_by_action(
                    context, action.id))
    return None


def image_values(instance):
    """What the system_metadata of a server says of its image.

    :param instance: nova.objects.Instance with image_ref and system_metadata
    :returns: dict of attributes of CurrentInstance
    :raises Exception: whatever nova's own parsing of the values runs into
    """
    return {'image_meta': instance.image_meta,
            'cut_off': _cut_off(instance.system_metadata),
            'base_image_ref': instance.system_metadata.get(
                'image_base_image_ref')}


def _cut_off(system_metadata):
    prefix = utils.SM_IMAGE_PROP_PREFIX
    # hw_numa_cpus.0 is an item of hw_numa_cpus
    return frozenset(
        name[len(prefix):].partition('.')[0]
        for name, text in system_metadata.items()
        if name.startswith(prefix) and len(text or '') >= _MAX_TEXT)


def within(timeout, function):
    """Call a function that reads, and give up if it takes too long.

    It goes on in its thread, which does not keep the program from ending.

    :param timeout: seconds
    :param function: callable without arguments
    :returns: what it returned
    :raises LookupTimedOut: if it has not ended in time
    :raises BaseException: whatever it raised
    """
    # A thread of its own, which eventlet's monkey patching turns green, and a
    # daemon: nova's scatter-gather pool (5 threads in native threading mode)
    # also gathers the host states, and one paused database would use it up.
    future = futures.Future()

    def run():
        try:
            future.set_result(function())
        except BaseException as exc:
            future.set_exception(exc)

    threading.Thread(target=run, name='specguard-lookup', daemon=True).start()
    try:
        return future.result(timeout)
    except futures.TimeoutError:
        if future.done():
            # in the last moment, or with a TimeoutError of its own
            return future.result()
        raise exception.LookupTimedOut(timeout=timeout) from None


class _Lookup:
    """The reads, and how far they came."""

    def __init__(self, context, instance_uuid, needs, availability_zone):
        # Elevated, because a request made by another project's user (an
        # administrator, a domain manager) would not see the server.
        self.context = context.elevated()
        self.instance_uuid = instance_uuid
        self.needs = needs
        self.availability_zone = availability_zone
        self.cell = None

    def read(self):
        with self._reading():
            mapping = cell_mapping(self.context, self.instance_uuid)
        if mapping is not None:
            self.cell = mapping.name or mapping.uuid
        with contextlib.ExitStack() as stack:
            with self._reading():
                cell_context = stack.enter_context(
                    targeted(self.context, mapping))
            return self._read_in_cell(cell_context)

    @contextlib.contextmanager
    def _reading(self):
        try:
            yield
        except (nova_exception.InstanceNotFound,
                nova_exception.InstanceMappingNotFound) as exc:
            raise exception.InstanceGone(
                instance=self.instance_uuid) from exc
        except exception.FAULTS_OF_CODE:
            raise
        except Exception as exc:
            # Not chained: the cause's message can carry a connection URL.
            raise exception.LookupFailed(cause=type(exc).__name__) from None

    def _read_in_cell(self, context):
        with self._reading():
            instance = objects.Instance.get_by_uuid(
                context, self.instance_uuid,
                expected_attrs=['flavor', 'numa_topology', 'pci_requests'])
        if 'flavor' not in instance or instance.flavor is None:
            raise exception.FlavorMissing()
        current = CurrentInstance(
            uuid=self.instance_uuid, project_id=instance.project_id,
            user_id=instance.user_id, cell=self.cell,
            task_state=instance.task_state, flavor=instance.flavor,
            numa_topology=instance.numa_topology,
            pci_requests=instance.pci_requests, image_ref=instance.image_ref,
            host=instance.host)
        asked_for = set()
        while needed := self.needs(current) - asked_for:
            asked_for |= needed
            for name in sorted(needed):
                with self._reading():
                    values = getattr(self, '_read_' + name)(
                        context, instance, current)
                current = dataclasses.replace(current, **values)
        return current

    def _read_image_meta(self, context, instance, current):
        # Instance.system_metadata would read the whole instance again.
        instance.system_metadata = main_db.instance_system_metadata_get(
            context, self.instance_uuid)
        if not instance.system_metadata:
            # nova stores image_base_image_ref for every server: it is being
            # deleted, or was purged of it by hand. Then the image cannot be
            # compared, but the rest can.
            objects.Instance.get_by_uuid(
                context, self.instance_uuid, expected_attrs=[])
            return {}
        return image_values(instance)

    def _read_is_volume_backed(self, context, instance, current):
        return {'is_volume_backed': compute_utils.is_volume_backed_instance(
            context, instance)}

    def _read_is_rebuilt(self, context, instance, current):
        return {'is_rebuilt': is_rebuilt(context, self.instance_uuid)}

    def _read_surroundings(self, context, instance, current):
        if CONF.api_database.connection is None:
            return {}
        return {'surroundings': surroundings.read(
            self.context, self.instance_uuid, instance.host,
            self.availability_zone)}

    def _read_server_group(self, context, instance, current):
        if len(current.surroundings.groups) != 1:
            return {}
        try:
            return {'server_group': objects.InstanceGroup.get_by_uuid(
                self.context, *current.surroundings.groups)}
        except nova_exception.InstanceGroupNotFound:
            # deleted in between
            return {'surroundings': dataclasses.replace(
                current.surroundings, groups=())}
