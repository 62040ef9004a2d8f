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
"""The story of one server, out of its rows."""

import datetime
import json

from nova.db.api import models as api_models
from nova.db.main import models
from oslo_utils import uuidutils

from tests.unit import builders
from tests.unit import cloud
from tests.unit import command
from tests.unit import test_instances

# As the reported server's cloud has them.
MIGRATIONS = (
    (135244, 'live-migration', 'completed', 831, 831, '2023-11-08 20:49:47'),
    (138062, 'resize', 'confirmed', 831, 982, '2023-12-04 21:18:04'),
    (138931, 'resize', 'error', 982, 831, '2024-01-08 14:11:14'),
    (138991, 'live-migration', 'error', 982, 982, '2024-01-09 09:56:50'))
SAVED = '2024-01-08 14:11:14'


class ExplainTestCase(command.CommandTestCase):

    def setUp(self):
        super().setUp()
        self.row = cloud.reported_case()

    def add(self, saved_at=SAVED, **instance):
        self.row['instance'].update(instance)
        self.cell.add(self.row)
        self.cell.change_spec_row(updated_at=_time(saved_at))

    def migrate(self, number, kind, status, old, new, updated_at,
                created_at=None):
        self.cell.insert(
            models.Migration, self.cell.mapping, id=number, deleted=0,
            instance_uuid=builders.UUID, migration_type=kind, status=status,
            old_instance_type_id=old, new_instance_type_id=new,
            source_compute='compute-a2b1', dest_compute='compute-t2b2',
            created_at=_time(created_at or updated_at),
            updated_at=_time(updated_at))

    def act(self, action, start_time, *events):
        number = len(self.explain()) + 1
        self.cell.insert(
            models.InstanceAction, self.cell.mapping, id=number, deleted=0,
            action=action, instance_uuid=builders.UUID,
            request_id='req-%d' % number, start_time=_time(start_time))
        for name, result in events:
            self.cell.insert(
                models.InstanceActionEvent, self.cell.mapping, deleted=0,
                action_id=number, event=name, result=result, host='amd1')
        return 'req-%d' % number

    def explain(self, *arguments):
        """Run the command.

        :returns: list of rows
        """
        self.code = self.run_command(
            'explain', '-f', 'json', builders.UUID, *arguments)
        return json.loads(self.stdout.getvalue() or '[]')

    def conclusions(self):
        """What it says of each difference.

        :returns: dict of drift class to text
        """
        return {row['result']: row['details'] for row in self.explain()
                if row['source'] == 'drift'}


class ReportedCaseTest(ExplainTestCase):

    def setUp(self):
        super().setUp()
        self.add()
        for migration in MIGRATIONS:
            self.migrate(*migration)
        self.cell.insert(api_models.Flavors, id=831, flavorid='022050',
                         name='e2.medium', memory_mb=1, vcpus=1)

    def test_event_after_which_the_copies_parted(self):
        text = ('resize 138931 to e2.medium failed on 2024-01-08 14:11:14; '
                'the request spec was saved in the same second')
        self.assertEqual({'flavor-other': text, 'stashed-flavor': text},
                         self.conclusions())
        self.assertEqual(3, self.code)

    def test_events_are_in_order(self):
        rows = self.explain()
        times = [row['time'] for row in rows if row['source'] != 'drift']
        self.assertEqual(sorted(times), times)
        self.assertEqual(
            ['live-migration 135244', 'resize 138062 to a2.medium',
             'resize 138931 to e2.medium', 'live-migration 138991'],
            [row['event'] for row in rows if row['source'] == 'migration'])
        self.assertIn('request_specs last saved',
                      [row['event'] for row in rows])

    def test_conclusion_comes_last(self):
        self.assertEqual('drift', self.explain()[-1]['source'])

    def test_table(self):
        self.assertEqual(3, self.run_command('explain', builders.UUID))
        self.assertIn('| resize 138931 to e2.medium ',
                      self.stdout.getvalue())


class ConclusionTest(ExplainTestCase):

    def resize(self, saved_at, status='error'):
        self.add(saved_at)
        self.migrate(1, 'resize', status, 982, 831, SAVED)
        return self.conclusions()['flavor-other']

    def test_saved_a_little_later_or_before(self):
        self.assertTrue(self.resize('2024-01-08 14:11:24').endswith(
            'the request spec was last saved 10 s later'))

    def test_saved_a_little_before(self):
        self.add('2024-01-08 14:11:04')
        self.migrate(1, 'resize', 'error', 982, 831, SAVED,
                     created_at='2024-01-08 14:10:00')
        self.assertTrue(self.conclusions()['flavor-other'].endswith(
            'the request spec was last saved 10 s before'))

    def test_saved_at_another_time(self):
        self.assertTrue(self.resize('2024-02-01 00:00:00').endswith(
            'the request spec was last saved on 2024-02-01 00:00:00'))

    def test_never_saved_again(self):
        self.add()
        self.cell.change_spec_row(updated_at=None, created_at=None)
        self.migrate(1, 'resize', 'error', 982, 831, SAVED)
        self.assertTrue(self.conclusions()['flavor-other'].endswith(
            'when the request spec was saved is not known'))

    def test_flavor_that_is_deleted(self):
        # the request spec has its name
        self.assertTrue(self.resize(SAVED).startswith(
            'resize 1 to e2.medium failed'))

    def test_flavor_whose_name_moves_the_terminal(self):
        spec = self.row['request_spec']['nova_object.data']
        spec['flavor']['nova_object.data']['name'] = command.HOSTILE
        self.resize(SAVED)
        for name in ('table', 'value'):
            self.run_command('explain', '-f', name, builders.UUID)
            self.assertIn('resize 1 to ' + command.ESCAPED,
                          self.stdout.getvalue())
            self.assert_printable()

    def test_flavor_that_nobody_knows(self):
        self.add()
        self.migrate(1, 'resize', 'error', 831, 7, SAVED)
        self.assertTrue(self.conclusions()['flavor-other'].startswith(
            'resize 1 to flavor 7 failed'))

    def test_migration_that_is_stuck(self):
        self.assertTrue(self.resize(SAVED, 'pre-migrating').startswith(
            'resize 1 to e2.medium stands at pre-migrating on '))

    def test_last_of_several(self):
        self.add()
        for number in (1, 2, 3):
            self.migrate(number, 'resize', 'error', 982, 831, SAVED)
        self.migrate(4, 'resize', 'error', 982, 7, SAVED)
        self.assertTrue(self.conclusions()['flavor-other'].startswith(
            'resize 3 '))

    def test_resize_after_the_last_save_has_saved_nothing(self):
        # A6: no host was found.
        self.add()
        self.migrate(1, 'resize', 'error', 982, 831, SAVED)
        self.migrate(2, 'resize', 'error', 982, 831, '2024-01-20 00:00:00')
        conclusions = self.conclusions()
        self.assertTrue(conclusions['flavor-other'].startswith('resize 1 '))
        self.assertTrue(conclusions['stashed-flavor'].startswith('resize 2 '))

    def test_resize_of_unknown_time(self):
        self.add()
        self.migrate(1, 'resize', 'error', 982, 831, SAVED)
        self.cell.clear_times(models.Migration)
        self.assertEqual(
            'resize 1 to e2.medium failed; when the request spec was saved '
            'is not known', self.conclusions()['flavor-other'])

    def test_nothing_on_record(self):
        self.add()
        self.assertTrue(self.conclusions()['flavor-other'].startswith(
            'nothing on record fits; usual cause: '))

    def test_rebuild_that_was_refused(self):
        self.row = cloud.healthy(uuid=builders.UUID)
        self.row['instance']['image_ref'] = builders.GROUP
        self.add()
        self.act('rebuild', '2024-01-01 00:00:00',
                 ('compute_rebuild_instance', 'Success'))
        request = self.act('rebuild', SAVED,
                           ('conductor_rebuild_server', 'Error'))
        self.act('reboot', '2024-02-01 00:00:00',
                 ('compute_reboot_instance', 'Success'))
        self.assertEqual(
            {'image-ambiguous': 'rebuild %s failed on %s; the request spec '
             'was saved in the same second' % (request, SAVED)},
            self.conclusions())

    def test_healthy_server(self):
        self.row = cloud.healthy(uuid=builders.UUID)
        self.add()
        self.assertEqual({}, self.conclusions())
        self.assertEqual(0, self.code)


class ActionTest(ExplainTestCase):

    def test_results(self):
        self.add()
        for events, result, details in (
                ((('a', 'Success'),), 'Success', ''),
                ((('a', 'Success'), ('b', 'Error')), 'Error',
                 'b: Error on amd1'),
                ((('a', None),), 'unfinished', 'a: unfinished on amd1'),
                ((), 'unfinished', '')):
            request = self.act('resize', SAVED, *events)
            row, = [row for row in self.explain()
                    if row['event'] == 'resize ' + request]
            self.assertEqual((result, details),
                             (row['result'], row['details']))


class FaultTest(ExplainTestCase):

    def test_unknown_server(self):
        uuid = uuidutils.generate_uuid()
        self.assertEqual(127, self.run_command('explain', uuid))
        self.assertIn('no server ' + uuid, self.stderr.getvalue())

    def test_no_api_database(self):
        self.add()
        self.conf.config(group='api_database', connection=None)
        self.explain()
        self.assertEqual(2, self.code)
        self.assertEqual(
            'API database could not be read: no [api_database] connection\n',
            self.stderr.getvalue())

    def test_invalid_option(self):
        self.add()
        self.configure(mode='of')
        self.explain()
        self.assertEqual(3, self.code)
        self.assertIn('[specguard] mode = of (invalid: ',
                      self.stderr.getvalue())

    def test_bad_arguments(self):
        self.add()
        for arguments in ((), ('x',), (builders.UUID, builders.UUID),
                          (builders.UUID, '-c', 'name')):
            self.assertEqual(127, self.run_command('explain', *arguments))

    def test_cell_that_cannot_be_read(self):
        cell = self.cell.add_mapping('gone', test_instances.URL.replace(
            'mysql+pymysql', 'sqlite').replace('a-host/nova', '/nowhere/x'))
        self.cell.map(cell, builders.UUID)
        self.explain()
        self.assertEqual(2, self.code)
        self.assertIn('gone could not be read', self.stderr.getvalue())

    def test_server_that_nova_is_working_on(self):
        self.add(task_state='migrating')
        self.explain()
        self.assertEqual(0, self.code)
        self.assertIn('nova is working on the server',
                      self.stderr.getvalue())

    def test_server_without_history(self):
        self.add()
        self.cell.clear_times(models.Instance)
        self.assertTrue(self.explain())


def _time(text):
    return text and datetime.datetime.fromisoformat(text)
