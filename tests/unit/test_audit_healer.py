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
"""Repairing servers at rest: what is written, and what is left alone."""

import dataclasses
import json
import os
from unittest import mock

import ddt
import fixtures
from nova import context as nova_context
from nova.db.api import api as api_db
from nova.db.api import models as api_models
from nova.db.main import api as main_db
from nova.db.main import models
from nova import objects
from oslo_db import exception as db_exception
from oslo_serialization import jsonutils
from oslo_utils import timeutils
import sqlalchemy as sa

from nova_specguard.audit import healer
from nova_specguard.audit import journal as undo_journal
from nova_specguard.audit import spec_row
from nova_specguard import exception
from nova_specguard import instances
from tests.unit import builders
from tests.unit import cloud

DATA, VERSION = 'nova_object.data', 'nova_object.version'


class HealerTestCase(cloud.CloudTestCase):

    def setUp(self):
        super().setUp()
        self.path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'journal')
        self.journal = undo_journal.Journal(self.path)
        self.addCleanup(self.journal.close)
        self.is_wanted = lambda difference: True
        self.row = cloud.reported_case()

    @property
    def healer(self):
        return healer.Healer(
            self.options(), timeutils.utcnow(),
            lambda difference: self.is_wanted(difference))

    def spec_text(self, uuid=builders.UUID):
        return spec_row.read(self.context, uuid)

    def add(self, **instance):
        self.row['instance'].update(instance)
        self.cell.add(self.row)
        return self.spec_text()

    def heal(self, uuid=builders.UUID):
        """Plan a repair and carry it out.

        :returns: Plan
        """
        planned = self.healer.plan(uuid)
        self.healer.carry_out(planned, self.journal)
        return planned

    def entries(self):
        return undo_journal.read(self.path)

    def assert_left(self, reason, function=None, *args):
        """The repair is refused and the row is as it was."""
        before = self.spec_text()
        error = self.assertRaises(
            exception.NotRepairable, function or self.heal, *args)
        self.assertIn(reason, error.format_message())
        self.assertEqual(before, self.spec_text())


class WrittenTest(HealerTestCase):

    def test_flavor_and_nothing_else(self):
        before = self.add()
        self.assertEqual(('flavor',), self.heal().fields)
        after = self.spec_text()
        healed = json.loads(after)
        cur = self.row['instance_extra']['flavor']['cur'][DATA]
        self.assertEqual(cur, healed[DATA]['flavor'][DATA])
        # with the old flavor in its place, it is the old text, byte for byte
        healed[DATA]['flavor'] = json.loads(before)[DATA]['flavor']
        self.assertEqual(before, json.dumps(healed))
        self.assertEqual(
            [], [finding for finding in self.audit()
                 if finding.difference.field != 'stashed_flavor'])

    def test_order_of_keys_in_the_flavor(self):
        before = self.add()
        self.heal()
        old, new = (
            list(json.loads(text)[DATA]['flavor'][DATA])
            for text in (before, self.spec_text()))
        self.assertEqual([key for key in old if key in new],
                         [key for key in new if key in old])

    def test_row_says_when(self):
        self.add()
        self.heal()
        with api_db.get_engine().connect() as connection:
            self.assertIsNotNone(connection.execute(sa.select(
                api_models.RequestSpec.__table__.c.updated_at)).scalar())

    def test_what_belongs_to_the_flavor(self):
        """numa_topology and pci_requests of the flavor that was not built."""
        data = self.row['request_spec'][DATA]
        data['flavor'] = builders.stored(builders.e2_medium(extra_specs={
            'hw:numa_nodes': '2', 'pci_passthrough:alias': 'gpu:1'}))
        data['numa_topology'] = builders.stored(builders.constraints(
            builders.flavor(extra_specs={'hw:numa_nodes': '2'})))
        data['pci_requests'] = builders.stored(builders.pci_requests(
            builders.pci_request()))
        self.add()
        self.assertEqual(('flavor', 'numa_topology', 'pci_requests'),
                         self.heal().fields)
        healed = json.loads(self.spec_text())[DATA]
        self.assertIsNone(healed['numa_topology'])
        self.assertEqual([], healed['pci_requests'][DATA]['requests'])

    def test_no_half_of_it(self):
        data = self.row['request_spec'][DATA]
        data['numa_topology'] = builders.stored(builders.constraints(
            builders.flavor(extra_specs={'hw:numa_nodes': '2'})))
        self.add()
        self.assertEqual(('flavor', 'numa_topology'),
                         self.healer.plan(builders.UUID).fields)
        for name in ('flavor', 'numa_topology'):
            self.is_wanted = lambda difference: difference.field == name
            self.assert_left('nothing in it can be repaired')

    def test_one_field_of_several(self):
        self.row['request_spec'][DATA]['project_id'] = 'other'
        self.add()
        self.is_wanted = lambda difference: difference.field == 'project'
        self.assertEqual(('project',), self.heal().fields)
        healed = json.loads(self.spec_text())[DATA]
        self.assertEqual(self.row['instance']['project_id'],
                         healed['project_id'])
        self.assertEqual('e2.medium', healed['flavor'][DATA]['name'])

    def test_rebuild_hint_and_what_came_with_it(self):
        row = self.row = cloud.healthy(uuid=builders.UUID)
        data = row['request_spec'][DATA]
        data['scheduler_hints'] = {'_nova_check_type': ['rebuild'],
                                   'other': ['x']}
        data['force_hosts'], data['force_nodes'] = ['h'], ['n']
        self.add()
        self.heal()
        healed = json.loads(self.spec_text())[DATA]
        self.assertEqual({'other': ['x']}, healed['scheduler_hints'])
        self.assertFalse(healed['force_hosts'] or healed['force_nodes'])

    def test_server_group(self):
        self.row = cloud.healthy(uuid=builders.UUID)
        self.row['request_spec'][DATA]['instance_group'] = None
        self.row['groups'] = [builders.GROUP]
        self.add()
        self.heal()
        healed = json.loads(self.spec_text())[DATA]
        group = healed['instance_group'][DATA]
        self.assertEqual(builders.GROUP, group['uuid'])
        # as nova saves it
        self.assertIsNone(group['members'])
        self.assertEqual([builders.GROUP], healed['scheduler_hints']['group'])
        self.assertEqual([], self.audit())

    def test_missing_flag(self):
        self.row = cloud.healthy(uuid=builders.UUID)
        self.row['request_spec'][DATA].pop('is_bfv', None)
        self.add()
        self.assertEqual(('is_bfv',), self.heal().fields)
        self.assertIs(False, json.loads(self.spec_text())[DATA]['is_bfv'])


class VersionsTest(HealerTestCase):
    """A row of an older nova stays one that it can load."""

    def drifted_properties(self, **stored):
        self.row = cloud.healthy(uuid=builders.UUID)
        image = self.row['request_spec'][DATA]['image'][DATA]
        properties = image['properties']
        properties[DATA].update(stored)
        return properties

    def test_older_version_of_an_embedded_object(self):
        properties = self.drifted_properties(os_distro='debian')
        properties[VERSION] = '1.20'
        self.row['system_metadata']['image_os_distro'] = 'fedora'
        self.add()
        self.heal()
        healed = json.loads(self.spec_text())[DATA]['image'][DATA][
            'properties']
        self.assertEqual('1.20', healed[VERSION])
        self.assertEqual('fedora', healed[DATA]['os_distro'])

    def test_versions_are_those_of_before(self):
        before = self.add()
        self.heal()

        def versions(text):
            found = [json.loads(text)]
            for value in found:
                if isinstance(value, dict):
                    found.extend(value.values())
                    if VERSION in value:
                        yield value['nova_object.name'], value[VERSION]
        self.assertEqual(list(versions(before)),
                         list(versions(self.spec_text())))

    def test_list_of_changes_is_kept(self):
        self.row['request_spec'][DATA]['flavor']['nova_object.changes'] = [
            'extra_specs']
        self.add()
        self.heal()
        flavor = json.loads(self.spec_text())[DATA]['flavor']
        self.assertEqual(['extra_specs'], flavor['nova_object.changes'])


@ddt.ddt
class TextTest(HealerTestCase):
    """What does not come back as it was is nobody's to write."""

    def add_text(self, change):
        text = jsonutils.dumps(self.row['request_spec'])
        changed = change(text)
        self.assertNotEqual(text, changed)
        self.row['request_spec'] = changed
        self.add()

    @ddt.data(
        lambda text: text.replace('": ', '":'),
        lambda text: text + ' ',
        lambda text: text.replace('"num_instances": 1',
                                  '"num_instances": 1.0e0'),
        lambda text: text.replace('e2.medium', 'e2.m\xe9dium'),
        lambda text: text.replace('e2.medium', r'e2.m\u00E9dium'),
        lambda text: text.replace('e2.medium', r'e2\/medium'))
    def test_written_by_something_else(self, change):
        self.add_text(change)
        self.assert_left('not written as nova writes it')

    def test_duplicate_key(self):
        self.add_text(lambda text: text.replace(
            '"num_instances": 1', '"num_instances": 1, "num_instances": 1'))
        self.assert_left('duplicate keys')

    @ddt.data('{', 'null', '[]', '{"nova_object.name": "RequestSpec"}')
    def test_no_request_spec(self, text):
        self.row['request_spec'] = text
        self.add()
        self.assert_left('spec-unreadable')

    def test_of_a_newer_nova(self):
        self.row['request_spec'][VERSION] = '1.99'
        self.add()
        self.assert_left('spec-newer')

    def test_that_nova_cannot_load(self):
        self.row['request_spec'][DATA]['limits'] = {DATA: 1}
        self.add()
        self.assert_left('nova cannot load it')

    def test_escapes_of_nova_itself(self):
        self.row['request_spec'][DATA]['flavor'][DATA]['name'] = (
            'm\xe9\u2028"\\/\U0001f4bf')
        self.add()
        self.assertEqual(('flavor',), self.heal().fields)


@ddt.ddt
class NotIdleTest(HealerTestCase):

    @ddt.data('resize_prep', 'migrating', 'rebuilding', 'deleting')
    def test_in_an_operation(self, task_state):
        self.add(task_state=task_state)
        self.assert_left('nova is working on it')

    def test_resize_to_be_confirmed(self):
        self.add(vm_state='resized')
        self.assert_left('confirmed or reverted')

    def test_being_built(self):
        self.add(vm_state='building')
        self.assert_left('nova is working on it')

    def add_migration(self, year):
        self.cell.insert(
            models.Migration, self.cell.mapping, instance_uuid=builders.UUID,
            deleted=0, migration_type='resize', status='pre-migrating',
            updated_at=timeutils.utcnow().replace(year=year))

    def test_migration_that_has_not_ended(self):
        self.add()
        self.add_migration(2999)
        self.assert_left('a migration has not ended')

    def test_migration_that_is_stuck(self):
        self.add()
        self.add_migration(2020)
        self.assertEqual(('flavor',), self.heal().fields)

    def test_server_that_is_gone(self):
        self.add(deleted=1)
        self.assert_left('it is gone')
        self.assert_left('in no cell', self.healer.plan,
                         builders.OTHER_UUID)

    def test_healthy_server(self):
        self.row = cloud.healthy(uuid=builders.UUID)
        self.add()
        self.assert_left('nothing is wrong with it any more')

    def test_ambiguous_image(self):
        self.row = cloud.healthy(uuid=builders.UUID)
        self.row['instance']['image_ref'] = builders.GROUP
        self.add()
        self.assert_left('nothing in it can be repaired for sure')


class ConcurrencyTest(HealerTestCase):
    """No write of nova's is lost."""

    def setUp(self):
        super().setUp()
        self.text = self.add()
        self.plan = self.healer.plan(builders.UUID)

    def nova_saves(self, **values):
        """As nova does: the whole of it, from memory.

        :returns: the text that nova has written
        """
        spec = objects.RequestSpec.get_by_instance_uuid(
            self.context, builders.UUID)
        for name, value in {'num_instances': 2, **values}.items():
            setattr(spec, name, value)
        spec.save()
        return self.spec_text()

    def at(self, owner, name, *actions):
        """Have something happen each time when a function is called."""
        original = getattr(owner, name)
        left = list(actions)

        def called(*args, **kwargs):
            if left:
                left.pop(0)()
            return original(*args, **kwargs)
        return mock.patch.object(owner, name, called)

    def carry_out(self):
        return self.assertRaises(
            exception.NotRepairable, self.healer.carry_out, self.plan,
            self.journal).format_message()

    def begin_to_move(self):
        with nova_context.target_cell(
                self.context, self.cell.mapping) as cell:
            with main_db.get_engine(context=cell).begin() as connection:
                connection.execute(sa.update(models.Instance.__table__)
                                   .values(task_state='resize_prep'))

    def test_nova_saves_after_the_plan(self):
        saved = self.nova_saves()
        self.assertIn('it has changed', self.carry_out())
        self.assertEqual(saved, self.spec_text())
        self.assertEqual([], self.entries())

    def test_nova_saves_before_the_row_is_written(self):
        saved = []
        with self.at(spec_row, 'replace',
                     lambda: saved.append(self.nova_saves())):
            self.assertIn('nova has saved it', self.carry_out())
        self.assertEqual(saved, [self.spec_text()])

    def test_another_letter_case_is_another_text(self):
        other = self.text.replace('e2.medium', 'E2.MEDIUM')
        self.assertTrue(spec_row.replace(
            self.context, builders.UUID, self.text, other))
        self.assertFalse(spec_row.replace(
            self.context, builders.UUID, self.text, self.plan.new))
        self.assertEqual(other, self.spec_text())

    def test_nova_saves_after_the_row_was_written(self):
        saved = []
        with self.at(healer.Healer, '_look_again',
                     lambda: saved.append(self.nova_saves())):
            self.assertIn('nova has saved it since', self.carry_out())
        self.assertEqual(saved, [self.spec_text()])

    def test_server_begins_to_move_before_the_row_is_written(self):
        with self.at(spec_row, 'replace', self.begin_to_move):
            message = self.carry_out()
        self.assertIn('undone: nova is working on it', message)
        self.assertEqual(self.text, self.spec_text())

    def test_server_is_resized_meanwhile(self):
        def resize():
            self.row['instance_extra']['flavor']['cur'] = builders.stored(
                builders.flavor(id=1, flavorid='1', name='other'))
            with nova_context.target_cell(
                    self.context, self.cell.mapping) as cell:
                main_db.instance_extra_update_by_uuid(
                    cell, builders.UUID, {'flavor': json.dumps(
                        self.row['instance_extra']['flavor'])})
        with self.at(spec_row, 'replace', resize):
            self.assertIn('undone: the server has changed',
                          self.carry_out())
        self.assertEqual(self.text, self.spec_text())

    def test_second_heal(self):
        self.healer.carry_out(self.plan, self.journal)
        healed = self.spec_text()
        self.assertIn('nothing is wrong with it any more', self.carry_out())
        self.assertEqual(healed, self.spec_text())

    def test_database_that_refuses(self):
        with mock.patch.object(spec_row, 'replace',
                               side_effect=db_exception.DBDeadlock()):
            self.assertIn('could not be written: DBDeadlock',
                          self.carry_out())
        self.assertEqual(self.text, self.spec_text())

    def test_cell_that_fails_at_the_second_look(self):
        calls = []

        def fail():
            calls.append(None)
            if len(calls) == 2:
                raise exception.LookupTimedOut(timeout=1)
        with self.at(instances, 'read', fail, fail):
            self.assertIn('undone: the databases', self.carry_out())
        self.assertEqual(self.text, self.spec_text())


class JournalTest(HealerTestCase):

    def test_entry_is_on_the_disk_before_the_row(self):
        self.add()
        planned = self.healer.plan(builders.UUID)
        with mock.patch.object(
                spec_row, 'replace', side_effect=KeyboardInterrupt):
            self.assertRaises(KeyboardInterrupt, self.healer.carry_out,
                              planned, self.journal)
        (entry,) = self.entries()
        self.assertEqual(
            (builders.UUID, 'cell1', ['flavor'], planned.old, planned.new),
            dataclasses.astuple(entry))
        self.assertEqual(planned.old, self.spec_text())

    def test_nothing_is_written_without_it(self):
        self.add()
        planned = self.healer.plan(builders.UUID)
        with mock.patch.object(os, 'fsync', side_effect=OSError(28, 'full')):
            self.assertRaises(OSError, self.healer.carry_out, planned,
                              self.journal)
        self.assertEqual(planned.old, self.spec_text())

    def test_only_the_owner_can_read_it(self):
        self.assertEqual(0o600, os.stat(self.path).st_mode & 0o777)

    def test_old_journal_is_kept(self):
        self.assertRaises(FileExistsError, undo_journal.Journal, self.path)

    def write(self, text):
        with open(self.path, 'w') as journal:
            journal.write(text)

    def test_line_that_was_cut_off(self):
        self.add()
        self.heal()
        with open(self.path) as journal:
            line = journal.read()
        for end in range(len(line)):
            self.write(line + line[:end])
            self.assertEqual(1, len(self.entries()))

    def test_last_entry_comes_first(self):
        for uuid in (builders.UUID, builders.OTHER_UUID):
            self.journal.write(undo_journal.Entry(
                uuid, 'cell1', ['flavor'], 'old', 'new'))
        self.assertEqual(
            [builders.OTHER_UUID, builders.UUID],
            [entry.instance_uuid for entry in self.entries()])

    def test_no_journal(self):
        for text in ('x\n', '{}\n', '[]\n', '1\n', '\n', '{"version": 1}\n',
                     '{"version": 2}\n', '\0\n', '\xe9\n'):
            self.write(text)
            self.assertRaises(undo_journal.JournalUnreadable, self.entries)
        self.write('')
        self.assertEqual([], self.entries())
