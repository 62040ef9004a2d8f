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

"""One test an operation and one a drift class, and what only one of them has.

The first class is what is run on old nova releases, besides one test per
drift class in test_matrix.
"""

from nova.tests.functional.api import client

from tests.functional import base
from tests.functional import drifts
from tests.functional import world
from tests.functional.world import A2_MEDIUM
from tests.functional.world import E2_MEDIUM
from tests.functional.world import E2_NUMA


class OnePerOperationTest(base.TestCase):
    """A drifted server ends on a host for the flavor it has."""

    def setUp(self):
        super().setUp()
        self.server = self.boot_reported_case()
        self.fail_resize(self.server, E2_MEDIUM)

    def test_one_per_operation_live_migration(self):
        self.live_migrate(self.server)
        self.assert_runs(self.server, 'amd2', A2_MEDIUM)
        self.assert_alert('101', self.server, 'live-migration', 'flavor')

    def test_one_per_operation_migrate(self):
        self.migrate(self.server)
        self.assert_runs(
            self.server, 'amd2', A2_MEDIUM, status='VERIFY_RESIZE')
        self.assert_no_alert()

    def test_one_per_operation_resize(self):
        self.resize(self.server, world.A2_LARGE)
        self.assert_runs(
            self.server, 'amd2', world.A2_LARGE, status='VERIFY_RESIZE')
        self.assert_no_alert()

    def test_one_per_operation_evacuate(self):
        self.evacuate(self.server)
        self.assert_runs(self.server, 'amd2', A2_MEDIUM)
        self.assert_alert('101', self.server, 'evacuate', 'flavor')

    def test_one_per_operation_unshelve(self):
        self.shelve(self.server)
        self.unshelve(self.server)
        self.assert_runs(self.server, 'amd1', A2_MEDIUM)
        self.assert_alert('101', self.server, 'unshelve', 'flavor')

    def test_one_per_operation_rebuild(self):
        self.rebuild(self.server)
        self.assert_runs(self.server, 'amd1', A2_MEDIUM)
        self.assert_alert('101', self.server, 'rebuild', 'flavor')


class MissingGroupTest(drifts.Drifts, base.TestCase):
    """What the matrix cannot have: nova never ends these operations."""

    def test_evacuation_that_is_not_corrected_is_alerted(self):
        server = self.add_to_group()
        self.set_guard(mode='warn')
        self.fence('amd1')
        self.admin_api.post_server_action(server['id'], {'evacuate': {}})
        self.eventually(lambda: self.assert_alert(
            '103', server, 'evacuate', 'instance_group',
            classes='server-group-missing', service='nova-conductor'))
        self.assertEqual(
            'rebuilding', self.show(server)['OS-EXT-STS:task_state'])


class EntryPointTest(base.TestCase):
    """Other ways into a move than those of the matrix."""

    def setUp(self):
        super().setUp()
        self.server = self.boot_reported_case()
        self.fail_resize(self.server, E2_MEDIUM)

    def test_live_migration_by_the_old_api_is_corrected(self):
        self.live_migrate_by_old_api(self.server)
        self.assert_runs(self.server, 'amd2', A2_MEDIUM)
        self.assert_alert('101', self.server, 'live-migration', 'flavor')

    def test_live_migration_by_the_old_api_is_refused(self):
        self.set_guard(correct=False)
        self.assertRaises(
            client.OpenStackApiException,
            self.live_migrate_by_old_api, self.server)
        self.settle(self.server)
        self.assert_runs(self.server, 'amd1', A2_MEDIUM)
        self.assert_alert('102', self.server, 'live-migration', 'flavor')

    def test_live_migration_targeted_at_a_wrong_host_stays(self):
        self.live_migrate(self.server, host='intel1')
        self.assert_runs(self.server, 'amd1', A2_MEDIUM)
        self.assert_alert('101', self.server, 'live-migration', 'flavor')

    def test_forced_live_migration_bypasses_the_guard_with_an_alert(self):
        self.force_live_migrate(self.server, 'intel1')
        self.assert_runs(self.server, 'intel1', A2_MEDIUM)
        self.assert_alert('103', self.server, 'live-migration', 'flavor')

    def test_unshelve_into_a_zone(self):
        self.shelve(self.server)
        self.create_zone('west', ('amd2', 'intel2'))
        self.unshelve(self.server, availability_zone='west')
        self.assert_runs(self.server, 'amd2', A2_MEDIUM)
        self.assert_alert('101', self.server, 'unshelve', 'flavor')

    def test_evacuation_is_refused_if_the_operator_says_so(self):
        self.set_guard(correct=False, operation_modes={'evacuate': 'enforce'})
        self.evacuate(self.server)
        self.assert_runs(self.server, 'amd1', A2_MEDIUM, status='ERROR')
        self.assert_alert('102', self.server, 'evacuate', 'flavor')

    def test_the_row_is_left_for_the_audit_to_heal(self):
        self.live_migrate(self.server)
        self.assert_drifted(self.server, E2_MEDIUM, A2_MEDIUM)

    def test_an_alert_says_what_differs(self):
        self.live_migrate(self.server)
        alert = self.alerts.incidents[0]
        self.assertIn(E2_MEDIUM.name, alert['flavor_spec'])
        self.assertIn(A2_MEDIUM.name, alert['flavor_current'])
        self.assertEqual('cell1', alert['cell'])
        self.assertEqual('corrected', alert['outcome'])
        self.assertEqual(
            self.instance_of(self.server).project_id, alert['project'])
        self.assertRegex(alert['request_id'], '^req-')


class SchedulerAloneTest(base.TestCase):
    """A cloud that has only configured the scheduler."""

    conductor_is_guarded = False

    def test_a_stale_flavor_is_corrected_before_placement(self):
        server = self.boot_reported_case()
        self.fail_resize(server, E2_MEDIUM)
        self.live_migrate(server)
        self.assert_runs(server, 'amd2', A2_MEDIUM)
        self.assert_alert('101', server, 'live-migration', 'flavor')

    def test_a_flavor_too_big_for_any_host_is_corrected(self):
        server = self.boot(A2_MEDIUM, host='amd1')
        self.exceed_all_hosts(server)
        self.live_migrate(server)
        self.assert_runs(server, 'amd2', A2_MEDIUM)
        self.assert_alert('101', server, 'live-migration', 'flavor')

    def test_left_over_numa_is_corrected(self):
        server = self.boot(A2_MEDIUM, host='amd1')
        self.fail_resize(server, E2_NUMA)
        self.live_migrate(server)
        self.assert_runs(server, 'amd2', A2_MEDIUM)
        self.assert_alert(
            '101', server, 'live-migration', 'flavor,numa_topology')

    def test_left_over_pci_requests_are_refused(self):
        server = self.boot(A2_MEDIUM, host='amd1')
        self.leave_pci_behind(server)
        self.live_migrate(server)
        self.assert_runs(server, 'amd1', A2_MEDIUM)
        self.assert_alert('102', server, 'live-migration', 'pci_requests')

    def test_rebuild_is_let_through_with_an_alert(self):
        server = self.boot_reported_case()
        self.fail_resize(server, E2_MEDIUM)
        self.rebuild(server)
        self.assert_runs(server, 'amd1', A2_MEDIUM)
        self.assert_alert('103', server, 'rebuild', 'flavor')
