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

import json
from unittest import mock

import fixtures
from nova.db.main import models
from nova import exception as nova_exception
from nova.scheduler.client import report
from oslo_utils import uuidutils

from tests.unit import cloud
from tests.unit import command

HOST = 'compute-a2b1'
WHOLE = {'VCPU': 4, 'MEMORY_MB': 8192, 'DISK_GB': 80}


class AllocationTestCase(cloud.CloudTestCase):

    def setUp(self):
        super().setUp()
        self.node = self.add_node(HOST)
        self.server = self.cell.add(cloud.healthy(host=HOST, node=HOST))
        self.placement = {}
        client = mock.Mock(spec=report.SchedulerReportClient)
        client.get_allocations_for_resource_provider.side_effect = self.answer
        self.client = client
        self.useFixture(fixtures.MockPatchObject(
            report, 'report_client_singleton', return_value=client))

    def add_node(self, host):
        uuid = uuidutils.generate_uuid()
        self.cell.insert(
            models.ComputeNode, self.cell.mapping, uuid=uuid, host=host,
            hypervisor_hostname=host, deleted=0, vcpus=8, memory_mb=1,
            local_gb=1, vcpus_used=0, memory_mb_used=0, local_gb_used=0,
            hypervisor_type='QEMU', hypervisor_version=1, cpu_info='')
        return uuid

    def answer(self, _context, provider):
        return report.ProviderAllocInfo(
            allocations=self.placement.get(provider, {}))

    def allocate(self, **resources):
        self.placement[self.node] = {
            self.server: {'resources': resources}}

    def difference(self):
        found = self.audit(with_allocations=True)
        self.assertEqual(['allocation'] if found else [],
                         [f.difference.drift_class.name for f in found])
        return found and (found[0].difference.spec_value,
                          found[0].difference.current_value)


class DifferenceTest(AllocationTestCase):

    EXPECTED = 'DISK_GB=80 MEMORY_MB=8192 VCPU=4'

    def test_what_the_flavor_takes(self):
        self.allocate(**WHOLE)
        self.assertEqual([], self.difference())

    def test_other_amount(self):
        for name in WHOLE:
            self.allocate(**{**WHOLE, name: 1})
            spec_value, current_value = self.difference()
            self.assertIn('%s=1' % name, spec_value)
            self.assertEqual(self.EXPECTED, current_value)

    def test_no_allocation(self):
        self.assertEqual(('', self.EXPECTED), self.difference())

    def test_disk_of_a_shared_storage(self):
        self.allocate(VCPU=4, MEMORY_MB=8192)
        self.assertEqual([], self.difference())

    def test_pinned_cpus_are_of_either_class(self):
        self.allocate(PCPU=4, MEMORY_MB=8192, DISK_GB=80)
        self.assertEqual([], self.difference())

    def test_not_looked_at_without_the_option(self):
        self.assertEqual({}, self.found())
        self.client.get_allocations_for_resource_provider.assert_not_called()


class FlavorTestCase(AllocationTestCase):

    def run_with(self, extra_specs):
        """A second server, whose flavor has these extra specs."""
        self.allocate(**WHOLE)
        row = cloud.healthy(host=HOST, node=HOST)
        flavor = row['request_spec']['nova_object.data']['flavor']
        flavor['nova_object.data']['extra_specs'] = extra_specs
        return self.cell.add(row)

    def found_for(self, extra_specs, **resources):
        server = self.run_with(extra_specs)
        self.placement[self.node][server] = {'resources': resources}
        return self.found(with_allocations=True).get(server, [])


class FlavorTest(FlavorTestCase):

    def test_resources_of_extra_specs(self):
        bare_metal = {'resources:VCPU': '0', 'resources:MEMORY_MB': '0',
                      'resources:DISK_GB': '0', 'resources:CUSTOM_X': '1'}
        self.assertEqual([], self.found_for(bare_metal, CUSTOM_X=1))
        self.assertEqual(['allocation'], self.found_for(
            bare_metal, CUSTOM_X=1, VCPU=4))

    def test_dedicated_cpus_and_one_for_the_emulator(self):
        specs = {'hw:cpu_policy': 'dedicated',
                 'hw:emulator_threads_policy': 'isolate'}
        self.assertNotIn('allocation', self.found_for(
            specs, PCPU=5, MEMORY_MB=8192, DISK_GB=80))
        self.assertIn('allocation', self.found_for(
            specs, PCPU=4, MEMORY_MB=8192, DISK_GB=80))

    def test_flavor_that_nova_no_longer_accepts(self):
        self.assertNotIn('allocation', self.found_for(
            {'hw:cpu_policy': 'nonsense'}, VCPU=1))

    def test_volume_backed_server(self):
        self.allocate(**WHOLE)
        row = cloud.healthy(host=HOST, node=HOST)
        row['request_spec']['nova_object.data']['is_bfv'] = True
        row['instance']['image_ref'] = ''
        row['root_device'] = {'source_type': 'volume',
                              'destination_type': 'volume'}
        server = self.cell.add(row)
        self.placement[self.node][server] = {
            'resources': {'VCPU': 4, 'MEMORY_MB': 8192}}
        self.assertEqual({}, self.found(with_allocations=True))


class UnjudgedTest(FlavorTestCase):
    """Classes that other providers can have."""

    def test_allocated_at_a_child(self):
        self.assertEqual(['allocation-unjudged'], self.found_for(
            {'resources:VGPU': '1'}, **WHOLE))

    def test_what_the_flavor_asks_for(self):
        self.assertEqual([], self.found_for(
            {'resources:VGPU': '1'}, VGPU=1, **WHOLE))

    def test_device_profile(self):
        self.found_for({'accel:device_profile': 'fpga'}, **WHOLE)
        (found,) = self.audit(with_allocations=True)
        self.assertEqual(('', 'accel:device_profile=fpga'),
                         (found.difference.spec_value,
                          found.difference.current_value))

    def test_it_does_not_hide_what_is_judged(self):
        self.assertEqual(
            ['allocation', 'allocation-unjudged'],
            self.found_for({'resources:VGPU': '1'}, **{**WHOLE, 'VCPU': 1}))


class CommandTest(AllocationTestCase, command.CommandTestCase):

    def rows(self, *arguments):
        self.code = self.run_command(
            *arguments, '--allocations', '-f', 'json')
        return json.loads(self.stdout.getvalue())

    def test_row_that_a_script_can_tell(self):
        self.allocate(VGPU=1, CUSTOM_X=3, **WHOLE)
        (row,) = self.rows('audit')
        self.assertEqual(
            ('allocation', 'allocation-unjudged', 'info', 'CUSTOM_X=3 VGPU=1',
             '', 'show'), tuple(row[name] for name in (
                 'field', 'drift_class', 'severity', 'spec_value',
                 'current_value', 'heal')))
        self.assertIn(self.server, row['reason'])
        self.assertEqual(0, self.code)

    def test_judged_classes_have_a_row_of_their_own(self):
        self.allocate(VGPU=1, **{**WHOLE, 'VCPU': 1})
        self.assertEqual(
            {'allocation': ('report', 'DISK_GB=80 MEMORY_MB=8192 VCPU=1'),
             'allocation-unjudged': ('show', 'VGPU=1')},
            {row['drift_class']: (row['heal'], row['spec_value'])
             for row in self.rows('audit')})
        self.assertEqual(3, self.code)

    def test_heal_names_what_mends_it(self):
        self.allocate(VGPU=1, **{**WHOLE, 'VCPU': 1})
        rows = {row['drift_class']: row for row in self.rows(
            'heal', '--dry-run')}
        self.assertEqual(
            ('left', 'nova-manage placement heal_allocations --instance %s '
             '--force' % self.server),
            (rows['allocation']['outcome'], rows['allocation']['reason']))
        self.assertEqual('left', rows['allocation-unjudged']['outcome'])
        self.assertEqual(3, self.code)

    def test_heal_has_nothing_to_do_about_what_is_shown(self):
        self.allocate(VGPU=1, **WHOLE)
        self.rows('heal', '--dry-run')
        self.assertEqual(0, self.code)


class ReadTest(AllocationTestCase):

    def test_once_per_node_and_again_for_a_suspect(self):
        for _server in range(3):
            uuid = self.cell.add(cloud.healthy(host=HOST, node=HOST))
            self.placement.setdefault(self.node, {})[uuid] = {
                'resources': WHOLE}
        read = self.client.get_allocations_for_resource_provider
        self.audit(with_allocations=True)
        self.assertEqual(2, read.call_count)
        read.reset_mock()
        self.placement[self.node][self.server] = {'resources': WHOLE}
        self.assertEqual([], self.audit(with_allocations=True))
        self.assertEqual(1, read.call_count)

    def test_claim_that_is_just_being_made(self):
        answers = [{}, {self.server: {'resources': WHOLE}}]
        self.client.get_allocations_for_resource_provider.side_effect = (
            lambda *args: report.ProviderAllocInfo(
                allocations=answers.pop(0)))
        self.assertEqual([], self.audit(with_allocations=True))
        self.assertEqual([], answers)

    def test_server_without_a_host(self):
        self.cell.add(cloud.healthy(host=None, node=None))
        self.allocate(**WHOLE)
        self.assertEqual([], self.audit(with_allocations=True))

    def test_server_in_flight(self):
        self.cell.add(cloud.healthy(
            host=HOST, node=HOST, task_state='resize_prep'))
        self.allocate(**WHOLE)
        self.assertEqual([], self.audit(with_allocations=True))

    def test_placement_that_does_not_answer(self):
        drifted = self.cell.add(cloud.reported_case())
        read = self.client.get_allocations_for_resource_provider
        read.side_effect = nova_exception.PlacementAPIConnectFailure()
        self.assertIn('flavor-other',
                      self.found(with_allocations=True)[drifted])
        self.assertEqual(1, read.call_count)
        (text,) = self.audited.unreadable
        self.assertIn('placement', text)
        self.assertIn('PlacementAPIConnectFailure', text)
