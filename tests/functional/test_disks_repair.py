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

import io
import json
import os
import shutil
import subprocess
import sys
import time
from unittest import mock

import ddt
import fixtures

from nova_specguard.cmd import main
from nova_specguard.cmd import progress
from nova_specguard.disks import facts
from nova_specguard.disks import repairer
from tests import compute_host
from tests import images
from tests.unit import base
from tests.unit import builders
from tests.unit import command


class DisksRepairTestCase(command.Program, base.TestCase):
    """A compute host with the server of the report."""

    def setUp(self):
        super().setUp()
        self.useFixture(compute_host.Unprivileged())
        self.folder = self.useFixture(fixtures.TempDir()).path
        self.conf.config(instances_path=self.folder)
        self.story = images.Story(self.folder, names=(
            compute_host.base_name(compute_host.IMAGE),
            compute_host.base_name(compute_host.SNAPSHOT), builders.UUID))
        self.disk = self.story.disk
        self.old = self.disk + '.specguard-old'
        self.write(os.path.join(os.path.dirname(self.disk), 'disk.info'),
                   {self.disk: 'qcow2'})
        self.content = images.Content(
            self.disk, os.path.join(self.folder, 'kept'))
        self.facts = os.path.join(self.folder, 'facts.json')
        self.export()

    @staticmethod
    def write(path, content):
        with open(path, 'w') as written:
            json.dump(content, written)

    def export(self, **values):
        """Write what a controller knows of the server."""
        server = compute_host.server(**{'vm_state': 'stopped', **values})
        # later than disk.info
        known = facts.Facts(compute_host.HOST, compute_host.CELL,
                            int(time.time()) + 1, {builders.UUID: server})
        with open(self.facts, 'w') as written:
            written.write(known.dump())

    def run_command(self, *arguments, is_terminal=False):
        """Run the program.

        :returns: its exit code
        """
        self.stdout = io.StringIO()
        self.stderr = command.Terminal() if is_terminal else io.StringIO()
        with mock.patch.object(sys, 'stdout', self.stdout):
            with mock.patch.object(sys, 'stderr', self.stderr):
                return main.main([
                    'disks', 'repair', '-f', 'json', '--facts', self.facts,
                    *arguments])

    def repair(self, *arguments, **kwargs):
        """Repair the server's disk.

        :returns: (exit code, row)
        """
        code = self.run_command(builders.UUID, *arguments, **kwargs)
        row, = json.loads(self.stdout.getvalue())
        return code, row

    def files(self):
        """What is in the server's folder, with the times of changes."""
        folder = os.path.dirname(self.disk)
        return {name: os.stat(os.path.join(folder, name)).st_mtime_ns
                for name in os.listdir(folder)}

    def assert_stands_on(self, expected):
        self.assertTrue(self.content.is_in(self.disk))
        self.assertEqual(expected, images.info(self.disk).get(
            'full-backing-filename'))

    def assert_left(self, reason, *arguments):
        """The disk is as it was, and so is all beside it."""
        before = self.files()
        code, row = self.repair(*arguments)
        self.assertEqual((3, 'left', reason),
                         (code, row['outcome'], row['reason']))
        self.assertEqual(before, self.files())
        self.assert_stands_on(self.story.snapshot)
        return row


class DisksRepairTest(DisksRepairTestCase):

    def test_reported_case(self):
        code, row = self.repair()
        self.assertEqual(
            (0, 'repaired', 'rebase', 'disk-base-other', self.story.original,
             None),
            (code, row['outcome'], row['method'], row['drift_class'],
             row['base'], row['reason']))
        self.assert_stands_on(self.story.original)
        self.assertTrue(self.content.is_in(self.old))
        self.assertEqual({'disk', 'disk.specguard-old', 'disk.info'},
                         set(self.files()))
        self.assertEqual(
            [('SPECGUARD-402', 'disks-repair', 'repaired', builders.UUID,
              'disk', 'disk-base-other')],
            [tuple(alert[key] for key in (
                'code', 'operation', 'outcome', 'instance', 'fields',
                'classes')) for alert in self.alerts.all])

    def test_once_more(self):
        self.repair()
        before = self.files()
        code, row = self.repair()
        self.assertEqual((0, 'nothing to repair', ''),
                         (code, row['outcome'], row['drift_class']))
        self.assertEqual(before, self.files())

    def test_flatten(self):
        code, row = self.repair('--flatten')
        self.assertEqual((0, 'repaired', 'flatten', None),
                         (code, row['outcome'], row['method'], row['base']))
        self.assert_stands_on(None)

    def test_original_that_is_not_in_the_cache(self):
        os.unlink(self.story.original)
        self.assertEqual('flatten', self.repair()[1]['method'])
        self.assert_stands_on(None)

    def test_rebase_without_the_original(self):
        os.unlink(self.story.original)
        self.assert_left('no base to rebase to: %s does not exist'
                         % self.story.original, '--rebase')

    def test_original_that_has_a_base_itself(self):
        self.conf.config(force_raw_images=False)
        os.unlink(self.story.original)
        images.create(self.story.original, images.MEBIBYTE,
                      self.story.snapshot)
        self.assert_left('no base to rebase to: %s has a base itself'
                         % self.story.original, '--rebase')

    def test_original_with_a_header_of_another_format(self):
        os.unlink(self.story.original)
        images.create(self.story.original, images.MEBIBYTE, '/etc/shadow',
                      options=('-u',))
        self.assert_left('no base to rebase to: %s begins as an image of '
                         'format qcow2 does' % self.story.original, '--rebase')

    def test_dry_run(self):
        before = self.files()
        code, row = self.repair('--dry-run')
        self.assertEqual((3, 'would be repaired', 'rebase'),
                         (code, row['outcome'], row['method']))
        self.assertGreater(row['bytes_needed'], images.MEBIBYTE)
        self.assertEqual(before, self.files())
        self.assertEqual({'_base', builders.UUID, 'facts.json', 'kept'},
                         set(os.listdir(self.folder)))
        self.assertEqual([], self.alerts.all)

    def test_says_first_how_much_space_it_needs(self):
        _code, row = self.repair()
        self.assertIn('%s by rebase: the copy takes up to %d bytes, there are '
                      % (self.disk, row['bytes_needed']),
                      self.stderr.getvalue())

    def test_not_enough_space(self):
        with mock.patch.object(os, 'statvfs', return_value=mock.Mock(
                f_bavail=1, f_frsize=4096)):
            _code, row = self.repair('--dry-run')
            self.assert_left('the copy needs up to %d bytes and there are '
                             '4096' % row['bytes_needed'])
        self.assertEqual(['403'], self.alerts.codes)

    def test_running_guest(self):
        guest = subprocess.Popen(
            ['qemu-io', '-f', 'qcow2', self.disk], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(guest.communicate)
        guest.stdin.write('length\n')
        guest.stdin.flush()
        guest.stdout.readline()
        code, row = self.repair()
        self.assertEqual(
            (3, 'a guest or a tool of qemu has %s open' % self.disk),
            (code, row['reason']))

    def test_server_that_was_not_stopped(self):
        self.export(vm_state='active')
        self.assert_left('the server was active: stop it, and export the '
                         'facts again')

    def test_server_that_nova_works_on(self):
        self.export(task_state='powering-on')
        self.assert_left('nova was working on the server: powering-on')

    def test_files_of_another_user(self):
        owner = os.geteuid()
        with mock.patch.object(os, 'geteuid', return_value=4711):
            self.assert_left(
                '%s belongs to user %d and this is run by 4711: let both be '
                'the user of nova-compute' % (
                    os.path.dirname(self.disk), owner))

    def test_base_that_is_missing(self):
        os.rename(self.story.snapshot, self.story.snapshot + '.gone')
        code, row = self.repair()
        os.rename(self.story.snapshot + '.gone', self.story.snapshot)
        self.assertEqual(
            (3, 'disk-base-missing',
             '%s does not exist' % self.story.snapshot),
            (code, row['drift_class'], row['reason']))

    def test_hostile_disk(self):
        images.run('qemu-img', 'rebase', '-u', '-f', 'qcow2', '-F', 'raw',
                   '-b', '/etc/shadow', self.disk)
        before = self.files()
        code, row = self.repair('--flatten')
        self.assertEqual((3, 'disk-unsafe'), (code, row['drift_class']))
        self.assertEqual(before, self.files())

    def test_internal_snapshots(self):
        images.run('qemu-img', 'snapshot', '-c', 'by-hand', self.disk)
        self.assert_left('%s is encrypted or has internal snapshots, as nova '
                         'makes none' % self.disk)

    def test_chain_of_three(self):
        lower = os.path.join(os.path.dirname(self.disk), 'lower')
        os.rename(self.disk, lower)
        images.create(self.disk, 24 * images.MEBIBYTE, lower,
                      base_format='qcow2')
        code, row = self.repair()
        self.assertEqual((0, 'disk-chain,disk-base-other'),
                         (code, row['drift_class']))
        self.assert_stands_on(self.story.original)

    def test_two_at_a_time(self):
        with repairer._alone():
            self.assert_left(
                'another repair is under way: wait for its end')

    def test_removes_what_a_killed_one_has_left(self):
        shutil.copy(self.disk, self.disk + '.specguard-new')
        os.link(self.disk, self.old)
        self.assertEqual(0, self.repair()[0])
        self.assertTrue(self.content.is_in(self.old))
        self.assert_stands_on(self.story.original)

    def test_without_the_old_file(self):
        self.repair('--discard-old')
        self.assertEqual({'disk', 'disk.info'}, set(self.files()))
        self.assert_stands_on(self.story.original)

    def test_old_file_of_an_earlier_repair(self):
        shutil.copy(self.disk, self.old)
        self.assert_left('%s of an earlier repair is still there: look at it, '
                         'and give --discard-old' % self.old)

    def test_discard_old_later(self):
        self.repair()
        code, row = self.repair('--discard-old')
        self.assertEqual((0, 'nothing to repair'), (code, row['outcome']))
        self.assertEqual({'disk', 'disk.info'}, set(self.files()))
        self.assert_stands_on(self.story.original)

    def test_progress_on_a_terminal_only(self):
        with mock.patch.object(progress, '_INTERVAL', 0):
            self.repair(is_terminal=True)
        self.assertIn('] 100 % compare', self.stderr.getvalue())
        self.repair()
        self.assertNotIn('\r', self.stderr.getvalue())


@ddt.ddt
class BadArgumentsTest(DisksRepairTestCase):

    @ddt.data('', '{}', '[]')
    def test_no_facts(self, text):
        with open(self.facts, 'w') as written:
            written.write(text)
        self.assert_refused('no file of "disks export"')

    def test_facts_that_are_not_there(self):
        os.unlink(self.facts)
        self.assert_refused('cannot read %s' % self.facts)

    def test_server_of_another_host(self):
        self.assertEqual(127, self.run_command(
            '00000000-0000-4000-8000-000000000000'))
        self.assertIn('no server', self.stderr.getvalue())

    def test_both_methods(self):
        self.assert_refused('not allowed with', '--rebase', '--flatten')

    def test_root(self):
        with mock.patch.object(os, 'geteuid', return_value=0):
            self.assert_refused('qemu-img is not run as root')

    def assert_refused(self, message, *arguments):
        self.assertEqual(127, self.run_command(builders.UUID, *arguments))
        self.assertIn(message, self.stderr.getvalue())
        self.assert_stands_on(self.story.snapshot)
