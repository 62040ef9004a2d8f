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

import itertools
import multiprocessing
import os
import signal
import stat
from unittest import mock

import ddt
import fixtures

from nova_specguard.disks import swap
from nova_specguard import exception
from tests.unit import base


class SwapTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.folder = self.useFixture(fixtures.TempDir()).path
        self.disk = self.write('disk', 'old')
        self.copy = self.write('disk.specguard-new', 'new')
        self.old = self.disk + '.specguard-old'

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, 'w') as written:
            written.write(text)
        return path

    def contents(self):
        """What is in the folder: name to text."""
        found = {}
        for name in os.listdir(self.folder):
            with open(os.path.join(self.folder, name)) as read:
                found[name] = read.read()
        return found


class SwapTest(SwapTestCase):

    def test_put_keeps_the_old_file(self):
        swap.put(self.disk, keeps_old=True)
        self.assertEqual({'disk': 'new', 'disk.specguard-old': 'old'},
                         self.contents())

    def test_put_without_the_old_file(self):
        swap.put(self.disk, keeps_old=False)
        self.assertEqual({'disk': 'new'}, self.contents())

    def test_put_overwrites_no_old_file(self):
        self.write('disk.specguard-old', 'older')
        before = self.contents()
        self.assertRaises(exception.NotRepairable, swap.put, self.disk, True)
        self.assertEqual(before, self.contents())

    def test_put_that_fails_changes_nothing(self):
        before = self.contents()
        with mock.patch.object(os, 'rename', side_effect=OSError):
            self.assertRaises(OSError, swap.put, self.disk, True)
        self.assertEqual(before, self.contents())

    def test_put_keeps_owner(self):
        status = os.stat(self.disk)
        with mock.patch.object(os, 'chown') as chown:
            swap.put(self.disk, True)
        chown.assert_called_once_with(self.copy, status.st_uid, status.st_gid)

    def test_put_keeps_mode(self):
        os.chmod(self.disk, 0o640)
        swap.put(self.disk, True)
        self.assertEqual(0o640, stat.S_IMODE(os.stat(self.disk).st_mode))

    def test_put_keeps_extended_attributes(self):
        os.setxattr(self.disk, 'user.label', b'virt_content_t')
        swap.put(self.disk, True)
        self.assertEqual(b'virt_content_t',
                         os.getxattr(self.disk, 'user.label'))

    def test_put_does_not_keep_the_time(self):
        os.utime(self.disk, (1, 1))
        swap.put(self.disk, True)
        self.assertNotEqual(1, os.stat(self.disk).st_mtime)

    def test_put_syncs_before_and_after_the_exchange(self):
        calls = mock.Mock()
        with mock.patch.multiple(
                os, fsync=calls.fsync, rename=calls.rename):
            swap.put(self.disk, True)
        self.assertEqual(['fsync', 'rename', 'fsync'],
                         [name for name, _args, _kwargs in calls.mock_calls])

    def test_tidy_removes_a_copy(self):
        swap.tidy(self.disk)
        self.assertEqual({'disk': 'old'}, self.contents())

    def test_tidy_after_a_kill_before_the_exchange(self):
        os.link(self.disk, self.old)
        swap.tidy(self.disk)
        self.assertEqual({'disk': 'old'}, self.contents())

    def test_tidy_leaves_an_old_file(self):
        swap.put(self.disk, True)
        swap.tidy(self.disk)
        self.assertEqual({'disk': 'new', 'disk.specguard-old': 'old'},
                         self.contents())

    def test_discard_old(self):
        swap.put(self.disk, True)
        self.assertRaises(exception.NotRepairable, swap.check_none_kept,
                          self.disk)
        swap.discard_old(self.disk)
        swap.check_none_kept(self.disk)
        self.assertEqual({'disk': 'new'}, self.contents())

    def test_put_without_the_old_file_removes_an_older_one(self):
        self.write('disk.specguard-old', 'older')
        swap.put(self.disk, keeps_old=False)
        self.assertEqual({'disk': 'new'}, self.contents())


@ddt.ddt
class KillTest(SwapTestCase):
    """Killed before, and after, each call that changes something."""

    def put_and_be_killed(self, name, is_after, number):
        """Run put in a process that is killed at one of its calls.

        :param name: of a function of os
        :param is_after: whether after the call, not before it
        :param number: which of the calls of this function
        """
        call = getattr(os, name)
        calls = []

        def killing(*args, **kwargs):
            calls.append(args)
            if len(calls) < number:
                return call(*args, **kwargs)
            if is_after:
                call(*args, **kwargs)
            os.kill(os.getpid(), signal.SIGKILL)

        def put():
            with mock.patch.object(os, name, killing):
                swap.put(self.disk, True)

        process = multiprocessing.get_context('fork').Process(target=put)
        process.start()
        process.join()
        self.assertEqual(-signal.SIGKILL, process.exitcode)

    @ddt.data(*itertools.product(
        (('chown', 1), ('utime', 2), ('fsync', 1), ('link', 1),
         ('rename', 1), ('fsync', 2)), (False, True)))
    @ddt.unpack
    def test_put(self, call, is_after):
        name, number = call
        self.put_and_be_killed(name, is_after, number)
        text = self.contents()['disk']
        self.assertIn(text, ('old', 'new'))
        swap.tidy(self.disk)
        if text == 'old':
            self.assertEqual({'disk': 'old'}, self.contents())
            self.write('disk.specguard-new', 'new')
            swap.put(self.disk, True)
        self.assertEqual({'disk': 'new', 'disk.specguard-old': 'old'},
                         self.contents())
