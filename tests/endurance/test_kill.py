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

import multiprocessing
import os
import sys
import time

from nova.db.api import api as api_db
from nova.db.api import models as api_models
from oslo_utils import uuidutils
import sqlalchemy as sa

from nova_specguard.audit import spec_row
from tests.endurance import base

_FORKSERVER = multiprocessing.get_context('forkserver')
_FORKSERVER.set_forkserver_preload(['nova_specguard.cmd.main'])


def _program(stderr, arguments):
    sys.stdout, sys.stderr = open(os.devnull, 'w'), open(stderr, 'w', 1)
    from nova_specguard.cmd import main
    sys.exit(main.main(arguments))


class KillTest(base.EnduranceTestCase):
    """heal is killed with SIGKILL at random points."""

    SERVERS = 8
    KILLS = base.length(200)

    def setUp(self):
        super().setUp()
        self.config = os.path.join(self.directory, 'nova.conf')
        with open(self.config, 'w') as config:
            config.write(
                '[api_database]\nconnection = %s\n[database]\n'
                'connection = %s\n' % tuple(map(
                    self.cell.server.url, ('nova_api', 'nova_cell0'))))
        uuids = self.add(self.SERVERS)
        plans = [self.healer().plan(uuid) for uuid in uuids]
        self.old = {plan.instance_uuid: plan.old for plan in plans}
        self.new = {plan.instance_uuid: plan.new for plan in plans}

    def start(self, *arguments):
        """Start a program, forked from one that has imported nova.

        :returns: (process, what it writes to stderr)
        """
        fifo = os.path.join(self.directory, uuidutils.generate_uuid())
        os.mkfifo(fifo)
        process = _FORKSERVER.Process(target=_program, args=(
            fifo, ['--config-file', self.config, *arguments]))
        process.start()
        return process, open(fifo)

    def run_to_its_end(self, *arguments):
        process, errors = self.start(*arguments)
        with errors:
            text = errors.read()
        process.join()
        self.assertEqual(0, process.exitcode, text)

    def heal_and_kill(self, path, seconds):
        """Kill it some time after it has begun to write.

        :returns: for how long it has run since then
        """
        process, errors = self.start('heal', '--yes', '--journal', path)
        with errors:
            # that it will be written
            self.assertIn(path, errors.readline())
            begun = time.monotonic()
            process.join(seconds)
            process.kill()
            process.join()
        return time.monotonic() - begun

    def rows(self):
        return {uuid: spec_row.read(self.context, uuid) for uuid in self.old}

    def test_rows_are_old_or_new(self):
        whole = self.heal_and_kill(os.path.join(self.directory, 'j'), 3600)
        self.assertEqual(self.new, self.rows())
        self.put_back()
        cut_short = 0
        for number in range(self.KILLS):
            path = os.path.join(self.directory, 'journal-%d' % number)
            self.heal_and_kill(path, self.random.uniform(0, whole))
            rows = self.rows()
            for uuid, text in rows.items():
                self.assertIn(text, (self.old[uuid], self.new[uuid]))
            cut_short += rows not in (self.old, self.new)
            if number % 2:
                self.run_to_its_end('restore', path)
                self.assertEqual(self.old, self.rows())
            elif rows != self.new:
                self.run_to_its_end('heal', '--yes', '--journal', path + 'b')
                self.assertEqual(self.new, self.rows())
            self.put_back()
        # else nothing was shown
        self.assertGreater(cut_short, self.KILLS // 4)

    def put_back(self):
        with api_db.get_engine().begin() as connection:
            for uuid, text in self.old.items():
                connection.execute(
                    sa.update(api_models.RequestSpec.__table__)
                    .where(api_models.RequestSpec.instance_uuid == uuid)
                    .values(spec=text))
