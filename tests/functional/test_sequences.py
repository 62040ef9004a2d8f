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

"""What drifts a spec in nova, and the move that comes after it.

Each sequence is nova's own code from end to end; only what fails in it is
mocked. The ids are those of the drift atlas. Every move here goes wrong with
SPECGUARD_TESTS_GUARD=off.
"""

from unittest import mock

from neutronclient.common import exceptions as neutron_exception
from nova.compute import manager as compute_manager
from nova.compute import resource_tracker
from nova.compute import rpcapi
from nova import exception
from nova.network import model as network_model
from nova.network import neutron
from nova import objects
from nova.tests.functional.api import client
from oslo_db import exception as db_exception

from tests.functional import base
from tests.functional import world
from tests.functional.world import A2_MEDIUM
from tests.functional.world import E2_GPU
from tests.functional.world import E2_MEDIUM
from tests.functional.world import E2_NUMA
from tests.functional.world import TOO_BIG

DRIVER_ERROR = exception.ResizeError(reason='the driver failed')


class FailedResizeTest(base.TestCase):
    """The spec says e2.medium, the server is still an a2.medium."""

    def setUp(self):
        super().setUp()
        # No reschedule: the first failure is the last.
        self.flags(group='scheduler', max_attempts=1)
        self.server = self.boot_reported_case()

    def assert_resize_drifted(self, status, spec_flavor=E2_MEDIUM):
        self.assertEqual(status, self.show(self.server)['status'])
        self.assert_drifted(self.server, spec_flavor, A2_MEDIUM)

    def test_a1_claim_fails_on_the_target_then_live_migration(self):
        with mock.patch.object(
                resource_tracker.ResourceTracker, 'resize_claim',
                side_effect=exception.ComputeResourcesUnavailable(
                    reason='no')):
            self.resize(self.server, E2_MEDIUM)
        self.assert_resize_drifted('ERROR')

        self.reset_state(self.server)
        self.live_migrate(self.server)
        self.assert_runs(self.server, 'amd2', A2_MEDIUM)
        self.assert_alert('101', self.server, 'live-migration', 'flavor')

    def test_a2_resize_rolled_back_by_the_driver_then_live_migration(self):
        self.fail_resize(self.server, E2_MEDIUM)
        self.assert_resize_drifted('ACTIVE')

        self.live_migrate(self.server)
        self.assert_runs(self.server, 'amd2', A2_MEDIUM)
        self.assert_alert('101', self.server, 'live-migration', 'flavor')

    def test_a3_driver_fails_on_the_source_then_evacuation(self):
        with self.driver_fails('migrate_disk_and_power_off', DRIVER_ERROR):
            self.resize(self.server, E2_MEDIUM)
        self.assert_resize_drifted('ERROR')

        self.evacuate(self.server)
        self.assert_runs(self.server, 'amd2', A2_MEDIUM)
        self.assert_alert('101', self.server, 'evacuate', 'flavor')

    def test_a4_driver_fails_on_the_target_then_live_migration(self):
        with self.driver_fails('finish_migration', DRIVER_ERROR):
            self.resize(self.server, E2_MEDIUM)
        self.assert_resize_drifted('ERROR')
        self.assertEqual('intel1', self.host_of(self.server))

        self.hard_reboot(self.server)
        self.live_migrate(self.server)
        self.assert_runs(self.server, 'amd1', A2_MEDIUM)
        self.assert_alert('101', self.server, 'live-migration', 'flavor')

    def leave_devices_of_the_other_flavor(self):
        with self.driver_fails('finish_migration', DRIVER_ERROR):
            self.resize(self.server, E2_GPU)
        self.assert_resize_drifted('ERROR', spec_flavor=E2_GPU)
        requests = self.instance_of(self.server).pci_requests.requests
        self.assertEqual([world.PCI_ALIAS], [r.alias_name for r in requests])
        self.hard_reboot(self.server)

    def test_a4_left_with_devices_of_the_other_flavor_then_evacuation(self):
        self.leave_devices_of_the_other_flavor()
        self.evacuate(self.server)
        # Half corrected it would find no host and be left in ERROR.
        self.assertEqual('ACTIVE', self.show(self.server)['status'])
        self.assert_alert(
            '103', self.server, 'evacuate', 'flavor,pci_requests')

    def test_a4_left_with_devices_of_the_other_flavor_then_unshelve(self):
        self.leave_devices_of_the_other_flavor()
        self.shelve(self.server)
        self.unshelve(self.server)
        self.assertEqual(
            'SHELVED_OFFLOADED', self.show(self.server)['status'])
        self.assert_alert(
            '102', self.server, 'unshelve', 'flavor,pci_requests')

    def test_a7_no_host_for_a_spec_of_before_rocky_then_unshelve(self):
        self.edit_spec(self.server, lambda spec: spec.pop('is_bfv'))
        self.set_guard(mode='off')
        self.resize(self.server, TOO_BIG)
        self.assert_resize_drifted('ACTIVE', spec_flavor=TOO_BIG)

        self.set_guard(mode='enforce')
        self.shelve(self.server)
        self.unshelve(self.server)
        self.assert_runs(self.server, 'amd1', A2_MEDIUM)
        self.assert_alert('101', self.server, 'unshelve', 'flavor')

    def test_a7_is_prevented(self):
        self.edit_spec(self.server, lambda spec: spec.pop('is_bfv'))
        self.resize(self.server, TOO_BIG)
        self.assert_drifted(self.server, A2_MEDIUM, A2_MEDIUM)
        self.assert_alert('101', self.server, 'resize', 'is_bfv')

    def test_k1_resize_lost_on_its_way_to_the_target_then_live_migration(
            self):
        with mock.patch.object(rpcapi.ComputeAPI, 'prep_resize'):
            self.admin_api.post_server_action(
                self.server['id'],
                {'resize': {'flavorRef': E2_MEDIUM.flavorid}})
            self.eventually(lambda: self.assert_resize_drifted('RESIZE'))

        self.reset_state(self.server)
        self.live_migrate(self.server)
        self.assert_runs(self.server, 'amd2', A2_MEDIUM)
        self.assert_alert('101', self.server, 'live-migration', 'flavor')

    def test_x2_late_affinity_check_on_the_target_then_live_migration(self):
        with mock.patch.object(
                compute_manager.ComputeManager,
                '_validate_instance_group_policy',
                side_effect=exception.RescheduledException(
                    instance_uuid=self.server['id'], reason='policy')):
            self.resize(self.server, E2_MEDIUM)
        self.assert_resize_drifted('ACTIVE')

        self.live_migrate(self.server)
        self.assert_runs(self.server, 'amd2', A2_MEDIUM)
        self.assert_alert('101', self.server, 'live-migration', 'flavor')


class InverseDriftTest(base.TestCase):
    """The server is an e2.medium now, the spec still says a2.medium."""

    def setUp(self):
        super().setUp()
        self.server = self.boot_reported_case()

    def assert_inverse_drift(self, status):
        self.assertEqual(status, self.show(self.server)['status'])
        self.assertEqual('intel1', self.host_of(self.server))
        self.assert_drifted(self.server, A2_MEDIUM, E2_MEDIUM)

    def test_a9_revert_fails_in_the_api_then_live_migration(self):
        self.resize(self.server, E2_MEDIUM)
        with mock.patch.object(
                network_model.NetworkInfo, 'has_port_with_allocation',
                return_value=True), \
            mock.patch.object(
                neutron.API, 'get_requested_resource_for_instance',
                side_effect=neutron_exception.ConnectionFailed(reason='no')):
            self.assertRaises(
                client.OpenStackApiException, self.revert, self.server)
        self.assert_inverse_drift('VERIFY_RESIZE')

        self.confirm(self.server)
        self.live_migrate(self.server)
        self.assert_runs(self.server, 'intel2', E2_MEDIUM)
        self.assert_alert('101', self.server, 'live-migration', 'flavor')

    def test_a10_revert_fails_on_the_target_then_live_migration(self):
        self.resize(self.server, E2_MEDIUM)
        with self.driver_fails('destroy', DRIVER_ERROR):
            self.revert(self.server)
        self.assert_inverse_drift('ERROR')

        self.reset_state(self.server)
        self.live_migrate(self.server)
        self.assert_runs(self.server, 'intel2', E2_MEDIUM)
        self.assert_alert('101', self.server, 'live-migration', 'flavor')

    def test_a13_spec_cannot_be_saved_then_unshelve(self):
        with mock.patch.object(
                objects.RequestSpec, 'save',
                side_effect=db_exception.DBConnectionError()):
            self.resize(self.server, E2_MEDIUM)
            self.confirm(self.server)
        self.assert_inverse_drift('ACTIVE')

        self.shelve(self.server)
        self.unshelve(self.server)
        self.assert_runs(self.server, 'intel1', E2_MEDIUM)
        self.assert_alert('101', self.server, 'unshelve', 'flavor')


class LeftOverTest(base.TestCase):
    """The flavor of the spec is right, other fields belong to another."""

    def setUp(self):
        super().setUp()
        self.server = self.boot(A2_MEDIUM, host='amd1')

    def test_n1_numa_survives_a_failed_resize_then_migrate(self):
        self.fail_resize(self.server, E2_NUMA)
        self.assert_drifted(self.server, E2_NUMA, A2_MEDIUM)
        self.assertTrue(self.spec_has_numa(self.server))

        self.migrate(self.server)
        self.assert_runs(
            self.server, 'amd2', A2_MEDIUM, status='VERIFY_RESIZE')
        self.assertFalse(self.spec_has_numa(self.server))
        self.assert_alert('101', self.server, 'migrate', 'numa_topology')

    def test_p2_devices_survive_a_revert_then_live_migration(self):
        self.resize(self.server, E2_GPU)
        self.revert(self.server)
        self.assert_drifted(self.server, A2_MEDIUM, A2_MEDIUM)
        self.assertEqual(
            [world.PCI_ALIAS], self.spec_pci_aliases(self.server))

        self.live_migrate(self.server)
        self.assert_runs(self.server, 'amd2', A2_MEDIUM)
        self.assert_alert(
            '101', self.server, 'live-migration', 'pci_requests')
