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

"""heal in a loop, twice, beside nova's services at full speed."""

import json
import os
import random
import threading

import fixtures
from nova.compute import manager
from nova import exception as nova_exception
from oslo_utils import timeutils

from nova_specguard.audit import audit
from nova_specguard.audit import healer
from nova_specguard.audit import journal as undo_journal
from nova_specguard.audit import selection
from nova_specguard import conf
from nova_specguard import exception
from nova_specguard import fields
from tests.endurance import base
from tests.endurance import services
from tests.functional import base as functional_base
from tests.functional import drifts
from tests.functional import world

DATA = 'nova_object.data'
# What heal may write, by the names that a request spec has for it.
HEALED = ('flavor', 'numa_topology', 'pci_requests', 'image', 'project_id',
          'user_id', 'scheduler_hints', 'instance_group', 'is_bfv')


class ServicesTest(drifts.Drifts, functional_base.TestCase):

    SECONDS = base.length(120)
    WORKERS = 3
    SERVERS = 2

    def setUp(self):
        # Before nova's own fixtures.
        self.mariadb = self.useFixture(services.MariaDB())
        super().setUp()
        self.set_guard(mode='off')
        self.addDetail('seed', base.counted(str(base.SEED)))
        self.journals = self.useFixture(fixtures.TempDir()).path
        self.is_over = threading.Event()
        self.has_healed = threading.Event()
        self.failures = []
        self.done = dict.fromkeys(self.operations, 0)
        self.healed = self.left = 0
        self.driver_refuses = set()
        self.has_ended = {}
        refuse = self.refuse_resize(
            world.WorldDriver.migrate_disk_and_power_off)
        self.useFixture(fixtures.MockPatchObject(
            world.WorldDriver, 'migrate_disk_and_power_off', refuse))
        self.useFixture(fixtures.MockPatchObject(
            manager.ComputeManager, 'resize_instance',
            self.tell_end(manager.ComputeManager.resize_instance)))

    def refuse_resize(self, migrate):
        """As libvirt does, for those servers that are to drift."""
        def migrate_disk_and_power_off(driver, context, instance, *args,
                                       **kwargs):
            if instance.uuid in self.driver_refuses:
                self.has_ended[instance.uuid] = threading.Event()
                raise nova_exception.InstanceFaultRollback(
                    inner_exception=nova_exception.ResizeError(
                        reason='Unable to resize disk down.'))
            return migrate(driver, context, instance, *args, **kwargs)
        return migrate_disk_and_power_off

    def tell_end(self, resize_instance):
        def told(compute, context, instance, **kwargs):
            try:
                return resize_instance(compute, context, instance, **kwargs)
            finally:
                if instance.uuid in self.has_ended:
                    self.has_ended[instance.uuid].set()
        return told

    # What nova does

    def resize_and_confirm(self, server):
        self.resize_to_other(server)
        if self.show(server)['status'] == 'VERIFY_RESIZE':
            self.confirm(server)

    def resize_and_revert(self, server):
        self.resize_to_other(server)
        if self.show(server)['status'] == 'VERIFY_RESIZE':
            self.revert(server)

    def resize_to_other(self, server):
        name = self.instance_of(server).flavor.name
        self.resize(server, world.A2_LARGE if name == world.A2_MEDIUM.name
                    else world.A2_MEDIUM)

    def refused_resize(self, server):
        self.driver_refuses.add(server['id'])
        self.resize_to_other(server)
        self.driver_refuses.remove(server['id'])
        # nova-compute resets the task_state once more after the server has
        # settled, whatever has begun then.
        if server['id'] in self.has_ended:
            self.has_ended[server['id']].wait()

    def migrate_and_confirm(self, server):
        self.migrate(server)
        if self.show(server)['status'] == 'VERIFY_RESIZE':
            self.confirm(server)

    def rebuild_to_other(self, server):
        image = self.show(server)['image']['id']
        self.rebuild(server, next(
            other for other in drifts.IMAGES if other != image))

    def pin_zone(self, server):
        self.shelve(server)
        self.unshelve(server, availability_zone='zone')

    operations = ('resize_and_confirm', 'resize_and_revert', 'refused_resize',
                  'migrate_and_confirm', 'live_migrate', 'rebuild_to_other',
                  'pin_zone')

    def nova(self, servers, seed):
        chance = random.Random(seed)
        try:
            while not self.is_over.is_set():
                server = chance.choice(servers)
                # which leaves what there is to heal
                for operation in ('refused_resize',
                                  chance.choice(self.operations)):
                    getattr(self, operation)(server)
                    self.done[operation] += 1
        except Exception as exc:
            self.failures.append(exc)
            self.has_healed.set()
            self.is_over.set()
            raise

    # What heals

    def heal(self, servers, name):
        healing = self.healer()
        journal = undo_journal.Journal(os.path.join(self.journals, name))
        while not self.is_over.is_set():
            for server in servers:
                try:
                    healing.carry_out(healing.plan(server['id']), journal)
                    self.healed += 1
                    self.has_healed.set()
                except exception.NotRepairable:
                    self.left += 1
        journal.close()

    def healer(self):
        return healer.Healer(
            conf.options(), timeutils.utcnow(), lambda difference: True)

    def audited(self):
        """Drift that an audit finds, by server."""
        running = audit.Audit(selection.Selection(), conf.options(), 86400)
        found = {}
        for finding in running.run(lambda: None):
            found.setdefault(finding.instance_uuid, set()).add(
                finding.difference.field)
        self.assertEqual([], running.unreadable)
        return found

    def flavors(self, server):
        return self.spec_flavor(server), self.instance_of(server).flavor.name

    def test_no_write_is_lost(self):
        self.create_zone('zone', [
            host for host in self.hosts
            if world.VENDORS[host] == world.AMD])
        servers = [self.boot_image(drifts.LINUX_IMAGE)
                   for _server in range(self.WORKERS * self.SERVERS)]
        threads = [threading.Thread(target=self.nova, args=(
            servers[number::self.WORKERS], base.SEED + number))
            for number in range(self.WORKERS)]
        threads += [threading.Thread(target=self.heal, args=(servers, name))
                    for name in ('first', 'second')]
        for thread in threads:
            thread.start()
        self.is_over.wait(self.SECONDS)
        self.has_healed.wait()
        self.is_over.set()
        for thread in threads:
            thread.join()
        self.addDetail('counts', base.counted('%s, %d healed, %d left' % (
            self.done, self.healed, self.left)))
        self.assertEqual([], self.failures)
        self.check_writes()
        self.check_servers(servers)

    def check_writes(self):
        """By what the database logged."""
        written = self.mariadb.written()
        last = {}
        for uuid, old, new in written:
            self.assertEqual(last.get(uuid, old), old)
            last[uuid] = new
        healed = [entry for name in ('first', 'second')
                  for entry in undo_journal.read(
                      os.path.join(self.journals, name))]
        carried_out = [entry for entry in healed if (
            entry.instance_uuid, entry.old, entry.new) in written]
        self.assertGreaterEqual(len(carried_out), self.healed)
        for entry in carried_out:
            # What nova wrote, but for what was wrong.
            old, new = (json.loads(text) for text in (entry.old, entry.new))
            for spec in (old, new):
                for name in HEALED:
                    spec[DATA].pop(name, None)
            self.assertEqual(old, new)

    def check_servers(self, servers):
        """What nova's last write brought back is found, and healed."""
        found = self.audited()
        for server in servers:
            in_spec, in_instance = self.flavors(server)
            self.assertEqual(
                in_spec != in_instance,
                fields.flavor.NAME in found.get(server['id'], ()))
        healing = self.healer()
        journal = undo_journal.Journal(os.path.join(self.journals, 'last'))
        self.addCleanup(journal.close)
        for uuid, names in self.audited().items():
            if names != {'stashed_flavor'}:
                healing.carry_out(healing.plan(uuid), journal)
        self.assertEqual(set(), set().union(*self.audited().values()) - {
            'stashed_flavor'})
        for server in servers:
            self.assertEqual(*self.flavors(server))
