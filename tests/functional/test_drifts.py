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

"""What the databases hold after each way to drift of tests.drifts."""

from nova.scheduler import utils as scheduler_utils

from tests.functional import base
from tests.functional import drifts
from tests.functional.drifts import LINUX_IMAGE
from tests.functional.drifts import WINDOWS_IMAGE
from tests.functional.world import A2_MEDIUM
from tests.functional.world import E2_MEDIUM


class DriftsTest(drifts.Drifts, base.TestCase):

    def assert_images(self, server, spec, row, system_metadata):
        """Each is an image and its os_type, of which only the row has none."""
        spec_image = self.spec_of(server)['image']['nova_object.data']
        properties = spec_image['properties']['nova_object.data']
        instance = self.instance_of(server)
        self.assertEqual(
            spec, (spec_image['id'], properties.get('os_type')))
        self.assertEqual(row, instance.image_ref)
        self.assertEqual(
            system_metadata,
            (instance.system_metadata['image_base_image_ref'],
             instance.system_metadata['image_os_type']))

    def assert_rests_on(self, server, host):
        self.assertEqual(A2_MEDIUM.name, self.spec_flavor(server))
        self.assert_runs(server, host, A2_MEDIUM)

    def test_image_of_the_spec_is_left_behind(self):
        server = self.leave_image_behind()
        self.assert_images(
            server, (WINDOWS_IMAGE, 'windows'), LINUX_IMAGE,
            (LINUX_IMAGE, 'linux'))
        self.assert_rests_on(server, 'amd1')

    def test_image_after_a_refused_rebuild(self):
        server = self.refuse_rebuild()
        self.assert_images(
            server, (WINDOWS_IMAGE, 'windows'), LINUX_IMAGE,
            (WINDOWS_IMAGE, 'windows'))
        self.assert_rests_on(server, 'amd1')

    def test_image_of_the_spec_stays_refused(self):
        server = self.rebuild_back()
        self.assert_images(
            server, (WINDOWS_IMAGE, 'windows'), LINUX_IMAGE,
            (LINUX_IMAGE, 'linux'))
        self.assert_rests_on(server, 'amd1')

    def test_image_is_a_deleted_snapshot(self):
        server = self.leave_snapshot_as_image()
        snapshot = self.instance_of(server).image_ref
        self.assertNotIn(snapshot, (LINUX_IMAGE, WINDOWS_IMAGE))
        self.assertNotIn(snapshot, self.glance.images)
        self.assert_images(
            server, (LINUX_IMAGE, 'linux'), snapshot, (LINUX_IMAGE, 'linux'))
        self.assert_rests_on(server, 'amd1')

    def test_image_properties_are_lost(self):
        server = self.lose_image_properties()
        self.assert_images(
            server, (WINDOWS_IMAGE, 'windows'), WINDOWS_IMAGE,
            (WINDOWS_IMAGE, 'linux'))
        self.assert_rests_on(server, 'amd1')

    def test_project_and_user_of_another(self):
        server = self.misplace_project()
        self.assertEqual(
            drifts.OTHER_PROJECT, self.spec_of(server)['project_id'])
        self.assertEqual(
            server['tenant_id'], self.instance_of(server).project_id)
        self.assert_rests_on(server, 'amd1')

        server = self.misplace_user()
        self.assertEqual(drifts.OTHER_USER, self.spec_of(server)['user_id'])
        self.assertEqual(server['user_id'], self.instance_of(server).user_id)

    def test_rebuild_hint_is_stored(self):
        server = self.leave_rebuild_hint()
        spec = self.spec_of(server)
        self.assertEqual(
            ['rebuild'], spec['scheduler_hints']['_nova_check_type'])
        self.assertEqual(['amd1'], spec['force_hosts'])
        self.assertIs(False, spec['is_bfv'])
        self.assert_rests_on(server, 'amd1')

    def test_rebuild_hint_of_an_intel_server(self):
        server = self.leave_rebuild_hint(flavor=E2_MEDIUM, host='intel1')
        self.assertEqual(['intel1'], self.spec_of(server)['force_nodes'])
        self.assert_runs(server, 'intel1', E2_MEDIUM)

    def spec_group(self, server):
        group = self.spec_of(server)['instance_group']
        return group and group['nova_object.data']['uuid']

    def members(self, group):
        return self.group_of(group).members

    def the_group(self):
        return self.admin_api.get_server_groups()[0]

    def test_group_that_the_spec_knows_not_of(self):
        server = self.add_to_group()
        self.assertIn(server['id'], self.members(self.the_group()))
        self.assertIsNone(self.spec_group(server))
        self.assertNotIn(
            'group', self.spec_of(server).get('scheduler_hints') or {})
        self.assert_rests_on(server, 'amd1')

    def test_group_without_the_server(self):
        server = self.remove_from_group()
        group = self.the_group()
        self.assertEqual(group['id'], self.spec_group(server))
        self.assertEqual(
            [group['id']], self.spec_of(server)['scheduler_hints']['group'])
        self.assertEqual(1, len(self.members(group)))
        self.assertNotIn(server['id'], self.members(group))
        self.assert_rests_on(server, 'amd1')

    def test_group_that_is_no_more(self):
        server = self.delete_group()
        self.assertEqual([], self.admin_api.get_server_groups())
        self.assertIsNotNone(self.spec_group(server))
        self.assertEqual(
            [self.spec_group(server)],
            self.spec_of(server)['scheduler_hints']['group'])
        self.assertIsNone(scheduler_utils._get_group_details(
            self.context, server['id']))
        self.assert_rests_on(server, 'amd1')

    def assert_zone(self, server, spec, row, host):
        self.assertEqual(spec, self.spec_of(server)['availability_zone'])
        instance = self.instance_of(server)
        self.assertEqual((row, host), (instance.availability_zone,
                                       instance.host))

    def test_zone_that_the_server_was_forced_out_of(self):
        server = self.move_out_of_zone()
        self.assert_rests_on(server, 'amd3-numa')
        self.assert_zone(server, 'right', 'wrong', 'amd3-numa')

    def test_zone_without_a_host_for_the_server(self):
        server = self.fail_unshelve_into_zone()
        self.assertEqual('SHELVED_OFFLOADED', server['status'])
        self.assert_zone(server, 'nowhere', None, None)

    def test_zone_that_is_no_more(self):
        server = self.dissolve_zone()
        self.assert_rests_on(server, 'amd1')
        self.assert_zone(server, 'right', 'nova', 'amd1')

    def test_zone_that_is_no_more_while_offloaded(self):
        server = self.dissolve_zone(unshelve=False)
        self.assertEqual('SHELVED_OFFLOADED', server['status'])
        self.assert_zone(server, 'right', None, None)

    def test_is_bfv_is_missing_or_wrong(self):
        server = self.boot()
        self.forget_is_bfv(server)
        self.assertNotIn('is_bfv', self.spec_of(server))

        server = self.boot()
        self.misstate_is_bfv(server)
        self.assertIs(True, self.spec_of(server)['is_bfv'])
        self.assertTrue(self.instance_of(server).image_ref)
