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

"""The folders of servers, and which of them are looked into."""

import os

import ddt
from nova.compute import vm_states
from oslo_utils import uuidutils

from nova_specguard.disks import facts
from nova_specguard.disks import folders
from nova_specguard import exception
from tests import compute_host
from tests.unit import base

UUID = '5e6f7081-92a3-4b4c-8d5e-6f708192a3b4'


@ddt.ddt
class FindTest(base.TestCase):

    def setUp(self):
        super().setUp()
        self.host = self.useFixture(compute_host.ComputeHost())

    def find(self, time=None):
        known = self.host.facts
        if time is not None:
            known = facts.Facts(
                known.host, known.cell, time, self.host.servers)
        return folders.find(self.host.path, known)

    def assert_left_out(self, reason, time=None):
        folder, = self.find(time)
        self.assertIsNone(folder.server)
        self.assertIn(reason, folder.reason)
        self.assertFalse(folder.is_unreadable)

    def assert_unreadable(self, reason):
        folder, = self.find()
        self.assertIn(reason, folder.reason)
        self.assertTrue(folder.is_unreadable)

    def make(self, name):
        os.mkdir(os.path.join(self.host.path, name))

    def test_server(self):
        uuid = self.host.add_server()
        folder, = self.find()
        self.assertEqual((uuid, self.host.folder(uuid)),
                         (folder.uuid, folder.path))
        self.assertIs(self.host.servers[uuid], folder.server)

    @ddt.data('locks', 'snapshots', 'instance-00000001', 'lost+found')
    def test_other_folders(self, name):
        self.make(name)
        self.assertEqual([], self.find())

    def test_unknown_server(self):
        self.make(UUID)
        self.assert_left_out('is not in the facts')

    @ddt.data(
        ({'host': 'other'}, 'is on other'),
        ({'task_state': 'rebuilding'}, 'working on the server: rebuilding'),
        ({'vm_state': 'building'}, 'working on the server: building'),
        ({'migration': 'running'}, 'a migration was under way: running'),
        ({'is_encrypted': True}, 'encrypts'))
    @ddt.unpack
    def test_left_out(self, values, reason):
        self.host.add_server(**values)
        self.assert_left_out(reason)

    def test_resized(self):
        """On the host that the server is on now."""
        self.host.add_server(
            vm_state=vm_states.RESIZED, migration='finished')
        folder, = self.find()
        self.assertIsNotNone(folder.server)

    def test_kept_for_a_resize(self):
        self.make(UUID + '_resize')
        self.host.servers[UUID] = compute_host.server(
            host='other', vm_state=vm_states.RESIZED, migration='finished')
        self.assert_left_out('until a resize or cold migration is confirmed')

    def test_half_a_resize(self):
        uuid = self.host.add_server()
        self.make(uuid + '_resize')
        left_over = [folder for folder in self.find()
                     if folder.path.endswith('_resize')]
        self.assertIn('half a resize', left_over[0].reason)
        self.assertEqual(2, len(self.find()))

    def test_half_deleted(self):
        self.make(UUID + '_del')
        self.assert_left_out('begun to delete')

    def test_disks_that_are_newer_than_the_facts(self):
        self.host.add_server()
        self.assert_left_out('made after the facts were exported', time=1)

    def test_link(self):
        os.symlink('/', self.host.folder(UUID))
        self.assert_unreadable('not a folder')

    def test_file(self):
        open(self.host.folder(UUID), 'w').close()
        self.assert_unreadable('not a folder')

    def test_no_folder(self):
        self.host.servers[UUID] = compute_host.server()
        self.assert_unreadable('there is no such folder')

    def test_no_folder_of_a_volume_backed_server(self):
        self.host.servers[UUID] = compute_host.server(is_volume_backed=True)
        self.assert_left_out('there is no such folder')

    def test_names(self):
        uuid = self.host.add_server()
        for name in ('disk', 'disk.eph0', 'disk.config.rescue', 'disk.delta',
                     'disk.info.tmp', 'console.log', 'kernel', 'diskette'):
            open(self.host.folder(uuid, name), 'w').close()
        folder, = self.find()
        self.assertEqual(
            (['disk', 'disk.config.rescue', 'disk.eph0'],
             ['disk.delta', 'diskette']), folder.disks())


class FormatsTest(base.TestCase):

    def setUp(self):
        super().setUp()
        self.host = self.useFixture(compute_host.ComputeHost())
        self.folder = self.host.folder(
            self.host.add_server(formats={'disk': 'qcow2'}))
        self.path = os.path.join(self.folder, 'disk.info')

    def write(self, text):
        with open(self.path, 'w') as written:
            written.write(text)

    def assert_unreadable(self):
        exc = self.assertRaises(
            exception.DiskUnreadable, folders.formats, self.folder)
        self.assertIn(self.path, exc.format_message())

    def test_recorded(self):
        self.assertEqual({'disk': 'qcow2'}, folders.formats(self.folder))

    def test_recorded_on_another_host(self):
        self.write('{"/other/%s/disk": "raw"}' % uuidutils.generate_uuid())
        self.assertEqual({'disk': 'raw'}, folders.formats(self.folder))

    def test_recorded_here_goes_first(self):
        self.write('{"%s/disk": "raw", "/other/disk": "qcow2"}' % self.folder)
        self.assertEqual({'disk': 'raw'}, folders.formats(self.folder))

    def test_nothing_is_recorded(self):
        os.unlink(self.path)
        self.assertEqual({}, folders.formats(self.folder))
        self.write('')
        self.assertEqual({}, folders.formats(self.folder))

    def test_no_json(self):
        self.write('{"')
        self.assert_unreadable()

    def test_no_object(self):
        self.write('["/disk"]')
        self.assert_unreadable()

    def test_link(self):
        os.unlink(self.path)
        os.symlink('/etc/passwd', self.path)
        self.assert_unreadable()

    def test_fifo(self):
        os.unlink(self.path)
        os.mkfifo(self.path)
        self.assert_unreadable()
