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

"""What a compute host has to know, from the databases to a file and back."""

import json

from nova.db.main import models
from nova import objects
from oslo_utils import uuidutils

from nova_specguard.disks import export
from nova_specguard.disks import facts
from nova_specguard import exception
from tests import compute_host
from tests.unit import cloud

HOST = 'compute-a2b1'


class ExportTest(cloud.CloudTestCase):

    def setUp(self):
        super().setUp()
        self.map_host(HOST, self.cell.mapping)

    def map_host(self, host, cell):
        objects.HostMapping(
            self.cell.context, host=host, cell_mapping=cell).create()

    def add(self, **instance):
        """A server on the host.

        :returns: its UUID
        """
        return self.cell.add(cloud.healthy(**instance))

    def add_device(self, uuid, **values):
        self.cell.insert(
            models.BlockDeviceMapping, self.cell.mapping, instance_uuid=uuid,
            uuid=uuidutils.generate_uuid(), **{
                'deleted': 0, 'source_type': 'blank',
                'destination_type': 'local', **values})

    def add_migration(self, uuid, status, source=HOST, dest='other'):
        self.cell.insert(
            models.Migration, self.cell.mapping, instance_uuid=uuid,
            deleted=0, status=status, source_compute=source,
            dest_compute=dest, migration_type='resize')

    def servers(self):
        return export.of_host(HOST).servers

    def test_server(self):
        row = cloud.healthy(os_type='linux')
        uuid = self.cell.add(row)
        flavor = row['instance_extra']['flavor']['cur']['nova_object.data']
        image = row['instance']['image_ref']
        found = export.of_host(HOST)
        self.assertEqual((HOST, 'cell1'), (found.host, found.cell))
        self.assertEqual({uuid: facts.Server(
            project_id=row['instance']['project_id'], host=HOST,
            vm_state='active', task_state=None, image_ref=image,
            base_image_ref=image, os_type='linux',
            root_gb=flavor['root_gb'], swap_mb=flavor['swap'],
            ephemeral_gb=flavor['ephemeral_gb'], ephemerals_gb=[],
            swaps_mb=[], is_volume_backed=False, is_encrypted=False,
            migration=None)}, found.servers)

    def test_servers_of_other_hosts_and_cells(self):
        self.add(host='other')
        self.cell.add(cloud.healthy(), self.cell.other)
        self.add(deleted=1)
        self.assertEqual({}, self.servers())

    def test_block_devices_in_order(self):
        uuid = self.add()
        self.add_device(uuid, volume_size=2)
        self.add_device(uuid, volume_size=1, guest_format='ext4')
        self.add_device(uuid, volume_size=64, guest_format='swap')
        self.add_device(uuid, volume_size=9, destination_type='volume')
        self.add_device(uuid, volume_size=9, deleted=1)
        server = self.servers()[uuid]
        self.assertEqual([2, 1], server.ephemerals_gb)
        self.assertEqual([64], server.swaps_mb)

    def test_volume_backed(self):
        row = cloud.healthy(image_ref='')
        row['root_device']['destination_type'] = 'volume'
        uuid = self.cell.add(row)
        self.assertTrue(self.servers()[uuid].is_volume_backed)

    def test_encrypted_by_lvm(self):
        uuid = self.add(ephemeral_key_uuid=uuidutils.generate_uuid())
        self.assertTrue(self.servers()[uuid].is_encrypted)

    def test_encrypted_block_device(self):
        uuid = self.add()
        self.add_device(uuid, volume_size=1, encrypted=True)
        self.assertTrue(self.servers()[uuid].is_encrypted)

    def test_migration_from_the_host(self):
        uuid = self.add(host='other', vm_state='resized')
        self.add_migration(uuid, 'finished')
        server = self.servers()[uuid]
        self.assertEqual(('other', 'finished'),
                         (server.host, server.migration))

    def test_migration_that_has_ended(self):
        uuid = self.add(host='other')
        self.add_migration(uuid, 'confirmed')
        self.assertEqual({}, self.servers())

    def test_flavor_that_cannot_be_read(self):
        row = cloud.healthy()
        row['instance_extra']['flavor'] = '{'
        uuid = self.cell.add(row)
        self.assertIsNone(self.servers()[uuid].swap_mb)

    def test_unknown_host(self):
        self.assertIsNone(export.of_host('no-such-host'))

    def test_cell_that_cannot_be_read(self):
        gone = self.cell.add_mapping('gone', 'nosuchdialect://db/nova')
        self.map_host('lost', gone)
        exc = self.assertRaises(
            exception.DatabaseUnreadable, export.of_host, 'lost')
        self.assertEqual('gone could not be read: NoSuchModuleError',
                         exc.format_message())

    def test_file(self):
        self.add()
        found = export.of_host(HOST)
        self.assertEqual(found, facts.load(found.dump()))


class LoadTest(cloud.CloudTestCase):

    def assert_refused(self, reason, text):
        exc = self.assertRaises(exception.FactsUnreadable, facts.load, text)
        self.assertIn(reason, exc.format_message())

    def change(self, **values):
        known = facts.Facts(
            HOST, 'cell1', 1, {'a-uuid': compute_host.server()})
        return json.dumps({**json.loads(known.dump()), **values})

    def test_no_json(self):
        self.assert_refused('JSONDecodeError', '')

    def test_something_else(self):
        self.assert_refused('no file of "disks export"', '[]')

    def test_newer_version(self):
        self.assert_refused('version 2, this release reads 1',
                            self.change(version=2))

    def test_server_without_a_value(self):
        self.assert_refused('TypeError', self.change(servers={'a-uuid': {}}))
