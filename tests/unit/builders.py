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

"""The objects of the tests: the server of the reported case, in variations."""

import json
import os

from nova import objects
from nova.objects import base as nova_base
from nova import utils
from nova.virt import hardware

from nova_specguard.instances import CurrentInstance
from nova_specguard.surroundings import Surroundings

UUID = '982c3ead-59b1-4acd-876b-d55166d8e7f0'
PROJECT = '16e980bb63b4415694dd2130f5977b8b'
USER = 'd7451e969b3f4229bd1869ed9ad591f3'
OTHER_UUID = 'ae44c8ad-57a8-4b0b-9b2a-1b2f1a7fb9d5'
GROUP = '5b674f73-c8cf-40ef-9965-3b6fe4b304b1'

A2_MEDIUM = dict(
    id=982, flavorid='026050', name='a2.medium', vcpus=4, memory_mb=8192,
    root_gb=80, ephemeral_gb=0, swap=0)
E2_MEDIUM = dict(
    A2_MEDIUM, id=831, flavorid='022050', name='e2.medium', root_gb=25)
CPU_SHARES = {'quota:cpu_shares': '400'}

_DATA = os.path.join(os.path.dirname(__file__), 'data')
_CELL = objects.CellMapping(
    uuid='c3b8a2f7-3b6f-4a12-9d6c-0f8d2a1c5e11', name='cell1')


def load(name):
    """A row of the reported case, as stored."""
    with open(os.path.join(_DATA, name)) as stored:
        return json.load(stored)


def stored(value):
    """What nova writes to the database for an object, read back."""
    if isinstance(value, nova_base.NovaObject):
        value = value.obj_to_primitive()
    return json.loads(json.dumps(value))


def flavor(**values):
    values = {**A2_MEDIUM, 'extra_specs': dict(CPU_SHARES), **values}
    return objects.Flavor(**values)


def e2_medium(**values):
    return flavor(**{**E2_MEDIUM, **values})


def image_meta(image_id=OTHER_UUID, /, **properties):
    return objects.ImageMeta(
        id=image_id, min_ram=128, min_disk=5, disk_format='raw',
        container_format='bare',
        properties=objects.ImageMetaProps(**properties))


def server_group(uuid=GROUP, policy='anti-affinity'):
    """As RequestSpec and guard load it from the API database."""
    return objects.InstanceGroup(
        id=1, uuid=uuid, name='a-group', user_id=USER, project_id=PROJECT,
        policy=policy, rules={}, members=[UUID, OTHER_UUID])


def surroundings(*groups, zone=None, is_pin_known=False):
    return Surroundings(groups, zone, is_pin_known)


def destination(**values):
    """As nova-conductor restricts a move to the server's cell."""
    return objects.Destination(**{'cell': _CELL, **values})


def spec(**values):
    """A request spec as the scheduler gets it for a move."""
    return objects.RequestSpec(**{
        'id': 1, 'instance_uuid': UUID, 'project_id': PROJECT,
        'user_id': USER, 'flavor': flavor(), 'image': image_meta(),
        'numa_topology': None,
        'pci_requests': objects.InstancePCIRequests(
            instance_uuid=UUID, requests=[]),
        'num_instances': 1, 'ignore_hosts': None, 'force_hosts': None,
        'force_nodes': None, 'scheduler_hints': {},
        'requested_destination': destination(), 'is_bfv': False, **values})


def current(**values):
    """The server as read from its cell."""
    return CurrentInstance(**{
        'uuid': UUID, 'project_id': PROJECT, 'user_id': USER,
        'cell': 'cell1', 'task_state': None, 'flavor': flavor(),
        'image_ref': OTHER_UUID, 'host': 'host1', 'is_rebuilt': True,
        'pci_requests': objects.InstancePCIRequests(
            instance_uuid=UUID, requests=[]), **values})


def as_booted(**properties):
    """Both copies of an image, made by nova of what glance says.

    :returns: (request spec, current instance)
    """
    glance = {'id': OTHER_UUID, 'name': 'an-image', 'size': 1, 'min_ram': 0,
              'min_disk': 0, 'disk_format': 'raw', 'container_format': 'bare',
              'checksum': 'x', 'owner': 'x', 'properties': properties}
    instance = objects.Instance(
        image_ref=OTHER_UUID,
        system_metadata=utils.get_system_metadata_from_image(
            glance, flavor()))
    return (spec(image=objects.ImageMeta.from_dict(glance)),
            current(image_meta=objects.ImageMeta.from_instance(instance),
                    base_image_ref=OTHER_UUID))


def constraints(of_flavor, of_image=None):
    """The NUMA topology that nova writes into a request spec."""
    return hardware.numa_get_constraints(of_flavor, of_image or image_meta())


def fitted(topology, host_cells=(1, 0)):
    """A topology as nova-compute stores it after fitting it to a host."""
    fitted_cells = []
    for cell, host_cell in zip(topology.cells, host_cells):
        cell = cell.obj_clone()
        cell.id = host_cell
        cell.pagesize = 4
        cell.cpu_topology = objects.VirtCPUTopology(
            sockets=1, cores=len(cell.total_cpus), threads=1)
        cell.cpu_pinning = {
            cpu: cpu + 32 * host_cell for cpu in cell.pcpuset} or None
        cell.cpuset_reserved = None
        fitted_cells.append(cell)
    return objects.InstanceNUMATopology(
        cells=fitted_cells,
        emulator_threads_policy=topology.emulator_threads_policy)


def pci_request(**values):
    """A request that came from the alias in a flavor."""
    return objects.InstancePCIRequest(**{
        'count': 1, 'alias_name': 'gpu',
        'spec': [{'vendor_id': '10de', 'product_id': '1db4',
                  'dev_type': 'type-PCI'}],
        'request_id': '4dd4a1f4-6d2f-4e1c-8a6c-0f1c2b3a4d5e',
        'requester_id': None, 'numa_policy': 'legacy', **values})


def port_request(port=OTHER_UUID, **values):
    """A request of a Neutron port with an SR-IOV binding."""
    return pci_request(**{
        'alias_name': None, 'requester_id': port, 'numa_policy': None,
        'spec': [{'physical_network': 'physnet1'}], **values})


def pci_requests(*requests):
    return objects.InstancePCIRequests(
        instance_uuid=UUID, requests=list(requests))


def gpu_flavor(alias='gpu:1', **values):
    return flavor(extra_specs={'pci_passthrough:alias': alias}, **values)
