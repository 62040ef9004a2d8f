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

"""Headers of image files, read before any tool of qemu sees them."""

import os
import struct

import fixtures
import testtools

from nova_specguard.disks import header
from nova_specguard import exception


class HeaderTest(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'disk')

    def write(self, magic=b'QFI\xfb', version=3, features=0):
        with open(self.path, 'wb') as written:
            written.write(struct.pack(
                '>4sI64xQ432x', magic, version, features))

    def test_qcow2(self):
        self.write()
        header.check(self.path, header.QCOW2)
        self.assertEqual('qcow2', header.naming_format(self.path))

    def test_external_data_file(self):
        self.write(features=0b100)
        self.assertRaises(exception.DiskDataFile,
                          header.check, self.path, header.QCOW2)

    def test_other_features(self):
        self.write(features=0b11011)
        header.check(self.path, header.QCOW2)

    def test_version_2_has_no_features(self):
        self.write(version=2, features=0b100)
        header.check(self.path, header.QCOW2)

    def test_other_format(self):
        self.write(magic=b'KDMV')
        self.assertRaises(exception.DiskFormatOther,
                          header.check, self.path, header.QCOW2)
        self.assertEqual('vmdk', header.naming_format(self.path))

    def test_descriptor(self):
        with open(self.path, 'wb') as written:
            written.write(b'# Disk DescriptorFile\nversion=1\n')
        self.assertEqual('vmdk', header.naming_format(self.path))

    def test_boot_sector(self):
        self.write(magic=b'\xebc\x90\0')
        self.assertIsNone(header.naming_format(self.path))

    def test_cut_off(self):
        with open(self.path, 'wb') as written:
            written.write(b'QFI\xfb\0\0\0\3')
        self.assertRaises(exception.DiskFormatOther,
                          header.check, self.path, header.QCOW2)

    def test_raw_is_raw_whatever_it_begins_with(self):
        self.write(features=0b100)
        header.check(self.path, header.RAW)

    def test_missing(self):
        self.assertRaises(exception.DiskMissing,
                          header.check, self.path, header.RAW)

    def test_link(self):
        self.write()
        link = self.path + '.link'
        os.symlink(self.path, link)
        self.assertRaises(exception.DiskNotAFile,
                          header.check, link, header.RAW)

    def test_fifo(self):
        os.mkfifo(self.path)
        self.assertRaises(exception.DiskNotAFile,
                          header.check, self.path, header.RAW)

    def test_folder(self):
        os.mkdir(self.path)
        self.assertRaises(exception.DiskNotAFile,
                          header.check, self.path, header.RAW)

    def test_folder_is_none(self):
        self.write()
        exc = self.assertRaises(
            exception.DiskUnreadable, header.check,
            os.path.join(self.path, 'disk'), header.RAW)
        self.assertIn('Not a directory', str(exc))
