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

"""Auditing disks that qemu's own programs have made."""

import os
import shutil
import subprocess

import ddt
import fixtures

from nova_specguard.disks import audit
from nova_specguard.disks import findings
from tests import compute_host
from tests import images
from tests.unit import base

# As nova names it, with the beginning of the hash of a file system's name.
EPHEMERAL = 'ephemeral_%d_0706d66'


class DisksTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(compute_host.Unprivileged())
        self.host = self.useFixture(compute_host.ComputeHost())
        self.base = self.host.add_base(
            compute_host.base_name(compute_host.IMAGE))

    def audit(self):
        """Look at all folders.

        :returns: list of Finding
        """
        audited = audit.Audit(self.host.facts, self.host.path)
        found = list(audited.run(lambda: None))
        self.assertEqual(audited.total, audited.done)
        return found

    def found(self):
        """What an audit finds.

        :returns: dict of name of the disk to list of names of drift classes
        """
        found = {}
        for finding in self.audit():
            if finding.state == findings.FOUND:
                found.setdefault(finding.disk, []).append(
                    finding.drift_class.name)
        return found

    def states(self):
        """How an audit judges each disk.

        :returns: dict of name of the disk to state
        """
        found = self.audit()
        states = {finding.disk: finding.state for finding in found}
        self.assertEqual(len(found), len(states))
        return states


class HealthyTest(DisksTestCase):
    """What nova makes is no finding."""

    def test_base_of_the_image(self):
        self.host.add_server({'disk': {'base': self.base}})
        finding, = self.audit()
        self.assertEqual(findings.CLEAN, finding.state, finding.reason)
        self.assertEqual(self.base, finding.expected_base)
        self.assertEqual(self.base, finding.found_base)

    def test_grown_base_of_old_releases(self):
        grown = self.host.add_base(os.path.basename(self.base) + '_20')
        self.host.add_server({'disk': {'base': grown}})
        self.assertEqual({'disk': findings.CLEAN}, self.states())

    def test_qcow2_base(self):
        """As without force_raw_images."""
        other = '11111111-0000-4000-8000-5e6f708192a3'
        qcow2 = self.host.add_base(
            compute_host.base_name(other), image_format='qcow2')
        self.host.add_server(
            {'disk': {'base': qcow2, 'base_format': 'qcow2'}},
            image_ref=other)
        self.assertEqual({'disk': findings.CLEAN}, self.states())

    def test_no_base(self):
        """As repaired, or made by the flat backend."""
        self.host.add_server({'disk': {}})
        self.assertEqual({'disk': findings.CLEAN}, self.states())

    def test_raw(self):
        self.host.add_server({'disk': {'image_format': 'raw'}})
        self.assertEqual({'disk': findings.CLEAN}, self.states())

    def test_ephemeral_swap_and_config_drive(self):
        swap = self.host.add_base('swap_64')
        self.host.add_server(
            {'disk': {'base': self.base},
             'disk.local': {'base': self.host.add_base(EPHEMERAL % 1)},
             'disk.eph0': {'base': self.host.add_base(EPHEMERAL % 2)},
             'disk.swap': {'base': swap},
             'disk.config': {'image_format': 'raw'}},
            ephemeral_gb=1, ephemerals_gb=[2], swap_mb=64)
        self.assertEqual(
            {'disk': findings.CLEAN, 'disk.local': findings.CLEAN,
             'disk.eph0': findings.CLEAN, 'disk.swap': findings.CLEAN,
             'disk.config': findings.NOT_APPLICABLE}, self.states())

    def test_swap_of_a_block_device(self):
        swap = self.host.add_base('swap_32')
        self.host.add_server(
            {'disk': {'base': self.base}, 'disk.swap': {'base': swap}},
            swap_mb=64, swaps_mb=[32])
        self.assertEqual(
            {'disk': findings.CLEAN, 'disk.swap': findings.CLEAN},
            self.states())

    def test_running_guest(self):
        uuid = self.host.add_server({'disk': {'base': self.base}})
        guest = subprocess.Popen(
            ('qemu-io', '-f', 'qcow2', self.host.folder(uuid, 'disk')),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(guest.communicate)
        # It has answered, so it has the disk open and locked.
        guest.stdin.write('length\n')
        guest.stdin.flush()
        guest.stdout.readline()
        self.assertEqual({'disk': findings.CLEAN}, self.states())

    def test_base_without_a_format(self):
        """As nova wrote it once."""
        uuid = self.host.add_server({'disk': {'base': self.base}})
        self.host.forget_base_format(uuid, 'disk')
        self.assertEqual({'disk': findings.CLEAN}, self.states())

    def test_cache_behind_a_link(self):
        moved = self.useFixture(fixtures.TempDir()).path
        os.chmod(moved, 0o755)
        shutil.copy(self.base, moved)
        shutil.rmtree(self.host.cache)
        os.symlink(moved, self.host.cache)
        self.host.add_server({'disk': {'base': self.base}})
        self.assertEqual({'disk': findings.CLEAN}, self.states())


class ReportedCaseTest(DisksTestCase):
    """LP#1732428, step by step."""

    def setUp(self):
        super().setUp()
        uuid = self.host.add_server({'disk': {'base': self.base}})
        self.disk = self.host.folder(uuid, 'disk')
        images.write(self.disk, (21, images.MEBIBYTE, images.MEBIBYTE))
        # shelve: nova flattens the disk to an image, and deletes it
        uploaded = os.path.join(self.host.path, 'uploaded')
        images.run('qemu-img', 'convert', '-f', 'qcow2', '-O', 'qcow2',
                   self.disk, uploaded)
        os.unlink(self.disk)
        # unshelve: it fetches that into the cache, as raw, and goes on from it
        self.snapshot = os.path.join(
            self.host.cache, compute_host.base_name(compute_host.SNAPSHOT))
        images.run('qemu-img', 'convert', '-f', 'qcow2', '-O', 'raw',
                   uploaded, self.snapshot)
        images.create(self.disk, compute_host.SIZE, self.snapshot)
        images.write(self.disk, (31, 2 * images.MEBIBYTE, images.KIBIBYTE))

    def test_base_is_the_snapshot(self):
        finding, = self.audit()
        self.assertEqual('disk-base-other', finding.drift_class.name)
        self.assertEqual('disk', finding.disk)
        self.assertEqual(self.base, finding.expected_base)
        self.assertEqual(self.snapshot, finding.found_base)
        self.assertIn('no base of an image that a server here names',
                      finding.reason)
        self.assertIn('is also in the cache', finding.reason)
        self.assertIn('ends when the server is moved: nova deletes %s'
                      % self.snapshot, finding.safe_until)
        self.assertIn(' 86400 s ', finding.safe_until)

    def test_original_is_not_in_the_cache(self):
        os.unlink(self.base)
        finding, = self.audit()
        self.assertEqual('disk-base-other', finding.drift_class.name)
        self.assertIn('is not in the cache', finding.reason)

    def test_snapshot_is_gone(self):
        os.unlink(self.snapshot)
        finding, = self.audit()
        self.assertEqual('disk-base-missing', finding.drift_class.name)
        self.assertEqual('critical', finding.drift_class.severity)
        self.assertEqual(self.snapshot, finding.found_base)
        self.assertIn('%s does not exist' % self.snapshot, finding.reason)

    def test_cache_that_deletes_nothing(self):
        self.conf.config(group='image_cache', remove_unused_base_images=False)
        finding, = self.audit()
        self.assertIn('the other host has no ', finding.safe_until)

    def test_rebase(self):
        images.run('qemu-img', 'rebase', '-f', 'qcow2', '-F', 'raw',
                   '-b', self.base, self.disk)
        self.assertEqual({'disk': findings.CLEAN}, self.states())

    def test_image_of_the_base_is_known(self):
        """The server was booted from a snapshot; nova rebases to its base."""
        uuid, = self.host.servers
        self.host.servers[uuid] = compute_host.server(
            base_image_ref=compute_host.SNAPSHOT)
        finding, = self.audit()
        self.assertIn('the base of image %s' % compute_host.SNAPSHOT,
                      finding.reason)


class ChainTest(DisksTestCase):

    def test_chain_of_three(self):
        uuid = self.host.add_server({'middle': {'base': self.base}})
        middle = self.host.folder(uuid, 'middle')
        disk = self.host.folder(uuid, 'disk')
        images.create(disk, compute_host.SIZE, middle, base_format='qcow2')
        self.host.record(uuid, {'disk': 'qcow2'})
        finding, = self.audit()
        self.assertEqual('disk-chain', finding.drift_class.name)
        self.assertEqual(middle, finding.found_base)
        self.assertIn('3 files where nova makes 2: %s, %s, %s' % (
            disk, middle, self.base), finding.reason)
        self.assertIn('deletes it 86400 s after', finding.safe_until)

    def test_chain_of_three_on_another_image(self):
        other = self.host.add_base(
            compute_host.base_name(compute_host.SNAPSHOT))
        middle = self.host.add_base('middle', base=other, image_format='qcow2')
        self.host.add_server({'disk': {
            'base': middle, 'base_format': 'qcow2'}})
        self.assertEqual({'disk': ['disk-chain', 'disk-base-other']},
                         self.found())

    def test_lowest_file_is_missing(self):
        lowest = self.host.add_base('lowest')
        middle = self.host.add_base(
            'middle', base=lowest, image_format='qcow2')
        self.host.add_server({'disk': {
            'base': middle, 'base_format': 'qcow2'}})
        os.unlink(lowest)
        self.assertEqual({'disk': ['disk-base-missing']}, self.found())

    def test_loop(self):
        uuid = self.host.add_server({'disk': {'base': self.base}})
        disk = self.host.folder(uuid, 'disk')
        images.run('qemu-img', 'rebase', '-u', '-f', 'qcow2', '-F', 'qcow2',
                   '-b', disk, disk)
        finding, = self.audit()
        self.assertEqual('disk-chain', finding.drift_class.name)
        self.assertIn('is in its own chain', finding.reason)

    def test_long_chain(self):
        base, base_format = self.base, 'raw'
        for number in range(20):
            base = self.host.add_base(
                'file%d' % number, base=base, image_format='qcow2',
                base_format=base_format)
            base_format = 'qcow2'
        self.host.add_server({'disk': {
            'base': base, 'base_format': 'qcow2'}})
        finding, = self.audit()
        self.assertEqual('disk-chain', finding.drift_class.name)
        self.assertIn('more than 16 files', finding.reason)

    def test_ephemeral_of_another_size(self):
        """A resize keeps the base; a later move goes by the flavor."""
        self.host.add_server(
            {'disk': {'base': self.base},
             'disk.local': {'base': self.host.add_base(EPHEMERAL % 1)}},
            ephemeral_gb=2)
        finding, = (finding for finding in self.audit()
                    if finding.disk == 'disk.local')
        self.assertEqual('disk-base-other', finding.drift_class.name)
        self.assertEqual(
            os.path.join(self.host.cache, EPHEMERAL % 2),
            finding.expected_base)
        self.assertIn('no server here should have a disk on it',
                      finding.safe_until)


@ddt.ddt
class HostileTest(DisksTestCase):
    """Nothing that a disk names is opened, unless nova could have named it.

    What must not be opened is a FIFO where that is possible: qemu-img would
    wait for it until it is ended.
    """

    def add_fifo(self, name):
        path = os.path.join(self.host.path, name)
        os.mkfifo(path)
        return path

    def assert_unsafe(self, reason, found_base=None):
        finding, = self.audit()
        self.assertEqual(findings.FOUND, finding.state, finding.reason)
        self.assertIs(findings.UNSAFE, finding.drift_class, finding.reason)
        self.assertIn(reason, finding.reason)
        self.assertIn('do not start', finding.safe_until)
        self.assertEqual(found_base, finding.found_base)

    def test_external_data_file(self):
        path = os.path.join(self.host.path, 'data')
        self.host.add_server({'disk': {
            'options': ('-o', 'data_file=%s' % path)}})
        os.unlink(path)
        self.add_fifo('data')
        self.assert_unsafe('has an external data file')

    @ddt.data(
        'json:{"driver":"file","filename":"/etc/passwd"}',
        'nbd://127.0.0.1:1/disk', 'nbd:unix:/run/nbd', 'rbd:pool/image',
        'http://127.0.0.1:1/disk', 'ssh://127.0.0.1:1/disk',
        'file:/etc/passwd', 'fat:/etc')
    def test_protocol(self, name):
        self.host.add_server({'disk': {'base': name, 'options': ('-u',)}})
        self.assert_unsafe('a backing file by a protocol', name)

    @ddt.data('/etc/passwd', '/dev/sda', 'sub/base', '')
    def test_backing_file_elsewhere(self, name):
        name = name or self.add_fifo('fifo')
        self.host.add_server({'disk': {'base': name, 'options': ('-u',)}})
        self.assert_unsafe('neither in the folder of the server nor', name)

    @ddt.data('../_base/base', '/x/../y', '/a\nb', 'a\x1b[2Jb')
    def test_strange_name(self, name):
        self.host.add_server({'disk': {'base': name, 'options': ('-u',)}})
        self.assert_unsafe('in a way that nova does not', name)

    def test_backing_file_of_another_format(self):
        self.host.add_server({'disk': {
            'base': self.base, 'base_format': 'vmdk', 'options': ('-u',)}})
        self.assert_unsafe('a backing file of format vmdk', self.base)

    def test_backing_file_that_is_not_what_is_recorded(self):
        self.host.add_server({'disk': {
            'base': self.base, 'base_format': 'qcow2', 'options': ('-u',)}})
        self.assert_unsafe('has no qcow2 header', self.base)

    def test_image_that_names_another_file(self):
        """An image that was let into the cache with a backing file."""
        base = self.host.add_base(
            'image', base='/etc/passwd', image_format='qcow2',
            options=('-u',))
        self.host.add_server({'disk': {'base': base, 'base_format': 'qcow2'}})
        self.assert_unsafe('%s names a backing file that is neither' % base,
                           base)

    def test_image_with_a_data_file(self):
        path = os.path.join(self.host.path, 'data')
        base = self.host.add_base('image', image_format='qcow2',
                                  options=('-o', 'data_file=%s' % path))
        self.host.add_server({'disk': {'base': base, 'base_format': 'qcow2'}})
        os.unlink(path)
        self.add_fifo('data')
        self.assert_unsafe('%s has an external data file' % base, base)

    def add_nested(self):
        """A raw image in the cache in which another image's header is."""
        nested = self.host.add_base('nested', image_format='qcow2')
        uuid = self.host.add_server({'disk': {
            'base': nested, 'base_format': 'qcow2'}})
        self.host.forget_base_format(uuid, 'disk')
        return nested

    def test_header_in_a_base_of_which_no_format_is_recorded(self):
        nested = self.add_nested()
        self.assert_unsafe('does not say of what format', nested)

    def test_base_that_was_left_as_qcow2(self):
        self.add_nested()
        self.conf.config(force_raw_images=False)
        self.assertEqual({'disk': ['disk-base-other']}, self.found())

    def test_link_to_another_file(self):
        path = os.path.join(self.host.cache, 'link')
        os.symlink('/etc/passwd', path)
        self.host.add_server({'disk': {'base': path, 'options': ('-u',)}})
        self.assert_unsafe('is no regular file', path)

    def test_fifo_as_base(self):
        path = self.add_fifo('_base/fifo')
        self.host.add_server({'disk': {'base': path, 'options': ('-u',)}})
        self.assert_unsafe('is no regular file', path)

    @ddt.data('fifo', 'link', 'folder')
    def test_disk_that_is_none(self, kind):
        uuid = self.host.add_server(formats={'disk': 'qcow2'})
        path = self.host.folder(uuid, 'disk')
        if kind == 'fifo':
            os.mkfifo(path)
        elif kind == 'link':
            os.symlink('/etc/passwd', path)
        else:
            os.mkdir(path)
        self.assert_unsafe('is no regular file')

    def test_format_that_nova_does_not_use(self):
        self.host.add_server(
            {'disk': {'image_format': 'vmdk'}}, formats={'disk': 'vmdk'})
        self.assert_unsafe('disk.info has it as vmdk')

    def test_raw_disk_that_is_recorded_as_qcow2(self):
        self.host.add_server({'disk': {'image_format': 'raw'}},
                             formats={'disk': 'qcow2'})
        self.assert_unsafe('has no qcow2 header')

    def assert_header(self, image_format):
        # Whatever ran qemu-img now would fail.
        self.useFixture(fixtures.EnvironmentVariable(
            'PATH', self.useFixture(fixtures.TempDir()).path))
        finding, = self.audit()
        self.assertIs(findings.HEADER, finding.drift_class)
        self.assertEqual('info', finding.drift_class.severity)
        self.assertIn('of format %s does: not opened' % image_format,
                      finding.reason)
        self.assertFalse(findings.is_drift(finding))

    def test_qcow2_header_in_a_raw_disk(self):
        self.host.add_server(
            {'disk': {'base': '/etc/passwd', 'options': ('-u',)}},
            formats={'disk': 'raw'})
        self.assert_header('qcow2')

    def test_vmdk_descriptor_in_a_raw_disk(self):
        uuid = self.host.add_server({'disk': {'image_format': 'raw'}})
        with open(self.host.folder(uuid, 'disk'), 'r+') as disk:
            disk.write('# Disk DescriptorFile\nversion=1\n'
                       'createType="monolithicFlat"\n'
                       'RW 8192 FLAT "/etc/passwd" 0\n')
        self.assert_header('vmdk')


class UnreadableTest(DisksTestCase):
    """What cannot be read is said, and the rest goes on."""

    def assert_unreadable(self, reason):
        unreadable = [finding for finding in self.audit()
                      if finding.state == findings.UNREADABLE]
        finding, = unreadable
        self.assertIn(reason, finding.reason)
        self.assertIsNone(finding.drift_class)

    def test_disk(self):
        uuid = self.host.add_server({'disk': {'base': self.base}})
        self.host.add_server({'disk': {'base': self.base}})
        os.chmod(self.host.folder(uuid, 'disk'), 0)
        self.assert_unreadable('Permission denied')

    def test_base(self):
        self.host.add_server({'disk': {'base': self.base}})
        os.chmod(self.base, 0)
        self.assert_unreadable('%s could not be read: Permission denied'
                               % self.base)

    def test_folder(self):
        uuid = self.host.add_server({'disk': {'base': self.base}})
        os.chmod(self.host.folder(uuid), 0)
        self.addCleanup(os.chmod, self.host.folder(uuid), 0o755)
        self.assert_unreadable('Permission denied')

    def test_no_format_on_record(self):
        uuid = self.host.add_server({'disk': {'base': self.base}})
        self.host.record(uuid, {})
        self.assert_unreadable('disk.info has no format of it')

    def test_no_disk(self):
        self.host.add_server()
        self.assert_unreadable('there is no such file')

    def test_header_that_qemu_does_not_understand(self):
        uuid = self.host.add_server({'disk': {'base': self.base}})
        with open(self.host.folder(uuid, 'disk'), 'r+b') as disk:
            disk.seek(20)
            disk.write(b'\xff' * 4)
        self.assert_unreadable('qemu-img info of %s failed: Could not open'
                               % self.host.folder(uuid, 'disk'))


class NotApplicableTest(DisksTestCase):

    def assert_left_out(self, disk, reason):
        finding, = (finding for finding in self.audit()
                    if finding.disk == disk)
        self.assertEqual(findings.NOT_APPLICABLE, finding.state)
        self.assertIn(reason, finding.reason)

    def test_volume_backed(self):
        self.host.add_server(image_ref='', is_volume_backed=True)
        self.assert_left_out('disk', 'boots from a volume')

    def test_rbd(self):
        self.conf.config(group='libvirt', images_type='rbd')
        self.host.add_server()
        self.assert_left_out('disk', 'in rbd')

    def test_lvm(self):
        self.conf.config(group='libvirt', images_type='lvm')
        self.host.add_server()
        self.assert_left_out('disk', 'in lvm')

    def test_rescue(self):
        other = self.host.add_base('0' * 40)
        self.host.add_server({'disk': {'base': self.base},
                              'disk.rescue': {'base': other}})
        self.assert_left_out('disk.rescue', 'the image of a rescue')

    def test_snapshot_beside_the_disk(self):
        self.host.add_server({'disk': {'base': self.base},
                              'disk.snap1': {'base': self.base}})
        self.assert_left_out('disk.snap1', 'not opened')
