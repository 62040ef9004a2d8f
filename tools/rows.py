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

"""Write down the rows that the nova of this environment stores for servers.

Usage: PYTHONHASHSEED=0 python tools/rows.py DIRECTORY

Nothing but nova is needed. Its own objects create the servers in two SQLite
databases, with the calls that nova-api, nova-conductor and nova-compute make;
what is in the tables then goes to DIRECTORY/<version of nova>.jsonl, one
server per line. Without PYTHONHASHSEED the order of lists made of sets changes
from run to run.
"""

import contextlib
import datetime
import json
import os
import sqlite3
import sys
import tempfile
from unittest import mock
import uuid

from nova import block_device
import nova.conf
from nova import config
from nova import context as nova_context
from nova.db.api import api as api_db
from nova.db.api import models as api_models
from nova.db.main import api as main_db
from nova.db.main import models as main_models
from nova import objects
from nova.pci import request as pci_request
from nova import utils
import nova.version
from nova.virt import hardware
from nova.virt.libvirt import driver
from oslo_utils import timeutils

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5)
ALIAS = {'name': 'gpu', 'vendor_id': '10de', 'product_id': '1db4',
         'device_type': 'type-PCI', 'numa_policy': 'preferred'}

# What libvirt's nova-compute finds on an x86 host for a server whose image
# says nothing about it.
REGISTERED = {
    'hw_machine_type': 'pc', 'hw_cdrom_bus': 'ide', 'hw_disk_bus': 'virtio',
    'hw_input_bus': 'usb', 'hw_pointer_model': 'usbtablet',
    'hw_video_model': 'virtio', 'hw_vif_model': 'virtio'}

FLAVORS = {
    'plain': dict(
        vcpus=2, memory_mb=4096, root_gb=20,
        description='instance_extra does not keep this',
        extra_specs={'aggregate_instance_extra_specs:cpu_vendor': 'amd',
                     'quota:cpu_shares': '400'}),
    'numa': dict(
        vcpus=4, memory_mb=8192, root_gb=40, swap=512, ephemeral_gb=10,
        description=None,
        extra_specs={'aggregate_instance_extra_specs:cpu_vendor': 'intel',
                     'hw:cpu_policy': 'dedicated', 'hw:numa_nodes': '2',
                     'hw:mem_page_size': 'large',
                     'hw:cpu_thread_policy': 'prefer',
                     'hw:emulator_threads_policy': 'share',
                     'pci_passthrough:alias': 'gpu:2'}),
}

# Properties of an image and of a volume: some that every release knows, some
# that are newer (26 to 32) than others, one that only its owner knows.
PROPERTIES = {
    'hw_firmware_type': 'uefi', 'hw_machine_type': 'q35',
    'hw_disk_bus': 'scsi',
    'hw_scsi_model': 'virtio-scsi', 'hw_qemu_guest_agent': 'yes',
    'hw_vif_multiqueue_enabled': 'true', 'hw_cpu_max_sockets': '2',
    'hw_pci_numa_affinity_policy': 'preferred',
    'trait:HW_CPU_X86_AVX2': 'required', 'os_type': 'linux',
    'os_distro': 'debian', 'os_require_quiesce': 'true',
    'hw_viommu_model': 'virtio', 'hw_virtio_packed_ring': 'true',
    'hw_maxphysaddr_mode': 'passthrough', 'hw_firmware_stateless': 'false',
    'hw_sound_model': 'virtio',
    'owner_specified.openstack.md5': 'd41d8cd98f00b204e9800998ecf8427e'}


def fixed_uuid(name):
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


def image(name, **properties):
    """As nova.image.glance.API gives it to nova-api."""
    return {
        'id': fixed_uuid(name), 'name': name, 'status': 'active',
        'size': 2147483648, 'checksum': 'd41d8cd98f00b204e9800998ecf8427e',
        'owner': fixed_uuid('owner'), 'visibility': 'public',
        'is_public': True, 'protected': False, 'min_ram': 0, 'min_disk': 5,
        'disk_format': 'qcow2', 'container_format': 'bare',
        'created_at': NOW, 'updated_at': NOW, 'deleted': False,
        'deleted_at': None, 'tags': [], 'properties': properties}


def volume_image():
    """As nova-api makes it of a volume that was created from an image."""
    return block_device.get_image_metadata_from_volume({
        'id': fixed_uuid('volume'), 'size': 20, 'bootable': True,
        'volume_image_metadata': {
            'image_id': fixed_uuid('debian'), 'image_name': 'debian',
            'checksum': 'd41d8cd98f00b204e9800998ecf8427e',
            'container_format': 'bare', 'disk_format': 'qcow2',
            'min_disk': '5', 'min_ram': '0', 'size': '2147483648',
            **PROPERTIES}})


@contextlib.contextmanager
def databases():
    """Both databases of nova, empty.

    :returns: callable that runs a SELECT and gives rows as dicts
    """
    with tempfile.TemporaryDirectory() as directory:
        api_path = os.path.join(directory, 'api.sqlite')
        cell_path = os.path.join(directory, 'cell.sqlite')
        settings = os.path.join(directory, 'nova.conf')
        with open(settings, 'w') as conf:
            conf.write(
                '[DEFAULT]\ntransport_url = fake:/\n'
                '[api_database]\nconnection = sqlite:///%s\n'
                '[database]\nconnection = sqlite:///%s\n'
                '[pci]\nalias = %s\n' % (
                    api_path, cell_path, json.dumps(ALIAS)))
        config.parse_args(['rows'], default_config_files=[settings])
        api_models.BASE.metadata.create_all(api_db.get_engine())
        main_models.BASE.metadata.create_all(main_db.get_engine())

        def select(query, *values):
            path = (api_path if 'request_specs' in query or
                    'instance_group' in query else cell_path)
            with contextlib.closing(sqlite3.connect(path)) as connection:
                connection.row_factory = sqlite3.Row
                return [dict(row) for row in connection.execute(
                    query, values)]

        yield select


class Cloud:

    def __init__(self, select):
        self.select = select
        self.context = nova_context.RequestContext(
            user_id='b5bd6b9c0c4d4a4b8f3f6f3a5f0e9a17',
            project_id='16e980bb63b4415694dd2130f5977b8b',
            user_name='a-user', project_name='a-project',
            roles=['member', 'reader'], is_admin=False)
        self.admin = nova_context.get_admin_context()
        self.flavors = {}
        for number, (name, values) in enumerate(FLAVORS.items(), 1):
            objects.Flavor(self.admin, **{
                'flavorid': '02%s' % number, 'name': 'a1.%s' % name,
                'swap': 0, 'ephemeral_gb': 0, 'rxtx_factor': 1.0,
                'vcpu_weight': 0, 'disabled': False, 'is_public': True,
                **values}).create()
            self.flavors[name] = objects.Flavor.get_by_flavor_id(
                self.admin, '02%s' % number)

    def group(self):
        group = objects.InstanceGroup(
            self.context, uuid=fixed_uuid('group'), name='a-group',
            user_id=self.context.user_id, project_id=self.context.project_id,
            policy='anti-affinity', rules={'max_server_per_host': 2},
            members=[fixed_uuid('another member')])
        group.create()
        return group

    def boot(self, name, flavor, boot_meta, image_ref, bdm, pin=None,
             hints=None):
        """What nova-api stores, and nova-conductor in the cell.

        :returns: Instance
        """
        instance_uuid = fixed_uuid(name)
        flavor = self.flavors[flavor]
        image_meta = objects.ImageMeta.from_dict(boot_meta)
        numa_topology = hardware.numa_get_constraints(flavor, image_meta)
        pci_requests = pci_request.get_pci_requests_from_flavor(
            flavor, affinity_policy=hardware.get_pci_numa_policy_constraint(
                flavor, image_meta))
        filter_properties = {'scheduler_hints': hints or {}}
        group = None
        if hints and 'group' in hints:
            group = objects.InstanceGroup.get_by_uuid(
                self.context, hints['group'])
            objects.InstanceGroup.add_members(
                self.context, group.uuid, [instance_uuid])
            group.members.append(instance_uuid)
        spec = objects.RequestSpec.from_components(
            self.context, instance_uuid, boot_meta, flavor, numa_topology,
            pci_requests, filter_properties, group, pin,
            security_groups=objects.SecurityGroupList(objects=[]))
        spec.is_bfv = bdm['destination_type'] == 'volume'
        spec.num_instances = 1
        spec.create()

        system_metadata = utils.get_system_metadata_from_image(
            boot_meta, flavor)
        system_metadata.setdefault('image_base_image_ref', image_ref)
        instance = objects.Instance(
            self.context, uuid=instance_uuid, display_name=name,
            hostname=name, user_id=self.context.user_id,
            project_id=self.context.project_id, image_ref=image_ref,
            kernel_id='', ramdisk_id='', availability_zone=pin,
            vm_state='building', task_state='scheduling',
            instance_type_id=flavor.id, vcpus=flavor.vcpus,
            memory_mb=flavor.memory_mb, root_gb=flavor.root_gb,
            ephemeral_gb=flavor.ephemeral_gb, flavor=flavor, old_flavor=None,
            new_flavor=None, numa_topology=numa_topology,
            pci_requests=pci_requests, system_metadata={
                'owner_user_name': self.context.user_name,
                'owner_project_name': self.context.project_name,
                **system_metadata})
        instance.create()
        objects.BlockDeviceMapping(
            self.context, instance_uuid=instance_uuid, boot_index=0,
            **bdm).create()
        return instance

    def spawn(self, instance, host, zone):
        """What nova-compute adds when the server starts on a host."""
        self._fit(instance, host)
        instance.host = host
        instance.availability_zone = zone
        instance.vm_state, instance.task_state = 'active', None
        instance.system_metadata['boot_roles'] = ','.join(self.context.roles)
        for name in driver.REGISTER_IMAGE_PROPERTY_DEFAULTS:
            instance.system_metadata.setdefault(
                'image_' + name, REGISTERED[name])
        instance.save()

    def cold_migrate(self, instance, host):
        """What a cold migration stores again.

        nova-conductor saves the request spec and nova-compute resolves the
        aliases of the flavor anew.
        """
        spec = objects.RequestSpec.get_by_instance_uuid(
            self.admin, instance.uuid)
        spec.flavor = instance.flavor
        spec.requested_destination = objects.Destination(
            allow_cross_cell_move=False)
        spec.save()
        instance.pci_requests = pci_request.get_pci_requests_from_flavor(
            instance.flavor)
        instance.pci_requests.instance_uuid = instance.uuid
        for request in instance.pci_requests.requests:
            # as with [filter_scheduler] pci_in_placement
            request.spec[0]['rp_uuids'] = fixed_uuid('provider')
        self._fit(instance, host, first_cell=1)
        instance.host = host
        instance.system_metadata['old_vm_state'] = 'active'
        instance.save()

    def _fit(self, instance, host, first_cell=0):
        if instance.numa_topology is None:
            return
        cells = [
            objects.NUMACell(
                id=cell, socket=cell, memory=65536, memory_usage=0,
                cpu_usage=0, cpuset=set(range(cell * 16, cell * 16 + 16)),
                pcpuset=set(range(cell * 16, cell * 16 + 16)),
                pinned_cpus=set(), siblings=[
                    {cpu, cpu + 8}
                    for cpu in range(cell * 16, cell * 16 + 8)],
                mempages=[
                    objects.NUMAPagesTopology(
                        size_kb=4, total=65536 * 128, used=0),
                    objects.NUMAPagesTopology(
                        size_kb=2048, total=16384, used=0)])
            for cell in range(first_cell, first_cell + 2)]
        instance.numa_topology = hardware.numa_fit_instance_to_host(
            objects.NUMATopology(cells=cells),
            instance.numa_topology.clear_host_pinning(), None)
        assert instance.numa_topology is not None, host

    def rows(self, instance):
        """The server, as stored."""
        def only(query):
            row, = self.select(query, instance.uuid)
            return row

        extra = only('SELECT flavor, numa_topology, pci_requests '
                     'FROM instance_extra WHERE instance_uuid = ?')
        return {
            'nova': nova.version.version_string(),
            'server': instance.display_name,
            'request_spec': json.loads(only(
                'SELECT spec FROM request_specs WHERE instance_uuid = ?')[
                    'spec']),
            'instance': only(
                'SELECT uuid, project_id, user_id, image_ref, host, '
                'availability_zone, vm_state, task_state, instance_type_id '
                'FROM instances WHERE uuid = ?'),
            'instance_extra': {
                name: value and json.loads(value)
                for name, value in extra.items()},
            'system_metadata': {
                row['key']: row['value'] for row in self.select(
                    'SELECT key, value FROM instance_system_metadata '
                    'WHERE instance_uuid = ? ORDER BY key', instance.uuid)},
            'root_device': only(
                'SELECT source_type, destination_type, image_id, volume_id '
                'FROM block_device_mapping '
                'WHERE boot_index = 0 AND instance_uuid = ?'),
            'groups': [row['uuid'] for row in self.select(
                'SELECT g.uuid FROM instance_groups g '
                'JOIN instance_group_member m ON m.group_id = g.id '
                'WHERE m.instance_uuid = ?', instance.uuid)],
        }


def servers(cloud):
    debian = image('debian')
    tuned = image('tuned', **PROPERTIES)
    local = {'source_type': 'image', 'destination_type': 'local'}
    volume = {'destination_type': 'volume', 'volume_id': fixed_uuid('volume')}

    def boot(name, flavor, boot_meta, bdm, host, zone='nova', **request):
        image_ref = (boot_meta['id']
                     if bdm['destination_type'] == 'local' else '')
        if bdm['source_type'] == 'image':
            bdm = {'image_id': boot_meta['id'], **bdm}
        instance = cloud.boot(
            name, flavor, boot_meta, image_ref, bdm, **request)
        cloud.spawn(instance, host, zone)
        return instance

    yield boot('plain', 'plain', debian, local, 'amd1')
    yield boot('numa', 'numa', tuned, local, 'intel1')
    moved = boot('moved', 'numa', tuned, local, 'intel1')
    cloud.cold_migrate(moved, 'intel2')
    yield moved
    yield boot('volume', 'plain', volume_image(),
               {'source_type': 'volume', **volume}, 'amd1')
    yield boot('volume-of-image', 'plain', tuned,
               {'source_type': 'image', **volume}, 'amd1')
    yield boot(
        'member', 'plain', debian, local, 'amd2', 'zone-2', pin='zone-2',
        hints={'group': cloud.group().uuid, 'rack': 'r7',
               'different_host': [fixed_uuid('plain'), fixed_uuid('numa')]})


def main():
    directory, = sys.argv[1:]
    objects.register_all()
    # Whatever is not the release's doing stays the same from run to run.
    timeutils.set_time_override(NOW)
    numbers = iter(range(10 ** 6))
    with mock.patch('oslo_utils.uuidutils.generate_uuid',
                    lambda dashed=True: fixed_uuid(str(next(numbers)))):
        with databases() as select:
            cloud = Cloud(select)
            lines = [json.dumps(cloud.rows(instance), separators=(',', ':'))
                     for instance in servers(cloud)]
    path = os.path.join(
        directory, nova.version.version_string() + '.jsonl')
    with open(path, 'w') as rows:
        rows.write('\n'.join(lines) + '\n')


if __name__ == '__main__':
    main()
