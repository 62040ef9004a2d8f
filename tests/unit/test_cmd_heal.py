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
"""The command lines of heal and restore."""

import datetime
import json
import os
import sys
from unittest import mock

import ddt
import fixtures
from nova import context as nova_context
from nova.db.main import api as main_db
from nova.db.main import models
from nova import objects
from oslo_db import exception as db_exception
from oslo_utils import timeutils
import sqlalchemy as sa

from nova_specguard import actions
from nova_specguard import alerts
from nova_specguard.audit import healer
from nova_specguard.audit import spec_row
from nova_specguard.cmd import main
from nova_specguard import exception
from tests.unit import builders
from tests.unit import cloud
from tests.unit import command
from tests.unit import test_instances


class HealTestCase(command.CommandTestCase):

    def setUp(self):
        super().setUp()
        self.path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'journal')
        self.alerts = self.useFixture(fixtures.FakeLogger(alerts.LOGGER))
        self.cell.add(cloud.reported_case())
        self.before = self.text()

    def text(self, uuid=builders.UUID):
        return spec_row.read(self.context, uuid)

    def heal(self, *arguments):
        """Run heal without a question.

        :returns: (exit code, rows)
        """
        code = self.run_command('heal', '-f', 'json', '--yes', '--journal',
                                self.path, *arguments)
        return code, json.loads(self.stdout.getvalue() or 'null')

    def restore(self, *arguments):
        code = self.run_command('restore', '-f', 'json', self.path,
                                *arguments)
        return code, [row['outcome']
                      for row in json.loads(self.stdout.getvalue() or '[]')]


@ddt.ddt
class HealTest(HealTestCase):

    def outcomes(self, rows):
        return {row['drift_class']: row['outcome'] for row in rows}

    def test_reported_case(self):
        code, rows = self.heal()
        self.assertEqual(
            {'flavor-other': 'healed', 'stashed-flavor': 'left'},
            self.outcomes(rows))
        self.assertEqual(0, code)
        self.assertEqual(0, self.run_command('audit'))
        self.assertNotEqual(self.before, self.text())

    def test_diff_names_the_flavor_and_nothing_else(self):
        _code, rows = self.heal()
        diff, = [row['diff'] for row in rows if row['diff']]
        changed = {line[1:].split(':')[0].strip(' "')
                   for line in diff.splitlines()
                   if line[0] in '+-' and line[:3] not in ('+++', '---')}
        self.assertLessEqual(changed, {
            'id', 'name', 'flavorid', 'root_gb', 'created_at', 'updated_at',
            'description', 'extra_specs', 'quota', 'os', 'hw', 'trait'})
        self.assertLessEqual({'id', 'name', 'flavorid', 'root_gb'}, changed)

    def test_dry_run(self):
        code, rows = self.heal('--dry-run')
        self.assertEqual('would be healed',
                         self.outcomes(rows)['flavor-other'])
        self.assertIn('+ ', rows[0]['diff'])
        self.assertEqual(3, code)
        self.assertEqual(self.before, self.text())
        self.assertFalse(os.path.exists(self.path))
        self.assertEqual('', self.alerts.output)

    def test_diff_in_front_of_the_table(self):
        self.run_command('heal', '--dry-run')
        output = self.stdout.getvalue()
        self.assertTrue(output.startswith(
            '--- request spec of %s\n+++ repaired\n' % builders.UUID), output)
        self.assertIn('| would be healed |', output)

    def test_names_that_move_the_terminal(self):
        self.cell.add_mapping(command.HOSTILE[:-2], 'sqlite://')
        row = cloud.reported_case()
        row['instance'].update(uuid=builders.OTHER_UUID)
        spec = row['request_spec']['nova_object.data']
        spec['flavor']['nova_object.data']['name'] = command.HOSTILE + '\x7f'
        self.cell.add(row)
        for name in ('table', 'value', 'csv', 'yaml', 'json'):
            self.run_command('heal', '--dry-run', '-f', name)
            self.assert_printable()

    def test_invalid_option(self):
        # Else what was meant to be off would be repaired.
        self.configure(field_modes='flavour:off')
        code, _rows = self.heal()
        self.assertEqual(127, code)
        self.assertIn('[specguard] field_modes = flavour:off (invalid: ',
                      self.stderr.getvalue())
        self.assertEqual(self.before, self.text())

    def test_nothing_found(self):
        self.heal()
        os.unlink(self.path)
        self.assertEqual(
            (0, []), self.heal('--class', 'flavor-other'))
        self.assertFalse(os.path.exists(self.path))

    def test_selection(self):
        for arguments in (('--field', 'image'), ('--class', 'project'),
                          ('--host', 'elsewhere'), ('--project', 'other')):
            self.assertEqual((0, []), self.heal(*arguments))
        code, rows = self.heal('--class', 'flavor-other')
        self.assertEqual((0, {'flavor-other': 'healed'}),
                         (code, self.outcomes(rows)))

    def test_what_it_leaves(self):
        row = cloud.healthy()
        row['request_spec'] = '{'
        other = self.cell.add(row)
        code, rows = self.heal()
        self.assertEqual(3, code)
        left, = [row for row in rows if row['instance_uuid'] == other]
        self.assertEqual(('spec-unreadable', 'left'),
                         (left['drift_class'], left['outcome']))
        self.assertTrue(left['reason'])
        self.assertIn('SPECGUARD-303 operation=heal outcome=left instance=%s'
                      % other, self.alerts.output)

    def test_alert_of_what_was_healed(self):
        self.heal()
        self.assertIn(
            'SPECGUARD-302 operation=heal outcome=healed instance=%s '
            'project=16e980bb63b4415694dd2130f5977b8b fields=flavor '
            'classes=flavor-other severity=warning flavor_spec="id=831'
            % builders.UUID, self.alerts.output)
        self.assertNotIn('SPECGUARD-303', self.alerts.output)

    def test_server_that_changes_meanwhile(self):
        with mock.patch.object(
                healer.Healer, 'carry_out',
                side_effect=exception.NotRepairable(reason='a reason')):
            code, rows = self.heal()
        self.assertEqual(3, code)
        self.assertEqual(('left', 'a reason'),
                         (rows[0]['outcome'], rows[0]['reason']))
        self.assertIn('reason="a reason"', self.alerts.output)

    def test_cell_that_cannot_be_read(self):
        self.cell.add_mapping('gone', test_instances.URL.replace(
            'mysql+pymysql', 'sqlite').replace('a-host/nova', '/nowhere/x'))
        code, rows = self.heal()
        self.assertEqual(2, code)
        self.assertEqual('healed', self.outcomes(rows)['flavor-other'])

    def test_journal_that_exists(self):
        with open(self.path, 'w'):
            pass
        code, rows = self.heal()
        self.assertEqual(127, code)
        self.assertIn('cannot write the journal', self.stderr.getvalue())
        self.assertEqual(
            ('left', 'the journal cannot be written: File exists'),
            (rows[0]['outcome'], rows[0]['reason']))
        self.assertEqual(self.before, self.text())

    def test_disk_that_is_full(self):
        with mock.patch.object(os, 'fsync', side_effect=[
                None, OSError(28, 'No space left on device')]):
            code, rows = self.heal()
        self.assertEqual(3, code)
        self.assertIn('No space left', rows[0]['reason'])
        self.assertEqual(self.before, self.text())

    def test_disk_that_is_full_in_the_middle_of_a_line(self):
        other = self.cell.add({
            **cloud.reported_case(),
            'instance': {**cloud.reported_case()['instance'],
                         'uuid': builders.OTHER_UUID}})
        write = os.write
        full = OSError(28, 'No space left on device')

        def part(handle, data, written=[]):
            written.append(handle)
            if len(written) > 1:
                raise full
            return write(handle, data[:100])

        with mock.patch.object(os, 'write', part), mock.patch.object(
                os, 'close', side_effect=[None, full]):
            code, rows = self.heal()
        self.assertEqual(3, code, self.stderr.getvalue())
        self.assertEqual(
            {'the journal cannot be written: No space left on device'},
            {row['reason'] for row in rows
             if row['drift_class'] == 'flavor-other'})
        self.assertEqual([self.before] * 2, [self.text(), self.text(other)])
        self.assertEqual((0, []), self.restore())

    def test_journal_is_named(self):
        self.heal()
        self.assertIn(self.path, self.stderr.getvalue())

    def test_default_journal(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(os.path.dirname(self.path))
        self.assertEqual(0, self.run_command('heal', '--yes'))
        name, = os.listdir('.')
        self.assertRegex(name, r'^nova-specguard-heal-\d{8}T\d{6}Z\.jsonl$')

    def test_nobody_to_ask(self):
        self.useFixture(fixtures.MonkeyPatch('sys.stdin', mock.Mock(
            isatty=lambda: False)))
        self.assertEqual(127, self.run_command('heal'))
        self.assertIn('give --yes', self.stderr.getvalue())
        self.assertEqual(self.before, self.text())

    @ddt.data(('y\n', 0), ('yes\n', 0), ('\n', 3), ('n\n', 3), ('', 3))
    @ddt.unpack
    def test_question(self, answer, code):
        self.useFixture(fixtures.MonkeyPatch('sys.stdin', mock.Mock(
            isatty=lambda: True, readline=lambda: answer)))
        self.assertEqual(code, self.run_command(
            'heal', '--journal', self.path), self.stderr.getvalue())
        self.assertIn('Repair 1 servers? [y/N]', self.stderr.getvalue())
        self.assertEqual(code == 3, self.before == self.text())

    @ddt.data('json', 'table')
    def test_diff_in_front_of_the_question(self, formatter):
        # stdout is no terminal here
        self.useFixture(fixtures.MonkeyPatch('sys.stdin', mock.Mock(
            isatty=lambda: True, readline=lambda: 'n')))
        self.run_command('heal', '-f', formatter)
        diff, question, _rest = self.stderr.getvalue().partition('Repair 1')
        self.assertIn('--- request spec of %s\n' % builders.UUID, diff)
        self.assertTrue(question)

    def test_no_diff_on_stderr_without_a_question(self):
        self.heal()
        self.assertNotIn('---', self.stderr.getvalue())

    def test_diff_that_cannot_be_written(self):
        stdout = mock.Mock(flush=mock.Mock(side_effect=[
            OSError(28, 'No space left on device'), None]))
        with mock.patch.object(sys, 'stdout', stdout):
            code = main.main(['heal', '--yes', '--journal', self.path])
        self.assertEqual(127, code)
        self.assertEqual(self.before, self.text())

    def test_stdin_is_closed(self):
        with mock.patch('sys.stdin', None):
            self.assertEqual(127, self.run_command('heal'))
        self.assertIn('nobody to ask', self.stderr.getvalue())

    def test_bad_arguments(self):
        for arguments in (('--class', 'x'), ('--instance', 'x'),
                          ('--cell', 'x'), ('-c', 'x')):
            self.assertEqual(127, self.run_command(
                'heal', '--dry-run', *arguments), arguments)


class RecordActionTest(HealTestCase):

    def actions(self):
        """The instance actions of the server.

        :returns: list of (action, [its event, result and details])
        """
        with nova_context.target_cell(
                self.context, self.cell.mapping) as context:
            return [
                (action, [(event.event, event.result, event.details)
                          for event in
                          objects.InstanceActionEventList.get_by_action(
                              context, action.id)])
                for action in objects.InstanceActionList.get_by_instance_uuid(
                    context, builders.UUID)]

    def test_tenants_see_nothing_by_default(self):
        self.heal()
        self.assertEqual([], self.actions())

    def test_dry_run(self):
        self.heal('--record-action', '--dry-run')
        self.assertEqual([], self.actions())

    def test_fields_are_named_to_administrators(self):
        code, _rows = self.heal('--record-action')
        self.assertEqual(0, code)
        (action, events), = self.actions()
        self.assertEqual('specguard-heal', action.action)
        self.assertIsNotNone(action.finish_time)
        self.assertGreaterEqual(action.finish_time, action.start_time)
        self.assertIsNone(action.message)
        self.assertEqual(
            [('specguard_healed', 'Success',
              'request spec repaired: flavor')], events)

    def test_each_server_has_a_request_of_its_own(self):
        row = cloud.reported_case()
        row['instance']['uuid'] = builders.OTHER_UUID
        self.cell.add(row)
        with mock.patch.object(actions, 'record_heal') as record:
            self.heal('--record-action')
        self.assertEqual(2, len({
            call.args[0].request_id for call in record.mock_calls}))

    def test_what_is_left_is_not_recorded(self):
        with mock.patch.object(
                healer.Healer, 'carry_out',
                side_effect=exception.NotRepairable(reason='a reason')):
            self.heal('--record-action')
        self.assertEqual([], self.actions())

    def test_repair_stays_where_it_cannot_be_recorded(self):
        with mock.patch.object(
                main_db, 'action_start', side_effect=db_exception.DBError(
                    'of ' + test_instances.PASSWORD)):
            code, rows = self.heal('--record-action')
        self.assertEqual(2, code)
        self.assertEqual(
            ('healed', 'its instance action was not recorded: DBError'),
            (rows[0]['outcome'], rows[0]['reason']))
        self.assertNotEqual(self.before, self.text())
        self.assertIn('SPECGUARD-302', self.alerts.output)


@ddt.ddt
class RestoreTest(HealTestCase):

    def test_names_that_move_the_terminal(self):
        self.heal()
        with open(self.path) as journal:
            text = journal.read()
        with open(self.path, 'w') as journal:
            journal.write(text.replace(
                '"cell1"', json.dumps(command.HOSTILE[:-2])))
        for name in ('table', 'value'):
            self.run_command('restore', '-f', name, self.path)
            self.assertIn(command.ESCAPED[:-7], self.stdout.getvalue())
            self.assert_printable()

    def test_exact_bytes(self):
        self.heal()
        self.assertEqual((0, ['restored']), self.restore())
        self.assertEqual(self.before, self.text())

    def test_invalid_option(self):
        self.heal()
        healed = self.text()
        self.configure(mode='of')
        self.assertEqual(127, self.restore()[0])
        self.assertEqual(healed, self.text())

    def test_twice(self):
        self.heal()
        self.restore()
        self.assertEqual((0, ['as it was before']), self.restore())
        self.assertEqual(self.before, self.text())

    def test_dry_run(self):
        self.heal()
        healed = self.text()
        self.assertEqual((0, ['would be restored']),
                         self.restore('--dry-run'))
        self.assertEqual(healed, self.text())

    def test_what_nova_has_saved_since_stays(self):
        self.heal()
        saved = self.text() + ' '
        spec_row.replace(self.context, builders.UUID, self.text(), saved)
        self.assertEqual(
            (3, ['not restored: nova has saved it since']), self.restore())
        self.assertEqual(saved, self.text())

    def change_server(self, **values):
        with nova_context.target_cell(
                self.context, self.cell.mapping) as cell:
            with main_db.get_engine(context=cell).begin() as connection:
                connection.execute(sa.update(
                    models.Instance.__table__).values(**values))

    def test_server_that_is_not_idle(self):
        self.heal()
        healed = self.text()
        for values, reason in (
                ({'task_state': 'migrating'},
                 'nova is working on it: live-migration'),
                ({'task_state': None, 'vm_state': 'resized'},
                 'a resize waits to be confirmed or reverted')):
            self.change_server(**values)
            for arguments in ((), ('--dry-run',)):
                self.assertEqual((3, ['not restored: ' + reason]),
                                 self.restore(*arguments))
            self.assertEqual(healed, self.text())

    def test_migration_that_has_not_ended(self):
        self.heal()
        self.cell.insert(
            models.Migration, self.cell.mapping, deleted=0,
            instance_uuid=builders.UUID, migration_type='migration',
            status='pre-migrating',
            updated_at=timeutils.utcnow() - datetime.timedelta(hours=1))
        self.assertEqual(
            (3, ['not restored: nova is working on it: a migration has not '
                 'ended']), self.restore())
        self.assertEqual((0, ['restored']),
                         self.restore('--stuck-after', '60'))

    def test_server_that_begins_to_move_meanwhile(self):
        self.heal()
        healed = self.text()
        replace = spec_row.replace

        def begin(*args):
            self.change_server(task_state='resize_prep')
            return replace(*args)
        with mock.patch.object(spec_row, 'replace', begin):
            self.assertEqual(
                (3, ['not restored: undone: nova is working on it: resize']),
                self.restore())
        self.assertEqual(healed, self.text())

    def test_databases_that_fail(self):
        self.heal()
        for name in ('read', 'replace'):
            with mock.patch.object(
                    spec_row, name, side_effect=db_exception.DBError(
                        test_instances.PASSWORD)):
                code, (outcome,) = self.restore()
            self.assertEqual(2, code)
            self.assertIn('not restored: ', outcome)
            self.assertIn('DBError', outcome)

    def test_server_that_was_deleted(self):
        self.heal()
        self.change_server(deleted=1)
        self.assertEqual((3, ['not restored: it is gone']), self.restore())

    def test_server_that_is_gone(self):
        self.heal()
        with mock.patch.object(spec_row, 'read', return_value=None):
            self.assertEqual(
                (3, ['not restored: its request spec is gone']),
                self.restore())

    def test_one_server(self):
        other = self.cell.add({
            **cloud.reported_case(),
            'instance': {**cloud.reported_case()['instance'],
                         'uuid': builders.OTHER_UUID}})
        self.heal()
        healed = self.text(other)
        self.assertEqual((0, ['restored']),
                         self.restore('--instance', builders.UUID))
        self.assertEqual(self.before, self.text())
        self.assertEqual(healed, self.text(other))

    def test_database_that_cannot_be_read(self):
        self.heal()
        with mock.patch.object(
                spec_row, 'read',
                side_effect=db_exception.CantStartEngineError()):
            self.assertEqual(
                (2, ['not restored: API database could not be read: '
                     'CantStartEngineError']), self.restore())

    def test_server_that_is_not_in_the_journal(self):
        self.heal()
        self.assertEqual(127, self.restore(
            '--instance', builders.GROUP)[0])

    def test_no_journal(self):
        self.assertEqual(127, self.restore()[0])
        self.assertIn('cannot read', self.stderr.getvalue())
        with open(self.path, 'w') as journal:
            journal.write('x\n')
        self.assertEqual(127, self.restore()[0])
        self.assertIn('line 1', self.stderr.getvalue())

    @ddt.data(
        {'fields': None}, {'fields': 'flavor'}, {'fields': [1]},
        {'old': 1}, {'new': None}, {'cell': []}, {'instance_uuid': 1},
        {'instance_uuid': '\udce9'}, {'version': '1'})
    def test_journal_that_was_edited(self, values):
        self.heal()
        with open(self.path) as journal:
            entry = json.loads(journal.read())
        with open(self.path, 'w') as journal:
            journal.write('%s\n' % json.dumps({**entry, **values}))
        self.assertEqual(127, self.restore()[0])
        self.assertIn('line 1 ', self.stderr.getvalue())

    def test_journal_without_end(self):
        with open(self.path, 'w') as journal:
            journal.write('[' * 100000 + '\n')
        self.assertEqual(127, self.restore()[0])
        self.assertIn('line 1 ', self.stderr.getvalue())

    def test_no_argument(self):
        self.assertEqual(127, self.run_command('restore'))
        self.assertIn('JOURNAL', self.stderr.getvalue())

    def test_column_that_is_not_there(self):
        self.heal()
        self.assertEqual(127, self.restore('-c', 'name')[0])
        self.assertNotEqual(self.before, self.text())
