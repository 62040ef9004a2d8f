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

import os
import subprocess
import sys

import fixtures
from testtools import matchers

from nova_specguard.disks import image_lock
from nova_specguard import exception
from tests.unit import base

_QEMU_IO = ('qemu-io', '-f', 'qcow2')


class ImageLockTest(base.TestCase):
    """With qemu's own programs at the other side."""

    def setUp(self):
        super().setUp()
        self.disk = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'disk')
        self.run_to_its_end(
            'qemu-img', 'create', '-q', '-f', 'qcow2', self.disk, '1M')

    @staticmethod
    def run_to_its_end(*command):
        return subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, check=True).stdout

    def start(self, *command):
        """Start a program that ends with its input, and has answered."""
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        process.stdin.write('length\n')
        process.stdin.flush()
        process.stdout.readline()

    def assert_refused(self):
        exc = self.assertRaises(
            exception.NotRepairable,
            image_lock.ImageLock(self.disk).__enter__)
        return exc.format_message()

    def test_guest_cannot_start(self):
        write = (*_QEMU_IO, '-c', 'write 0 64k', self.disk)
        with image_lock.ImageLock(self.disk):
            exc = self.assertRaises(subprocess.CalledProcessError,
                                    self.run_to_its_end, *write)
            self.assertIn('Failed to get "write" lock', exc.output)
        self.run_to_its_end(*write)

    def test_qemu_can_read(self):
        with image_lock.ImageLock(self.disk) as lock:
            self.run_to_its_end('qemu-img', 'compare', self.disk, self.disk)
            lock.check()

    def test_open_in_a_guest(self):
        self.start(*_QEMU_IO, self.disk)
        self.assertEqual('a guest or a tool of qemu has %s open' % self.disk,
                         self.assert_refused())

    def test_open_elsewhere(self):
        self.start(sys.executable, '-c',
                   'import sys\nwith open(sys.argv[1]) as opened:\n'
                   '    print(input(), flush=True)\n    sys.stdin.read()',
                   self.disk)
        self.assertThat(self.assert_refused(), matchers.MatchesRegex(
            r'process \d+ has %s open' % self.disk))

    def test_replaced_meanwhile(self):
        with image_lock.ImageLock(self.disk) as lock:
            os.rename(self.disk, self.disk + '.moved')
            self.assertRaises(exception.NotRepairable, lock.check)

    def test_symbolic_link(self):
        os.rename(self.disk, self.disk + '.moved')
        os.symlink(self.disk + '.moved', self.disk)
        self.assertRaises(
            OSError, image_lock.ImageLock(self.disk).__enter__)
