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

import json
import os
import random
import threading

from nova import context as nova_context
from nova.db.main import api as main_db
from nova.db.main import models
from nova import objects
import sqlalchemy as sa

from nova_specguard.audit import journal as undo_journal
from nova_specguard.audit import spec_row
from nova_specguard.audit import stored
from nova_specguard import exception
from tests.endurance import base
from tests.unit import builders

DATA = 'nova_object.data'
PATIENCE = 300


class SavesTest(base.EnduranceTestCase):
    """heal in a loop, twice, while nova saves request specs at full speed."""

    SERVERS = 6
    SECONDS = base.length(120)

    def setUp(self):
        super().setUp()
        self.uuids = self.add(self.SERVERS)
        self.lost = []
        self.healed = self.left = self.saved = 0
        self.wrong = builders.e2_medium()
        self.is_over = threading.Event()
        self.has_healed = threading.Event()

    def nova(self, uuids, seed):
        """Each save carries a number; the next load has to find it."""
        chance = random.Random(seed)
        numbers = dict.fromkeys(uuids, 1)
        while not self.is_over.is_set():
            uuid = chance.choice(uuids)
            # as most operations do, but not all of them
            if chance.random() < 0.5:
                self.set_task_state(uuid, 'resize_prep')
            spec = objects.RequestSpec.get_by_instance_uuid(
                nova_context.get_admin_context(), uuid)
            if spec.num_instances != numbers[uuid]:
                self.lost.append((uuid, numbers[uuid], spec.num_instances))
            numbers[uuid] += 1
            spec.num_instances = numbers[uuid]
            if chance.random() < 0.5:
                spec.flavor = self.wrong
            spec.save()
            self.saved += 1
            self.set_task_state(uuid, None)

    def set_task_state(self, uuid, task_state):
        with nova_context.target_cell(
                nova_context.get_admin_context(), self.cell.mapping) as cell:
            with main_db.get_engine(context=cell).begin() as connection:
                connection.execute(
                    sa.update(models.Instance.__table__)
                    .where(models.Instance.uuid == uuid)
                    .values(task_state=task_state))

    def heal(self, path):
        healing = self.healer()
        journal = undo_journal.Journal(os.path.join(self.directory, path))
        while not self.is_over.is_set():
            for uuid in self.uuids:
                try:
                    healing.carry_out(healing.plan(uuid), journal)
                    self.healed += 1
                    if self.healed > self.SECONDS / 2:
                        self.has_healed.set()
                except exception.NotRepairable:
                    self.left += 1
        journal.close()

    def test_no_save_is_lost(self):
        threads = [
            threading.Thread(target=self.nova,
                             args=(self.uuids[0::2], base.SEED)),
            threading.Thread(target=self.nova,
                             args=(self.uuids[1::2], ~base.SEED)),
            threading.Thread(target=self.heal, args=('first',)),
            threading.Thread(target=self.heal, args=('second',))]
        for thread in threads:
            thread.start()
        self.is_over.wait(self.SECONDS)
        # A slow machine takes longer for what shows something.
        has_healed = self.has_healed.wait(PATIENCE)
        self.is_over.set()
        for thread in threads:
            thread.join()
        self.addDetail('counts', base.counted(
            '%d saves, %d healed, %d left' % (
                self.saved, self.healed, self.left)))
        self.assertEqual([], self.lost)
        self.assertGreater(self.saved, self.SECONDS)
        self.assertTrue(has_healed)
        for uuid in self.uuids:
            stored_spec = json.loads(spec_row.read(self.context, uuid))
            # whole, of one flavor or the other
            self.assertIn(
                stored_spec[DATA]['flavor'][DATA]['name'],
                ('e2.medium', 'a2.medium'))
            self.assertEqual([], stored.load_faults(stored_spec))
