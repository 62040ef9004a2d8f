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

"""qemu-img, and programs in its place."""

import os
import subprocess

import fixtures
from nova.privsep import qemu
from oslo_concurrency import processutils

from nova_specguard.disks import qemu_img
from nova_specguard import exception
from tests import compute_host
from tests import images
from tests.unit import base


class InfoTest(base.TestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(compute_host.Unprivileged())
        self.path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'disk')
        images.create(self.path, images.MEBIBYTE)

    def replace_qemu_img(self, script):
        """Have a shell script in the place of qemu-img."""
        folder = self.useFixture(fixtures.TempDir()).path
        program = os.path.join(folder, 'qemu-img')
        with open(program, 'w') as written:
            written.write('#!/bin/sh\n%s\n' % script)
        os.chmod(program, 0o755)
        self.useFixture(fixtures.EnvironmentVariable(
            'PATH', '%s:%s' % (folder, os.environ['PATH'])))

    def limit(self, **limits):
        self.patch(qemu, 'QEMU_IMG_LIMITS',
                   processutils.ProcessLimits(**limits))

    def assert_raises(self, expected, text):
        exc = self.assertRaises(
            expected, qemu_img.info, self.path, 'qcow2')
        self.assertIn(text, exc.format_message())

    def test_disk_without_a_base(self):
        info = qemu_img.info(self.path, 'qcow2')
        self.assertEqual(
            (self.path, 'qcow2', images.MEBIBYTE, None, None, False),
            (info.path, info.format, info.virtual_size, info.backing_file,
             info.backing_format, info.is_encrypted))

    def test_base_is_not_opened(self):
        base = self.path + '.base'
        os.mkfifo(base)
        disk = self.path + '2'
        images.create(disk, images.MEBIBYTE, base, options=('-u',))
        info = qemu_img.info(disk, 'qcow2')
        self.assertEqual((base, 'raw'),
                         (info.backing_file, info.backing_format))

    def test_format_is_not_guessed(self):
        info = qemu_img.info(self.path, 'raw')
        self.assertEqual('raw', info.details['format'])

    def test_limits_of_nova(self):
        self.replace_qemu_img(
            'exec echo "{\\"virtual-size\\": $(ulimit -v),'
            ' \\"time\\": $(ulimit -t), \\"args\\": \\"$*\\"}"')
        info = qemu_img.info(self.path, 'qcow2')
        limits = qemu.QEMU_IMG_LIMITS
        self.assertEqual(limits.address_space // 1024, info.virtual_size)
        self.assertEqual(limits.cpu_time, info.details['time'])
        self.assertEqual(
            'info --force-share --output=json -f qcow2 %s' % self.path,
            info.details['args'])

    def test_not_enough_memory(self):
        self.limit(address_space=4 * images.MEBIBYTE)
        self.assert_raises(exception.QemuImgFailed, self.path)

    def test_too_much_time(self):
        self.replace_qemu_img('while :; do :; done')
        self.limit(cpu_time=1)
        self.assert_raises(exception.QemuImgOverLimits, 'ended by signal')

    def test_file_system_that_does_not_answer(self):
        self.replace_qemu_img('exec sleep 600')
        self.patch(qemu_img, 'TIMEOUT', 0.5)
        # That of eventlet raises another class of this name.
        self.patch(subprocess, 'TimeoutExpired',
                   subprocess.Popen._check_timeout.__globals__[
                       'TimeoutExpired'])
        self.assert_raises(exception.QemuImgTimedOut, 'in 0.5 s')

    def test_failure(self):
        self.replace_qemu_img('echo "qemu-img: first\nsecond" >&2; exit 1')
        self.assert_raises(exception.QemuImgFailed,
                           'qemu-img info of %s failed: first second'
                           % self.path)

    def test_no_json(self):
        self.replace_qemu_img('echo image: disk')
        self.assert_raises(exception.QemuImgFailed, 'could not be read')

    def test_root(self):
        self.patch(os, 'geteuid', lambda: 0)
        self.assert_raises(exception.QemuImgAsRoot, 'user of nova-compute')

    def test_not_installed(self):
        self.useFixture(fixtures.EnvironmentVariable(
            'PATH', self.useFixture(fixtures.TempDir()).path))
        self.assert_raises(exception.QemuImgMissing, 'util-linux')
