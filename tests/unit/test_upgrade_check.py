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
import subprocess
import sys
from unittest import mock

import ddt
import fixtures
import nova.conf
from nova import objects
from oslo_upgradecheck import upgradecheck

from nova_specguard import alerts
from nova_specguard.audit import spec_row
from nova_specguard.cmd import status
from nova_specguard import plugin
from nova_specguard.upgrade_check import configuration
from nova_specguard.upgrade_check import databases
from tests.unit import base
from tests.unit import cloud
from tests.unit import test_instances

CONF = nova.conf.CONF
SUCCESS, WARNING, FAILURE = (
    upgradecheck.Code.SUCCESS, upgradecheck.Code.WARNING,
    upgradecheck.Code.FAILURE)
FILTERS = '''
[filter_scheduler]
available_filters = nova_specguard.scheduler.all_filters
enabled_filters = SpecGuardFilter,ComputeFilter
'''


class CheckTestCase(base.TestCase):

    def files(self, text):
        """Have these be the configuration files."""
        path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'nova.conf')
        with open(path, 'w') as written:
            written.write(text)
        CONF(['--config-file', path], project='nova')
        self.addCleanup(CONF.reset)

    def assert_result(self, code, text, result):
        self.assertEqual(code, result.code, result.details)
        self.assertIn(text, result.details)


class FilterTest(CheckTestCase):

    def check(self, text, service=None):
        self.files(text)
        return configuration.check_filter(service)

    def test_in_place(self):
        for service in (None, 'scheduler'):
            self.assert_result(SUCCESS, 'enabled and first',
                               self.check(FILTERS, service))

    def test_conductor_needs_none(self):
        self.assert_result(SUCCESS, 'needs none', self.check('', 'conductor'))

    def test_file_without_filters(self):
        # that of a cell conductor, perhaps
        self.assert_result(WARNING, '--service conductor', self.check(''))
        self.assert_result(FAILURE, 'available_filters does not have',
                           self.check('', 'scheduler'))

    def test_loader_is_missing(self):
        self.assert_result(
            FAILURE, 'available_filters does not have', self.check(
                FILTERS.replace('nova_specguard.scheduler.all_filters',
                                'nova.scheduler.filters.all_filters')))

    def test_filter_is_missing(self):
        self.assert_result(
            FAILURE, 'enabled_filters does not have',
            self.check(FILTERS.replace('SpecGuardFilter,', '')))

    def test_filter_is_not_first(self):
        self.assert_result(
            WARNING, 'where ComputeFilter leaves no host', self.check(
                FILTERS.replace('SpecGuardFilter,ComputeFilter',
                                'ComputeFilter,SpecGuardFilter')))


class DriverTest(CheckTestCase):

    def check(self, *lines, service=None):
        self.files('[oslo_messaging_notifications]\n' + '\n'.join(lines))
        return configuration.check_driver(service)

    def test_beside_another(self):
        self.assert_result(
            SUCCESS, 'specguard beside messagingv2',
            self.check('driver = messagingv2', 'driver = specguard'))

    def test_missing(self):
        self.assert_result(FAILURE, 'now: messagingv2',
                           self.check('driver = messagingv2'))
        self.assert_result(FAILURE, 'now: none', self.check())

    def test_scheduler_needs_none(self):
        self.assert_result(SUCCESS, 'needs none',
                           self.check(service='scheduler'))

    def test_it_has_taken_the_place_of_another(self):
        self.assert_result(
            FAILURE, '[oslo_messaging_notifications] topics is set',
            self.check('driver = specguard', 'topics = x'))
        self.assert_result(
            FAILURE, 'topics is set', self.check(
                'driver = specguard', 'topics = x', service='scheduler'))
        self.assert_result(
            FAILURE, '[notifications] notification_format is set',
            self.check('driver = specguard', '[notifications]',
                       'notification_format = versioned'))

    def test_alone(self):
        self.assert_result(WARNING, 'driver = noop',
                           self.check('driver = specguard'))
        self.assert_result(SUCCESS, 'beside noop', self.check(
            'driver = specguard', 'driver = noop'))


class HooksTest(CheckTestCase):

    def check(self, *problems):
        def install():
            alerts.reporter('nova-conductor').hook_problems.extend(problems)
        with mock.patch.object(plugin, 'install', side_effect=install):
            return configuration.check_hooks(None)

    def test_all_fit(self):
        self.assert_result(SUCCESS, 'All fit', self.check())

    def test_one_does_not(self):
        self.assert_result(FAILURE, 'a problem. These moves are not guarded',
                           self.check('a problem'))

    def test_service_that_would_stop_is_told_of(self):
        self.configure(require_all_hooks=True)
        with mock.patch.object(
                plugin, 'install', side_effect=lambda: self.assertFalse(
                    CONF.specguard.require_all_hooks)):
            configuration.check_hooks(None)


class OptionsTest(CheckTestCase):

    def check(self, line):
        self.files('[specguard]\n' + line)
        return configuration.check_options(None)

    def test_valid(self):
        self.assert_result(SUCCESS, 'mode = warn', self.check('mode = warn'))

    def test_switched_off(self):
        self.assert_result(WARNING, 'nothing is guarded',
                           self.check('mode = off'))

    def test_invalid(self):
        self.assert_result(FAILURE, 'lookup_timeout',
                           self.check('lookup_timeout = x'))


class DatabasesTest(cloud.CloudTestCase, CheckTestCase):

    def check(self, service=None):
        return databases.check_databases(service)

    def test_all_cells(self):
        self.assert_result(SUCCESS, 'cell cell2', self.check())

    def test_cell_that_is_not_there(self):
        self.cell.add_mapping('gone', test_instances.URL.replace(
            'mysql+pymysql', 'sqlite').replace('a-host/nova', '/nowhere/x'))
        result = self.check()
        self.assert_result(FAILURE, 'cell gone ', result)
        self.assertNotIn('cell1', result.details)
        self.assertNotIn(test_instances.PASSWORD, result.details)

    def test_api_database_that_is_not_there(self):
        with mock.patch.object(objects.CellMappingList, 'get_all',
                               side_effect=ValueError(test_instances.URL)):
            self.assert_result(FAILURE, 'API database could not be read: '
                               'ValueError', self.check())

    def test_no_cells(self):
        with mock.patch.object(objects.CellMappingList, 'get_all',
                               return_value=[]):
            self.assert_result(FAILURE, 'has no cells', self.check())

    def test_cell_conductor(self):
        self.conf.config(group='api_database', connection=None)
        self.assert_result(SUCCESS, '[database]', self.check('conductor'))
        self.assert_result(WARNING, '--service conductor', self.check())


class SpecsTest(cloud.CloudTestCase, CheckTestCase):

    def add(self, **changes):
        row = cloud.healthy()
        row['request_spec'] = changes.pop('text', row['request_spec'])
        if changes:
            row['request_spec'].update(changes)
        return self.cell.add(row)

    def test_none(self):
        self.add()
        for check in (databases.check_versions, databases.check_is_bfv):
            self.assert_result(SUCCESS, 'None of 1', check(None))

    def test_of_a_newer_nova(self):
        first = self.add(**{'nova_object.version': '1.99'})
        self.add(text='{')
        self.add()
        result = databases.check_versions(None)
        self.assert_result(
            FAILURE, '1 of 3 (the first: server %s) were written by a newer'
            % first, result)
        self.assertIn('1 of 3', result.details.partition('Upgrade')[2])

    def test_unreadable(self):
        self.add(text='[]')
        self.assert_result(WARNING, 'cannot be read by any nova',
                           databases.check_versions(None))

    def test_without_is_bfv(self):
        uuid = self.add()
        text = json.loads(spec_row.read(self.context, uuid))
        text['nova_object.data'].pop('is_bfv', None)
        self.cell.change_spec_row(spec=json.dumps(text))
        self.assert_result(WARNING, 'have no is_bfv',
                           databases.check_is_bfv(None))

    def test_more_than_a_page(self):
        self.useFixture(fixtures.MockPatchObject(databases, 'PAGE_SIZE', 2))
        for number in range(1, 6):
            self.add()
            self.assert_result(SUCCESS, 'None of %d' % number,
                               databases.check_versions(None))

    def test_database_that_fails(self):
        with mock.patch.object(
                databases.api_rows.api_db, 'get_engine',
                side_effect=ValueError(test_instances.URL)):
            self.assert_result(
                FAILURE, 'Stopped after 0 request specs: API database could '
                'not be read: ValueError', databases.check_versions(None))

    def test_cell_conductor(self):
        self.conf.config(group='api_database', connection=None)
        self.assert_result(SUCCESS, 'Not looked at',
                           databases.check_versions('conductor'))
        self.assert_result(WARNING, 'Not looked at',
                           databases.check_versions(None))


class MetricsTest(CheckTestCase):

    def test_text(self):
        text = status.metrics(
            [('Request specs', upgradecheck.Result(WARNING, 'x'))],
            ['/etc/nova/"nova".conf'], 1.5)
        self.assertIn(
            'nova_specguard_upgrade_check{check="request_specs",'
            'files="/etc/nova/\\"nova\\".conf"} 1\n', text)
        self.assertIn('last_run_timestamp_seconds{files="/etc/nova/'
                      '\\"nova\\".conf"} 1\n', text)


@ddt.ddt
class ProgramTest(CheckTestCase):
    """A process of its own, with a configuration file."""

    def setUp(self):
        super().setUp()
        self.path = self.useFixture(fixtures.TempDir()).path
        self.file = os.path.join(self.path, 'nova.conf')
        url = 'nosuchdialect://nova:%s@db.example.org/nova_api' % (
            test_instances.PASSWORD)
        with open(self.file, 'w') as written:
            written.write(
                '[api_database]\nconnection = %s\n[database]\nconnection = %s'
                '\n[oslo_messaging_notifications]\ndriver = specguard\n'
                'driver = noop\n%s' % (url, url, FILTERS))

    def run_program(self, *arguments):
        ended = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c',
             'import sys; from nova_specguard.cmd import status; '
             'sys.exit(status.main())', *arguments],
            capture_output=True, text=True)
        for text in (ended.stdout, ended.stderr):
            self.assertNotIn(test_instances.PASSWORD, text)
        return ended

    def test_results(self):
        metrics = os.path.join(self.path, 'x.prom')
        ended = self.run_program(
            '--config-file', self.file, 'upgrade', 'check', '--json',
            '--textfile', metrics)
        self.assertEqual(2, ended.returncode, ended.stderr)
        results = {check['check']: check['result']
                   for check in json.loads(ended.stdout)['checks']}
        self.assertEqual(
            {'Scheduler filter': 0, 'Notification drivers': 0, 'Hooks': 0,
             'Options': 0, 'Databases': 2, 'Request specs of a newer nova': 2,
             'Request specs without is_bfv': 2}, results)
        with open(metrics) as written:
            self.assertIn('check="databases",files="%s"} 2' % self.file,
                          written.read())

    def test_table(self):
        ended = self.run_program('--config-file', self.file, 'upgrade',
                                 'check')
        self.assertIn('| Check: Hooks', ended.stdout)
        self.assertIn('| Result: Failure', ended.stdout)

    def test_names_that_move_the_terminal(self):
        with open(self.file, 'a') as written:
            written.write('enabled_filters = A\x1b[2J\u202e,'
                          'SpecGuardFilter\n')
        for arguments in ((), ('--json',)):
            ended = self.run_program('--config-file', self.file, 'upgrade',
                                     'check', *arguments)
            self.assertIn('u001b[2J', ended.stdout)
            self.assertTrue(
                ended.stdout.replace('\n', '').isprintable(), ended.stdout)

    def test_no_such_file(self):
        ended = self.run_program('--config-file', self.file + 'x', 'upgrade',
                                 'check')
        self.assertEqual(255, ended.returncode)
        self.assertEqual(1, ended.stderr.count('\n'), ended.stderr)

    def test_textfile_that_cannot_be_written(self):
        ended = self.run_program(
            '--config-file', self.file, 'upgrade', 'check', '--textfile',
            os.path.join(self.path, 'no', 'x'))
        self.assertEqual(255, ended.returncode)
        self.assertIn('Error: ', ended.stderr)

    @ddt.data((), ('upgrade',), ('upgrade', 'x'),
              ('upgrade', 'check', '--service', 'x'))
    def test_bad_arguments(self, arguments):
        self.assertEqual(255, self.run_program(*arguments).returncode)

    def test_help(self):
        self.assertEqual(0, self.run_program('--help').returncode)

    def test_unexpected_error(self):
        with mock.patch.object(
                status.config, 'parse_args',
                side_effect=ValueError(test_instances.URL)):
            with mock.patch.object(sys, 'stderr') as stderr:
                self.assertEqual(255, status.main(['upgrade', 'check']))
        written = ''.join(call.args[0] for call in stderr.write.mock_calls)
        self.assertIn('ValueError', written)
        self.assertNotIn(test_instances.PASSWORD, written)
