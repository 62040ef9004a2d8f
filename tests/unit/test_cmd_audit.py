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

"""The command line of the audit."""

import io
import json
import os
import subprocess
import sys
from unittest import mock

import ddt
import fixtures
from oslo_config import cfg
import yaml

from nova_specguard.audit import audit
from nova_specguard.audit import report
from nova_specguard.cmd import main
from nova_specguard.cmd import progress
from tests.unit import builders
from tests.unit import cloud
from tests.unit import command
from tests.unit import test_instances

# What machine-readable rows carry by contract.
CONTRACT = ('instance_uuid', 'cell', 'project_id', 'host', 'field',
            'drift_class', 'severity', 'spec_value', 'current_value')


class AuditCommandTestCase(command.CommandTestCase):

    def rows(self, *arguments):
        self.run_command('audit', '-f', 'json', *arguments)
        return json.loads(self.stdout.getvalue())


@ddt.ddt
class ExitCodeTest(AuditCommandTestCase):

    def assert_code(self, expected, *arguments):
        self.assertEqual(expected, self.run_command('audit', *arguments),
                         self.stderr.getvalue())

    def test_nothing_found(self):
        self.assert_code(0)
        self.cell.add(cloud.healthy())
        self.assert_code(0)

    def test_stopped_at_max_count(self):
        for _number in range(2):
            self.cell.add(cloud.healthy())
        self.assert_code(1, '--max-count', '1')
        self.assert_code(0, '--max-count', '2')

    def test_drift_before_more_to_do(self):
        self.cell.add(cloud.reported_case())
        self.cell.add(cloud.healthy())
        self.assert_code(3)
        self.assert_code(3, '--max-count', '1')
        self.assert_code(0, '--field', 'image')

    def test_unreadable_cell_before_drift(self):
        self.cell.add(cloud.reported_case())
        self.cell.add_mapping('gone', test_instances.URL.replace(
            'mysql+pymysql', 'nosuchdialect'))
        self.assert_code(2)
        self.assertEqual('gone could not be read: NoSuchModuleError\n',
                         self.stderr.getvalue())
        self.assertIn(builders.UUID, self.stdout.getvalue())

    @ddt.data(
        (), ('no-such-command',), ('audit', '--no-such-option'),
        ('audit', '--max-count', '0'), ('audit', '--stuck-after', 'long'),
        ('audit', '--stuck-after', '99999999999'),
        ('audit', '--stuck-after', '9' * 30),
        ('audit', '--field', 'name'), ('audit', '--instance', 'name'),
        ('audit', '--instance', builders.OTHER_UUID),
        ('audit', '--cell', 'cell3'), ('audit', '-f', 'xml'),
        ('audit', '-c', 'name'), ('audit', 'more'),
        ('audit', '--textfile', '/nonexistent/file.prom'))
    def test_bad_arguments(self, arguments):
        self.assertEqual(127, self.run_command(*arguments))
        self.assertNotEqual('', self.stderr.getvalue())
        self.assertNotIn('Traceback', self.stderr.getvalue())

    def test_configuration_that_is_not_there(self):
        self.parse_args.side_effect = cfg.ConfigFilesNotFoundError(['x'])
        self.assert_code(127)
        self.assertIn('x', self.stderr.getvalue())

    def test_crash(self):
        error = ValueError(test_instances.URL)
        with mock.patch.object(audit.Audit, 'run', side_effect=error):
            self.assert_code(255)
            self.assertIn('***@db.example.org', self.stderr.getvalue())
            self.assertEqual(255, self.run_command('--debug', 'audit'))
            self.assertIn('Traceback', self.stderr.getvalue())
        self.parse_args.side_effect = error
        self.assert_code(255)
        self.assertEqual(255, self.run_command('--debug', 'audit'))

    @ddt.data(('--help',), ('--version',), ('help', 'audit'),
              ('audit', '--help'))
    def test_help(self, arguments):
        self.assertEqual(0, self.run_command(*arguments))
        self.assertNotEqual('', self.stdout.getvalue())


class OutputTest(AuditCommandTestCase):

    def setUp(self):
        super().setUp()
        self.cell.add(cloud.reported_case())
        self.cell.add(cloud.healthy())

    def test_configuration_files(self):
        self.run_command('--config-file', 'a', '--config-file', 'b',
                         '--config-dir', 'c', 'audit')
        self.parse_args.assert_called_once_with(
            ['nova-specguard', '--config-file', 'a', '--config-file', 'b',
             '--config-dir', 'c'], configure_db=False)

    def test_rows(self):
        other, stashed = self.rows()
        self.assertEqual(set(report.COLUMNS), set(other))
        self.assertEqual(set(), set(CONTRACT) - set(other))
        self.assertEqual(
            [builders.UUID, 'cell1', 'compute-a2b1', 'flavor', 'flavor-other',
             'warning', 'idle', None, 'repair'],
            [other[name] for name in (
                'instance_uuid', 'cell', 'host', 'field', 'drift_class',
                'severity', 'state', 'operation', 'heal')])
        self.assertEqual('show', stashed['heal'])

    def test_formats(self):
        for name, load in (('yaml', yaml.safe_load), ('json', json.loads)):
            self.run_command('audit', '-f', name)
            self.assertEqual(2, len(load(self.stdout.getvalue())))
        for name in ('csv', 'value', 'table'):
            self.run_command('audit', '-f', name, '-c', 'drift_class')
            self.assertIn('flavor-other', self.stdout.getvalue())

    def test_table_leaves_out_what_is_long(self):
        self.run_command('audit')
        self.assertIn('| flavor-other ', self.stdout.getvalue())
        self.assertNotIn('cause', self.stdout.getvalue())

    def test_summary(self):
        self.assertEqual(
            [{'drift_class': 'flavor-other', 'field': 'flavor',
              'severity': 'warning', 'servers': 1},
             {'drift_class': 'stashed-flavor', 'field': 'stashed_flavor',
              'severity': 'info', 'servers': 1}], self.rows('--summary'))

    def test_selection(self):
        self.assertEqual(['stashed_flavor'], [
            row['field'] for row in self.rows(
                '--field', 'stashed_flavor', '--cell', 'cell1',
                '--host', 'compute-a2b1', '--instance', builders.UUID)])
        self.assertEqual('', self.stderr.getvalue())

    def test_locale_without_the_letters(self):
        self.cell.add(cloud.healthy(project_id='caf\u00e9'))
        stdout = io.TextIOWrapper(io.BytesIO(), encoding='ascii')
        with mock.patch.object(sys, 'stdout', stdout):
            code = main.main(['audit', '-f', 'csv'])
        self.assertEqual(3, code)
        stdout.flush()
        self.assertIn(b'caf\\xe9', stdout.buffer.getvalue())

    def test_names_that_move_the_terminal(self):
        row = cloud.reported_case()
        spec = row['request_spec']['nova_object.data']
        spec['flavor']['nova_object.data']['name'] = command.HOSTILE
        row['instance'].update(uuid=builders.OTHER_UUID)
        self.cell.add(row)
        for name in ('table', 'value', 'csv', 'json', 'yaml'):
            self.run_command('audit', '-f', name, '-c', 'spec_value',
                             '--instance', builders.OTHER_UUID)
            self.assert_printable()
            if name in ('table', 'value'):
                self.assertIn(command.ESCAPED, self.stdout.getvalue())
        shown, _stashed = self.rows('--instance', builders.OTHER_UUID)
        self.assertIn(command.ESCAPED, shown['spec_value'])

    def test_invalid_option(self):
        self.configure(field_modes='flavour:off')
        self.assertEqual(3, self.run_command('audit'))
        self.assertIn('[specguard] field_modes = flavour:off (invalid: ',
                      self.stderr.getvalue())

    def test_letters_stay(self):
        self.cell.add(cloud.healthy(project_id='caf\u00e9'))
        self.run_command('audit', '-f', 'value')
        self.assertIn('caf\u00e9', self.stdout.getvalue())

    def test_cell_whose_name_moves_the_terminal(self):
        self.cell.add_mapping('\x1b[2Jcell', test_instances.URL.replace(
            'mysql+pymysql', 'nosuchdialect'))
        self.run_command('audit')
        self.assertEqual(
            '\\u001b[2Jcell could not be read: NoSuchModuleError\n',
            self.stderr.getvalue())

    def test_textfile_is_utf8(self):
        path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'specguard.prom')
        with mock.patch.object(os, 'fdopen', wraps=os.fdopen) as opened:
            report.replace_file(path, 'caf\u00e9')
        self.assertEqual('utf-8', opened.call_args.kwargs['encoding'])

    def test_nothing_selected(self):
        for option in ('--project', '--host'):
            self.assertEqual([], self.rows(option, 'another'))
            self.assertEqual('no server was selected\n',
                             self.stderr.getvalue())

    def test_uuid_in_another_spelling(self):
        for text in (builders.UUID.upper(), builders.UUID.replace('-', '')):
            self.assertEqual(2, len(self.rows('--instance', text)))

    def test_quiet_in_a_pipe(self):
        self.run_command('audit')
        self.assertEqual('', self.stderr.getvalue())

    def test_progress_on_a_terminal(self):
        with mock.patch.object(progress, '_INTERVAL', 0):
            self.run_command('audit', terminal=True)
        self.assertIn('2/2 servers', self.stderr.getvalue())
        self.assertTrue(self.stderr.getvalue().endswith('\r\x1b[K'))

    def test_textfile(self):
        path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'specguard.prom')
        for _number in range(2):
            self.run_command('audit', '--textfile', path)
        with open(path) as written:
            lines = written.read().splitlines()
        self.assertIn('nova_specguard_audit_drifts{cell="cell1",'
                      'drift_class="flavor-other",severity="warning"} 1',
                      lines)
        self.assertIn('nova_specguard_audit_servers 2', lines)
        self.assertEqual(['specguard.prom'],
                         os.listdir(os.path.dirname(path)))
        self.assertEqual(0o644, os.stat(path).st_mode & 0o777)

    def test_textfile_that_cannot_be_written(self):
        self.assertEqual(127, self.run_command(
            'audit', '--textfile', '/nonexistent/file.prom'))
        self.assertIn(builders.UUID, self.stdout.getvalue())
        self.assertEqual(
            'cannot write /nonexistent/file.prom: No such file or '
            'directory\n', self.stderr.getvalue())

    def test_progress_line(self):
        self.assertEqual(
            '[###############---------------] 100/200 servers,     50/s, '
            '  0:02 left', progress.line(100, 200, 2))
        for done, total, seconds in ((0, 0, 0), (0, 5, 1), (7, 5, 1)):
            self.assertIn('%d servers' % total,
                          progress.line(done, total, seconds))


class ProgramTest(cloud.CloudTestCase):
    """A process of its own, with a configuration file."""

    def test_databases_that_are_not_there(self):
        directory = self.useFixture(fixtures.TempDir()).path
        path = os.path.join(directory, 'nova.conf')
        url = 'nosuchdialect://nova:%s@db.example.org/nova_api' % (
            test_instances.PASSWORD)
        with open(path, 'w') as written:
            written.write('[api_database]\nconnection = %s\n'
                          '[database]\nconnection = %s\n' % (url, url))
        ended = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c',
             'import sys; from nova_specguard.cmd import main; '
             'sys.exit(main.main())', '--config-file', path, 'audit'],
            capture_output=True, text=True)
        self.assertEqual(2, ended.returncode, ended.stderr)
        self.assertEqual(
            'API database could not be read: NoSuchModuleError\n',
            ended.stderr)
        self.assertEqual('', ended.stdout.strip())
