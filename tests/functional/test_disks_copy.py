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
import shutil
from unittest import mock

import ddt
import fixtures
from nova.privsep import qemu
from oslo_utils import units

from nova_specguard.disks import copy
from nova_specguard.disks import repair
from nova_specguard import exception
from tests import images
from tests.unit import base

_OLD = '.specguard-old'


class RepairTestCase(base.TestCase):
    """Images as nova makes them, and qemu-img's own judgement."""

    def setUp(self):
        super().setUp()
        self.folder = self.useFixture(fixtures.TempDir()).path
        self.shown = []

    def story(self, **kwargs):
        return images.Story(self.folder, **kwargs)

    def kept(self, disk):
        return images.Content(disk, os.path.join(self.folder, 'kept'))

    def assert_stands_on(self, expected, disk):
        found = images.info(disk)
        self.assertEqual(
            (expected, expected and 'raw'),
            (found.get('full-backing-filename'),
             found.get('backing-filename-format')))

    def repairing(self, disk):
        return repair.Repair(copy.Copier(
            images.info(disk)['virtual-size'], True,
            lambda *shown: self.shown.append(shown)))

    def plan(self, chain, new_base):
        """Plan a repair.

        :param chain: list of paths, the disk first
        :param new_base: path, or None
        """
        return self.repairing(chain[0]).plan(
            [(path, 'raw' if '_base' in path else 'qcow2') for path in chain],
            new_base and (new_base, 'raw'))

    def carry_out(self, plan, check=lambda: None):
        self.repairing(plan.path).carry_out(
            plan, images.info(plan.path)['cluster-size'], check,
            keeps_old=True)


@ddt.ddt
class RepairTest(RepairTestCase):

    def repair(self, chain, new_base=None):
        """Repair a disk, and see that nothing but its base has changed.

        :returns: Plan
        """
        disk = chain[0]
        kept = self.kept(disk)
        before = images.info(disk)
        plan = self.plan(chain, new_base)
        self.carry_out(plan)
        self.assertTrue(kept.is_in(disk))
        self.assertTrue(kept.is_in(disk + _OLD))
        self.assert_stands_on(new_base, disk)
        self.assertEqual(before['cluster-size'],
                         images.info(disk)['cluster-size'])
        self.assertLessEqual(os.stat(disk).st_blocks * 512, plan.needed)
        self.assertEqual({'disk', 'disk' + _OLD},
                         set(os.listdir(os.path.dirname(disk))))
        return plan

    @ddt.data('different', 'equal', 'smaller', 'larger', 'empty')
    def test_rebase(self, kind):
        story = self.story()
        if kind == 'equal':
            shutil.copy(story.snapshot, story.original)
        elif kind == 'empty':
            os.truncate(story.original, 0)
        elif kind != 'different':
            images.run('qemu-img', 'resize', '-q', '--shrink', '-f', 'raw',
                       story.original,
                       {'smaller': '1M', 'larger': '64M'}[kind])
            images.write(story.original, (77, 512, 4096), image_format='raw')
        self.repair([story.disk, story.snapshot], story.original)

    def test_rebased_does_not_need_the_old_base(self):
        story = self.story()
        kept = self.kept(story.disk)
        self.carry_out(self.plan([story.disk, story.snapshot],
                                 story.original))
        os.unlink(story.snapshot)
        self.assertTrue(kept.is_in(story.disk))

    def test_flattened_needs_no_base(self):
        story = self.story()
        kept = self.kept(story.disk)
        self.carry_out(self.plan([story.disk, story.snapshot], None))
        shutil.rmtree(os.path.dirname(story.original))
        self.assertTrue(kept.is_in(story.disk))

    @ddt.data(True, False)
    def test_chain_of_three(self, is_rebase):
        story = self.story()
        disk = os.path.join(self.folder, 'other', 'disk')
        os.mkdir(os.path.dirname(disk))
        images.create(disk, 24 * images.MEBIBYTE, story.disk,
                      base_format='qcow2')
        images.write(disk, (41, 3 * images.MEBIBYTE, 4096),
                     (42, 6 * images.MEBIBYTE, 4096))
        self.repair([disk, story.disk, story.snapshot],
                    story.original if is_rebase else None)

    @ddt.data(True, False)
    def test_compressed(self, is_rebase):
        story = self.story()
        images.write(story.disk, (51, 8 * images.MEBIBYTE, images.MEBIBYTE),
                     options='-c')
        self.repair([story.disk, story.snapshot],
                    story.original if is_rebase else None)

    @ddt.data(True, False)
    def test_4_gib_and_sparse(self, is_rebase):
        story = self.story(size=4 * 1024 * images.MEBIBYTE)
        plan = self.repair([story.disk, story.snapshot],
                           story.original if is_rebase else None)
        self.assertLess(plan.needed, 40 * images.MEBIBYTE)

    @ddt.data(True, False)
    def test_other_cluster_size(self, is_rebase):
        story = self.story(options=('-o', 'cluster_size=4k'))
        self.repair([story.disk, story.snapshot],
                    story.original if is_rebase else None)

    def test_full_of_zeros_over_a_full_base(self):
        story = self.story()
        images.write(story.original, (61, 0, 16 * images.MEBIBYTE),
                     image_format='raw')
        os.truncate(story.snapshot, 0)
        os.truncate(story.snapshot, 16 * images.MEBIBYTE)
        self.repair([story.disk, story.snapshot], story.original)


@ddt.ddt
class GiveUpTest(RepairTestCase):
    """The disk is as it was, and nothing is left beside it."""

    def setUp(self):
        super().setUp()
        self.tale = self.story()
        self.content = self.kept(self.tale.disk)
        self.planned = self.plan([self.tale.disk, self.tale.snapshot],
                                 self.tale.original)

    def assert_given_up(self, *arguments):
        exc = self.assertRaises(exception.NotRepairable, self.carry_out,
                                self.planned, *arguments)
        self.assert_as_before()
        return exc.format_message()

    def assert_as_before(self):
        self.assertTrue(self.content.is_in(self.tale.disk))
        self.assert_stands_on(self.tale.snapshot, self.tale.disk)
        self.assertEqual(['disk'],
                         os.listdir(os.path.dirname(self.tale.disk)))

    def test_not_enough_space(self):
        with mock.patch.object(os, 'statvfs', return_value=mock.Mock(
                f_bavail=1, f_frsize=4096)):
            self.planned = self.repairing(self.tale.disk).plan(
                self.planned.chain, self.planned.base)
        self.assertEqual('the copy needs up to %d bytes and there are 4096'
                         % self.planned.needed, self.assert_given_up())
        self.assertEqual([], self.shown)

    def test_rebase_that_changes_what_a_guest_sees(self):
        def unsafe(copier, chain, new):
            images.run('qemu-img', 'rebase', '-u', '-f', 'qcow2',
                       '-b', new[0], '-F', new[1], chain[0][0])

        with mock.patch.object(copy.Copier, 'rebase', unsafe):
            self.assertIn('Content mismatch at offset', self.assert_given_up())

    def test_damaged_copy(self):
        def damaged(copier, source, target):
            shutil.copy(source, target)
            with open(target, 'r+b') as image:
                # the first table of reference counts
                image.seek(64 * images.KIBIBYTE)
                image.write(b'\xff' * 512)

        with mock.patch.object(copy.Copier, 'copy', damaged):
            self.assertIn('qemu-img', self.assert_given_up())

    def test_base_that_is_gone(self):
        os.rename(self.tale.original, self.tale.original + '.gone')
        self.assertIn("No such file", self.assert_given_up())

    def test_last_check_before_the_exchange(self):
        def check():
            raise exception.NotRepairable(reason='a guest has it open')

        self.assertEqual('a guest has it open', self.assert_given_up(check))
        self.assertEqual('compare', self.shown[-1][0])

    def test_interrupted(self):
        with mock.patch.object(copy.Copier, 'compare',
                               side_effect=KeyboardInterrupt):
            self.assertRaises(KeyboardInterrupt, self.carry_out,
                              self.planned)
        self.assert_as_before()


class QemuImgTest(base.TestCase):
    """How it is run."""

    def setUp(self):
        super().setUp()
        self.folder = self.useFixture(fixtures.TempDir()).path
        self.program = os.path.join(self.folder, 'qemu-img')
        self.useFixture(fixtures.EnvironmentVariable(
            'PATH', self.folder + os.pathsep + os.environ['PATH']))

    def answer(self, script):
        with open(self.program, 'w') as program:
            program.write('#!/bin/bash\n' + script)
        os.chmod(self.program, 0o755)

    @staticmethod
    def copier(gibibytes=0):
        return copy.Copier(gibibytes * units.Gi, True, lambda *shown: None)

    def test_limits_of_nova_and_more_time_for_more_bytes(self):
        self.answer('echo "{\\"required\\": $(ulimit -v), '
                    '\\"fully-allocated\\": $(ulimit -t)}"')
        limits = qemu.QEMU_IMG_LIMITS
        self.assertEqual(
            (limits.address_space // units.Ki, 9 * limits.cpu_time),
            self.copier(8).measure([('disk', 'qcow2')]))

    def test_ended_by_a_limit(self):
        self.answer('kill -XCPU $$')
        exc = self.assertRaises(exception.NotRepairable,
                                self.copier().check, [('disk', 'qcow2')])
        self.assertIn('images_cpu_time_limit', exc.format_message())

    def test_messages_are_one_line(self):
        self.answer('echo -e "qemu-img: this\\nand that" >&2; exit 1')
        exc = self.assertRaises(exception.NotRepairable,
                                self.copier().check, [('disk', 'qcow2')])
        self.assertEqual('qemu-img check: qemu-img: this and that',
                         exc.format_message())

    def test_leaks_are_no_errors(self):
        self.answer('exit 3')
        self.copier().check([('disk', 'qcow2')])
