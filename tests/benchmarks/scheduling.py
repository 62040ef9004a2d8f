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

"""What the guard costs the scheduler in time.

A live migration is scheduled in a cell with many hosts by nova's real
SchedulerManager, on real rows; only placement is a stub. What would make nova
itself slower than in production, and so the guard cheaper by comparison, is
left out: debug logging, versioned notifications, NUMA topologies, devices,
aggregates, the time that placement takes.
"""

import gc
import json
import logging
import time
import timeit

import nova.conf
from nova import context as nova_context
from nova import objects
from nova.objects import base as objects_base
from nova.scheduler import host_manager
from nova.scheduler import manager
from nova.scheduler import request_filter
from nova import test
from oslo_utils.fixture import uuidsentinel as uuids

from tests.functional import fixtures as specguard_fixtures

HOSTS = 1000
FILTERED = (10, 1000, 10000)


class Placement:
    """Offers every host, and grants every claim.

    As the real client, it parses its answer each time.
    """

    def __init__(self, nodes):
        resources = {'VCPU': 1, 'MEMORY_MB': 2048, 'DISK_GB': 20}
        self._answer = json.dumps([
            [{'allocations': {node.uuid: {'resources': resources}},
              'mappings': {'': [node.uuid]}} for node in nodes],
            {node.uuid: {
                'resources': {name: {'capacity': 100000, 'used': 0}
                              for name in resources},
                'traits': ['COMPUTE_NODE'], 'parent_provider_uuid': None,
                'root_provider_uuid': node.uuid} for node in nodes}])

    def get_allocation_candidates(self, context, resources):
        resources.to_querystring()
        return *json.loads(self._answer), '1.36'

    def claim_resources(self, *args, **kwargs):
        return True


class _Cloud(test.TestCase):

    pairs = 1

    def setUp(self):
        super().setUp()
        logging.disable(logging.DEBUG)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.flags(notification_format='unversioned', group='notifications')
        self.flags(service_down_time=24 * 3600)
        self.flags(max_placement_results=10 * HOSTS, group='scheduler')
        self.useFixture(specguard_fixtures.SpecGuard())
        self.flags(
            group='filter_scheduler',
            available_filters=['nova_specguard.scheduler.all_filters'],
            enabled_filters=['SpecGuardFilter'] +
            nova.conf.CONF.filter_scheduler.enabled_filters)

        self.context = nova_context.RequestContext(
            'admin', 'operators', is_admin=True)
        self.cell = self.cell_mappings['cell1']
        with nova_context.target_cell(self.context, self.cell) as context:
            nodes = [self._create_host(context, 'host%04d' % number)
                     for number in range(HOSTS)]
            instance = self._create_instance(context, nodes[0].host)
        self.placement = Placement(nodes)
        self.stub_out('nova.scheduler.client.report.report_client_singleton',
                      lambda: self.placement)
        self.manager = manager.SchedulerManager()
        # As nova-compute's periodic task does; without it, nova would read
        # the servers of every host for every request.
        for _again in range(2):
            for node in nodes:
                self.manager.host_manager.sync_instance_info(
                    self.context, node.host,
                    [instance.uuid] if node is nodes[0] else [])
        self._make_request(instance)
        self._split_arms()

    def _create_host(self, context, host):
        objects.Service(context, host=host, binary='nova-compute',
                        topic='compute', report_count=1).create()
        objects.HostMapping(self.context, host=host,
                            cell_mapping=self.cell).create()
        node = objects.ComputeNode(
            context, host=host, hypervisor_hostname=host, host_ip='10.0.0.1',
            uuid=getattr(uuids, host), hypervisor_type='QEMU',
            hypervisor_version=8002000, cpu_info='{}', stats={}, metrics='[]',
            supported_hv_specs=[objects.HVSpec.from_list(
                ['x86_64', 'kvm', 'hvm'])],
            vcpus=64, memory_mb=262144, local_gb=4000, vcpus_used=0,
            memory_mb_used=512, local_gb_used=0, free_ram_mb=261632,
            free_disk_gb=4000, disk_available_least=4000, running_vms=0,
            current_workload=0, cpu_allocation_ratio=4.0,
            ram_allocation_ratio=1.0, disk_allocation_ratio=1.0)
        node.create()
        return node

    def _create_instance(self, context, host):
        instance = objects.Instance(
            context, user_id='owner', project_id='project', host=host,
            vm_state='active', task_state='migrating',
            image_ref=uuids.image,
            system_metadata={'image_base_image_ref': uuids.image},
            flavor=objects.Flavor.get_by_name(self.context, 'm1.small'),
            old_flavor=None, new_flavor=None)
        instance.create()
        objects.InstanceMapping(
            self.context, instance_uuid=instance.uuid, project_id='project',
            user_id='owner', queued_for_delete=False,
            cell_mapping=self.cell).create()
        return instance

    def _make_request(self, instance):
        """As conductor's LiveMigrationTask sends it."""
        spec = objects.RequestSpec.from_components(
            self.context, instance.uuid, {}, instance.flavor, None, None,
            {'ignore_hosts': [instance.host],
             'requested_destination': objects.Destination(cell=self.cell)},
            None, None, project_id='project', user_id='owner')
        spec.requested_resources = []
        spec.is_bfv = False
        self.instance_uuid = instance.uuid
        self.memory_mb = instance.flavor.memory_mb
        self._serializer = objects_base.NovaObjectSerializer()
        self._message = json.dumps(
            self._serializer.serialize_entity(self.context, spec))

    def _split_arms(self):
        """One manager for both arms: their caches cannot differ."""
        filters = self.manager.host_manager.enabled_filters
        requests = request_filter.ALL_REQUEST_FILTERS
        self._arms = {True: (list(filters), list(requests)),
                      False: (filters[1:], requests[1:])}
        self.guard_filter = filters[0]

    def select(self, guarded, drift=0):
        """Schedule once.

        :param guarded: in which arm
        :param drift: MB of memory by which the request differs
        :returns: seconds (by the clock, of CPU), and the RequestSpec
        """
        (self.manager.host_manager.enabled_filters,
         request_filter.ALL_REQUEST_FILTERS[:]) = self._arms[guarded]
        context = nova_context.RequestContext(
            'admin', 'operators', is_admin=True)
        spec = self._serializer.deserialize_entity(
            context, json.loads(self._message))
        spec.flavor.memory_mb += drift
        gc.collect()
        gc.disable()
        try:
            started = time.perf_counter(), time.process_time()
            selected = self.manager.select_destinations(
                context, spec_obj=spec, instance_uuids=[self.instance_uuid],
                return_objects=True, return_alternates=False)
            ended = time.perf_counter(), time.process_time()
        finally:
            gc.enable()
        self.assertEqual(1, len(selected))
        return (ended[0] - started[0], ended[1] - started[1]), spec

    def measure(self):
        alerts = self.useFixture(specguard_fixtures.Alerts())
        for guarded in (True, False) * 2:
            _times, spec = self.select(guarded, drift=1)
            # Each arm is what it is said to be.
            self.assertIs(guarded, spec.memory_mb == self.memory_mb)
        # What is there by now stays: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        pairs = self.results['pairs'] = []
        for number in range(self.pairs):
            # A B, B A, A B …: neither arm is always the first.
            order = (True, False) if number % 2 == 0 else (False, True)
            times = {guarded: self.select(guarded)[0] for guarded in order}
            pairs.append((times[True], times[False]))

        _times, spec = self.select(guarded=True)
        self.assertEqual(['101', '101'],
                         [alert['code'] for alert in alerts.incidents])
        self.results['filter'] = {
            hosts: self._time_filter(spec, hosts) for hosts in FILTERED}

    def _time_filter(self, spec, hosts):
        """Seconds that SpecGuardFilter takes for a checked request."""
        states = [host_manager.HostState(
            'host%d' % number, 'host%d' % number, self.cell.uuid)
            for number in range(hosts)]
        # A filter may be a generator; as nova, make a list of what it gives.
        timer = timeit.Timer(
            lambda: list(self.guard_filter.filter_all(states, spec)))
        number, _seconds = timer.autorange()
        return min(timer.repeat(7, number)) / number


def measure(run, pairs):
    """Time select_destinations and the filter alone.

    :param run: runs a test case class, gives its results
    :param pairs: how often to schedule with and without the guard
    :returns: dict: ``pairs`` is a list of (times with the guard, times
        without it), both of them (seconds by the clock, of CPU); ``filter``
        a dict of number of hosts to seconds
    """
    return run(_Cloud, pairs=pairs)
