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

"""What is in the rows and what is on the disk are not the same.

Only the instance action of a rebuild tells whether it came as far as the disk.
"""

from unittest import mock

from nova.compute import manager as compute_manager
from nova.compute import task_states
from nova.tests import fixtures as nova_fixtures
from nova.tests.functional.api import client

from tests.functional import base
from tests.functional import drifts
from tests.functional.drifts import LINUX_IMAGE
from tests.functional.drifts import WINDOWS_IMAGE
from tests.functional.world import A2_MEDIUM
from tests.functional.world import E2_MEDIUM

NUMA_IMAGE = '6e756d61-7800-4000-8000-000000000003'
VOLUME = nova_fixtures.CinderFixture.IMAGE_BACKED_VOL


class RebuildTestCase(drifts.Drifts, base.TestCase):
    pass


class NeverBegunTest(RebuildTestCase):
    """nova-api saved the server, not the spec, and nobody tried again.

    image_ref and system_metadata are windows; disk and spec are linux.
    """

    def setUp(self):
        super().setUp()
        self.server = self.boot_image(LINUX_IMAGE)
        with self.spec_cannot_be_saved():
            self.assertRaises(
                client.OpenStackApiException, self.rebuild, self.server,
                WINDOWS_IMAGE)
        self.reset_state(self.server)
        self.isolate_images()

    def test_right_spec_is_not_corrected_in_a_live_migration(self):
        self.live_migrate(self.server)
        self.assert_runs(self.server, 'amd2', A2_MEDIUM)
        self.assert_alert('103', self.server, 'live-migration', 'image')

    def test_right_spec_is_not_corrected_in_a_cold_migration(self):
        self.migrate(self.server)
        self.assert_runs(
            self.server, 'amd2', A2_MEDIUM, status='VERIFY_RESIZE')
        image = self.spec_of(self.server)['image']['nova_object.data']
        self.assertEqual(LINUX_IMAGE, image['id'])


class ReimageTestCase(RebuildTestCase):
    """Rebuilds of a volume-backed server, from microversion 2.93 on."""

    def setUp(self):
        super().setUp()
        # which the base class of nova 26 has not
        self.useFixture(nova_fixtures.CinderFixture(self))
        self.server = self.boot(
            imageRef='', host='amd1', block_device_mapping_v2=[{
                'boot_index': 0, 'uuid': VOLUME, 'source_type': 'volume',
                'destination_type': 'volume'}])

    def reimage(self, image):
        def implementation(context, instance, *args, **kwargs):
            # what needs cinder and a driver that can attach
            instance.task_state = task_states.REBUILD_SPAWNING
            instance.save()
        with mock.patch.object(
                compute_manager.ComputeManager, '_rebuild_default_impl',
                side_effect=implementation):
            self.rebuild(self.server, image)


class ReimageTest(ReimageTestCase):

    def test_healthy_server(self):
        self.reimage(LINUX_IMAGE)
        self.assertEqual('ACTIVE', self.show(self.server)['status'])
        self.isolate_images()
        self.live_migrate(self.server)
        self.assertEqual('amd2', self.host_of(self.server))
        self.migrate(self.server)
        self.confirm(self.server)
        self.assertEqual('amd1', self.host_of(self.server))
        self.assertEqual('ACTIVE', self.show(self.server)['status'])
        self.assert_no_alert()


class RefusedReimageTest(ReimageTestCase):
    """Spec and system_metadata say windows, the volume is what it was.

    nova puts the id of the volume's image into image_ref, which was empty.
    """

    def setUp(self):
        super().setUp()
        self.isolate_images()
        with self.unguarded():
            self.rebuild(self.server, WINDOWS_IMAGE)
            self.reset_state(self.server)
        self.assertEqual(base.IMAGE, self.instance_of(self.server).image_ref)

    def test_is_alerted(self):
        self.live_migrate(self.server)
        self.assertEqual('amd3-numa', self.host_of(self.server))
        self.assert_alert('103', self.server, 'live-migration', 'image')


class CutOffTest(RebuildTestCase):

    def test_list_that_was_cut_off_is_no_drift(self):
        """nova stores 255 bytes of a property's text, parsed or not."""
        cpus = ','.join(['0'] * 126 + ['1'] * 60 + ['2', '3'])
        self.create_image(NUMA_IMAGE, **{
            'hw_numa_nodes': '1', 'hw_numa_cpus.0': cpus,
            'hw_numa_mem.0': '8192'})
        server = self.boot(E2_MEDIUM, host='intel1', imageRef=NUMA_IMAGE)
        before = self.spec_of(server)['image']
        self.migrate(server)
        self.assert_runs(server, 'intel2', E2_MEDIUM, status='VERIFY_RESIZE')
        self.assert_no_alert()
        self.assertEqual(before, self.spec_of(server)['image'])
