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

import contextlib
import multiprocessing
# Loaded only when it is used, by whoever may not read Python's library then.
import multiprocessing.popen_fork  # noqa: F401
import os
import random
import select
import shutil
import sys
import time

import fixtures
import psutil

from nova_specguard.cmd import main
from nova_specguard.disks import facts
from tests import compute_host
from tests.endurance import base
from tests import images
from tests.unit import base as unit_base
from tests.unit import builders


def _program(stderr, arguments):
    sys.stdout, sys.stderr = open(os.devnull, 'w'), open(stderr, 'w', 1)
    sys.exit(main.main(arguments))


class DisksKillTest(unit_base.TestCase):
    """disks repair is killed with SIGKILL at random points."""

    KILLS = base.length(100)

    def setUp(self):
        super().setUp()
        self.random = random.Random(base.SEED)
        self.addDetail('seed', base.counted(str(base.SEED)))
        self.useFixture(compute_host.Unprivileged())
        self.folder = self.useFixture(fixtures.TempDir()).path
        self.story = images.Story(self.folder, names=(
            compute_host.base_name(compute_host.IMAGE),
            compute_host.base_name(compute_host.SNAPSHOT), builders.UUID))
        self.disk = self.story.disk
        self.content = images.Content(self.disk, self.path('kept'))
        self.saved = shutil.copy(self.disk, self.path('saved'))
        self.write('%s/disk.info' % builders.UUID,
                   '{"%s": "qcow2"}' % self.disk)
        self.write('nova.conf',
                   '[DEFAULT]\ninstances_path = %s\n' % self.folder)
        self.write('facts', facts.Facts(
            compute_host.HOST, compute_host.CELL, int(time.time()) + 1,
            {builders.UUID: compute_host.server(vm_state='stopped')}).dump())

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), 'w') as written:
            written.write(text)

    def start(self):
        """Start the program.

        :returns: (process, what it writes to stderr)
        """
        fifo = self.path('fifo')
        os.mkfifo(fifo)
        process = multiprocessing.get_context('fork').Process(
            target=_program, args=(fifo, [
                '--config-file', self.path('nova.conf'), 'disks', 'repair',
                '--facts', self.path('facts'), builders.UUID]))
        process.start()
        errors = open(fifo)
        os.unlink(fifo)
        return process, errors

    def repair_and_kill(self, seconds):
        """Kill it some time after it has said what it will do.

        Comes back when the tools that it has started have ended, too.

        :returns: for how long it has run since then
        """
        process, errors = self.start()
        with errors:
            self.assertIn('the copy takes up to', errors.readline())
            begun = time.monotonic()
            process.join(seconds)
            tools = self.tools_of(process)
            process.kill()
            process.join()
        for tool in tools:
            self.assertTrue(select.select([tool], [], [], 60)[0])
            os.close(tool)
        return time.monotonic() - begun

    @staticmethod
    def tools_of(process):
        """What a program has started and not seen the end of.

        :returns: list of file descriptors, readable when it has ended
        """
        tools = []
        if process.is_alive():
            for tool in psutil.Process(process.pid).children():
                with contextlib.suppress(ProcessLookupError):
                    tools.append(os.pidfd_open(tool.pid))
        return tools

    def is_repaired(self):
        """Which one the disk is, and that it is whole.

        :returns: whether it is the new one
        """
        self.assertTrue(self.content.is_in(self.disk))
        images.run('qemu-img', 'check', '-q', '-f', 'qcow2', self.disk)
        base_now = images.info(self.disk)['full-backing-filename']
        self.assertIn(base_now, (self.story.original, self.story.snapshot))
        return base_now == self.story.original

    def files(self):
        return sorted(os.listdir(os.path.dirname(self.disk)))

    def put_back(self):
        for name in self.files():
            if name != 'disk.info':
                os.unlink(os.path.join(os.path.dirname(self.disk), name))
        shutil.copy(self.saved, self.disk)

    def test_disk_is_old_or_new(self):
        whole = self.repair_and_kill(3600)
        self.assertTrue(self.is_repaired())
        cut_short = 0
        for number in range(self.KILLS):
            self.put_back()
            seconds = self.repair_and_kill(self.random.uniform(0, whole))
            if self.is_repaired():
                # it takes less time than before
                whole = seconds
                continue
            cut_short += 1
            if number % 2:
                self.repair_and_kill(3600)
                self.assertTrue(self.is_repaired())
                self.assertEqual(['disk', 'disk.info', 'disk.specguard-old'],
                                 self.files())
        # else nothing was shown
        self.assertGreater(cut_short, self.KILLS // 4)
