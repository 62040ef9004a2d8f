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

"""What goes right in nova goes right with the guard, and without an alert."""

from unittest import mock

from nova.compute import resource_tracker
from nova import exception
from nova.policies import base as base_policies
from nova.policies import servers as servers_policies

from tests.functional import base
from tests.functional import world
from tests.functional.world import A2_LARGE
from tests.functional.world import A2_MEDIUM
from tests.functional.world import E2_GPU
from tests.functional.world import E2_MEDIUM
from tests.functional.world import E2_NUMA


class HealthyTestCase(base.TestCase):

    def assert_healthy(self, server, host, flavor, status='ACTIVE'):
        self.assert_runs(server, host, flavor, status)
        self.assertEqual(flavor.name, self.spec_flavor(server))
        self.assert_no_alert()


class MovesTest(HealthyTestCase):

    def setUp(self):
        super().setUp()
        self.server = self.boot(A2_MEDIUM, host='amd1')

    def test_live_migration(self):
        self.live_migrate(self.server)
        self.assert_healthy(self.server, 'amd2', A2_MEDIUM)

    def test_live_migration_by_the_old_api(self):
        self.live_migrate_by_old_api(self.server, host='amd2')
        self.assert_healthy(self.server, 'amd2', A2_MEDIUM)

    def test_forced_live_migration(self):
        self.force_live_migrate(self.server, 'amd2')
        self.assert_healthy(self.server, 'amd2', A2_MEDIUM)

    def test_migrate_and_confirm(self):
        self.migrate(self.server)
        self.confirm(self.server)
        self.assert_healthy(self.server, 'amd2', A2_MEDIUM)

    def test_migrate_of_a_stopped_server(self):
        self.act(self.server, {'os-stop': None})
        self.migrate(self.server)
        self.confirm(self.server)
        self.assert_healthy(self.server, 'amd2', A2_MEDIUM, status='SHUTOFF')

    def test_evacuate(self):
        self.evacuate(self.server)
        self.assert_healthy(self.server, 'amd2', A2_MEDIUM)

    def test_unshelve(self):
        self.shelve(self.server)
        self.unshelve(self.server, host='amd2')
        self.assert_healthy(self.server, 'amd2', A2_MEDIUM)

    def test_unshelve_into_a_zone(self):
        self.shelve(self.server)
        self.create_zone('west', ('amd2', 'intel2'))
        self.unshelve(self.server, availability_zone='west')
        self.assert_healthy(self.server, 'amd2', A2_MEDIUM)

    def test_rebuild(self):
        self.rebuild(self.server)
        self.assert_healthy(self.server, 'amd1', A2_MEDIUM)

    def test_moves_that_follow_each_other(self):
        self.live_migrate(self.server)
        self.resize(self.server, A2_LARGE)
        self.confirm(self.server)
        self.rebuild(self.server)
        self.shelve(self.server)
        self.unshelve(self.server, host='amd2')
        self.live_migrate(self.server)
        self.assert_healthy(self.server, 'amd1', A2_LARGE)


class ResizeTest(HealthyTestCase):

    def test_up_and_confirm(self):
        server = self.boot(A2_MEDIUM, host='amd1')
        self.resize(server, A2_LARGE)
        self.assert_healthy(server, 'amd2', A2_LARGE, status='VERIFY_RESIZE')
        self.confirm(server)
        self.assert_healthy(server, 'amd2', A2_LARGE)

    def test_down_and_confirm(self):
        server = self.boot_reported_case()
        self.resize(server, E2_MEDIUM)
        self.confirm(server)
        self.assert_healthy(server, 'intel1', E2_MEDIUM)

    def test_revert(self):
        server = self.boot(A2_MEDIUM, host='amd1')
        self.resize(server, A2_LARGE)
        self.revert(server)
        self.assert_healthy(server, 'amd1', A2_MEDIUM)

    def test_revert_and_live_migration(self):
        server = self.boot(A2_MEDIUM, host='amd1')
        self.resize(server, E2_NUMA)
        self.revert(server)
        self.live_migrate(server)
        self.assert_healthy(server, 'amd2', A2_MEDIUM)

    def test_without_a_host(self):
        server = self.boot(A2_MEDIUM, host='amd1')
        self.resize(server, world.TOO_BIG)
        self.assert_healthy(server, 'amd1', A2_MEDIUM)

    def test_reschedule_to_an_alternate(self):
        server = self.boot(A2_MEDIUM, host='amd1')
        with _fails_once(resource_tracker.ResourceTracker, 'resize_claim',
                         exception.ComputeResourcesUnavailable(reason='no')):
            self.resize(server, E2_NUMA)
            self.eventually(lambda: self.assertEqual(
                'VERIFY_RESIZE', self.show(server)['status']))
        self.assert_healthy(server, 'intel2', E2_NUMA, status='VERIFY_RESIZE')

    def test_to_the_devices_of_another_flavor_and_on(self):
        server = self.boot(A2_MEDIUM, host='amd1')
        self.resize(server, E2_GPU)
        self.confirm(server)
        self.migrate(server)
        self.confirm(server)
        self.shelve(server)
        self.unshelve(server, host='intel1')
        self.assert_healthy(server, 'intel1', E2_GPU)


class BootTest(HealthyTestCase):

    def test_multi_create(self):
        self.boot(A2_MEDIUM, min_count=3)
        self.eventually(lambda: self.assertEqual(
            ['ACTIVE'] * 3,
            [s['status'] for s in self.admin_api.get_servers()]))
        self.assert_no_alert()

    def test_reschedule_to_an_alternate(self):
        with _fails_once(world.WorldDriver, 'spawn',
                         exception.ComputeResourcesUnavailable(reason='no')):
            server = self.boot(A2_MEDIUM)
        self.assert_healthy(server, 'amd2', A2_MEDIUM)

    def test_without_a_host(self):
        body = self._build_server(
            image_uuid=base.IMAGE, flavor_id=world.TOO_BIG.flavorid,
            networks='none')
        server = self.admin_api.post_server({'server': body})
        self.eventually(lambda: self.assertEqual(
            'ERROR', self.show(server)['status']))
        self.assert_no_alert()


class NumaAndDevicesTest(HealthyTestCase):
    """Pins, cells and device requests differ in a healthy server, too."""

    def test_numa_server(self):
        server = self.boot(E2_NUMA, host='intel1')
        self.live_migrate(server)
        self.migrate(server)
        self.confirm(server)
        self.rebuild(server)
        self.evacuate(server)
        self.assert_healthy(server, 'intel2', E2_NUMA)

    def test_server_with_devices(self):
        server = self.boot(E2_GPU, host='intel1')
        self.migrate(server)
        self.confirm(server)
        self.rebuild(server)
        self.evacuate(server)
        self.assert_healthy(server, 'intel1', E2_GPU)


class CrossCellTest(HealthyTestCase):

    NUMBER_OF_CELLS = 2
    hosts = ()

    def setUp(self):
        super().setUp()
        self.policy.set_rules({
            servers_policies.CROSS_CELL_RESIZE: base_policies.RULE_ADMIN_API,
        }, overwrite=False)
        self._start_compute('amd1', cell_name='cell1')
        self._start_compute('amd2', cell_name='cell2')
        self._aggregate('both', ('amd1', 'amd2'), cpu_vendor=world.AMD)
        self.server = self.boot(A2_MEDIUM, host='amd1')

    def test_resize_and_confirm(self):
        self.resize_across()
        self.confirm(self.server)
        self.assert_healthy(self.server, 'amd2', A2_LARGE)

    def test_resize_and_revert(self):
        self.resize_across()
        self.revert(self.server)
        self.eventually(lambda: self.assertEqual(
            'ACTIVE', self.show(self.server)['status']))
        self.assert_healthy(self.server, 'amd1', A2_MEDIUM)

    def resize_across(self):
        self.resize(self.server, A2_LARGE)
        self.eventually(lambda: self.assertEqual(
            'VERIFY_RESIZE', self.show(self.server)['status']))
        self.assert_healthy(
            self.server, 'amd2', A2_LARGE, status='VERIFY_RESIZE')


def _fails_once(owner, method, error):
    original = getattr(owner, method)
    errors = [error]

    def fail_once(*args, **kwargs):
        if errors:
            raise errors.pop()
        return original(*args, **kwargs)

    return mock.patch.object(owner, method, fail_once)
