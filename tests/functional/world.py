# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The cloud of the reported case: AMD hosts, Intel hosts, flavors for each."""

import json

from nova import objects
from nova.virt import fake

AMD, INTEL = 'amd', 'intel'

# In order of preference: without one, a test could not name the host on
# which a server lands.
VENDORS = {
    'amd1': AMD,
    'amd2': AMD,
    'amd3-numa': AMD,
    'intel1': INTEL,
    'intel2': INTEL,
}
NUMA_HOSTS = {'amd3-numa', 'intel1', 'intel2'}
PCI_HOSTS = {'intel1', 'intel2'}
ISOLATION = 'aggregate_instance_extra_specs:cpu_vendor'
PCI_ALIAS = 'fake-gpu'

PCI_CONFIG = {
    'alias': [json.dumps({
        'name': PCI_ALIAS, 'vendor_id': '10de', 'product_id': '1db4',
        'device_type': 'type-PCI'})],
    'device_spec': [json.dumps({'vendor_id': '10de', 'product_id': '1db4'})],
}


class Flavor:
    """What a test has to know of a flavor."""

    def __init__(self, flavorid, name, vcpus, ram, disk, vendor,
                 **extra_specs):
        self.flavorid = flavorid
        self.name = name
        self.vendor = vendor
        self.resources = {'VCPU': vcpus, 'MEMORY_MB': ram, 'DISK_GB': disk}
        self.extra_specs = {ISOLATION: vendor, **extra_specs}

    @property
    def fields(self):
        """Of nova.objects.Flavor."""
        return {
            'flavorid': self.flavorid, 'name': self.name,
            'vcpus': self.resources['VCPU'],
            'memory_mb': self.resources['MEMORY_MB'],
            'root_gb': self.resources['DISK_GB'], 'ephemeral_gb': 0,
            'swap': 0, 'rxtx_factor': 1.0, 'vcpu_weight': 0,
            'disabled': False, 'is_public': True,
            'extra_specs': self.extra_specs}


# Numbers and ids of seed-case/flavors.csv.
A2_MEDIUM = Flavor('026050', 'a2.medium', 4, 8192, 80, AMD)
A2_LARGE = Flavor('026060', 'a2.large', 6, 12288, 120, AMD)
E2_MEDIUM = Flavor('022050', 'e2.medium', 4, 8192, 25, INTEL)
# Not of the reported cloud: what left-over NUMA and PCI requests come from,
# and a flavor for which placement has no candidate at all.
E2_NUMA = Flavor('922001', 'e2.numa', 4, 8192, 80, INTEL,
                 **{'hw:numa_nodes': '2'})
E2_GPU = Flavor('922002', 'e2.gpu', 4, 8192, 80, INTEL,
                **{'pci_passthrough:alias': PCI_ALIAS + ':1'})
TOO_BIG = Flavor('922003', 'e2.too-big', 4000, 8192, 80, INTEL)

FLAVORS = (A2_MEDIUM, A2_LARGE, E2_MEDIUM, E2_NUMA, E2_GPU, TOO_BIG)


class WorldDriver(fake.FakeDriver):
    """nova's fake driver, with hosts that differ in NUMA and PCI."""

    def get_available_resource(self, nodename):
        resources = super().get_available_resource(nodename)
        if nodename in NUMA_HOSTS:
            resources['numa_topology'] = _two_numa_nodes()._to_json()
        if nodename in PCI_HOSTS:
            resources['pci_passthrough_devices'] = json.dumps(_two_gpus())
        return resources


def _two_numa_nodes():
    cells = [
        objects.NUMACell(
            id=cell, cpuset=set(range(cell * 32, cell * 32 + 32)),
            pcpuset=set(), memory=131072, cpu_usage=0, memory_usage=0,
            pinned_cpus=set(), siblings=[], socket=0,
            mempages=[objects.NUMAPagesTopology(
                size_kb=4, total=131072 * 256, used=0)])
        for cell in range(2)]
    return objects.NUMATopology(cells=cells)


def _two_gpus():
    return [{
        'address': '0000:81:0%d.0' % slot, 'vendor_id': '10de',
        'product_id': '1db4', 'status': 'available', 'dev_type': 'type-PCI',
        'parent_addr': None, 'numa_node': None,
        'label': 'label_10de_1db4'} for slot in range(2)]
