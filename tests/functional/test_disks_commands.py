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

"""The command lines of disks export and disks audit."""

import io
import json
import os
import sys

from nova import objects

from nova_specguard.cmd import progress
from nova_specguard.disks import facts
from nova_specguard.disks import findings
from tests import compute_host
from tests.unit import cloud
from tests.unit import command

# What machine-readable rows carry by contract.
CONTRACT = ('instance_uuid', 'cell', 'project_id', 'host', 'field',
            'drift_class', 'severity', 'spec_value', 'current_value')


class ExportTest(command.CommandTestCase):

    def setUp(self):
        super().setUp()
        objects.HostMapping(self.cell.context, host='compute-a2b1',
                            cell_mapping=self.cell.mapping).create()

    def test_file(self):
        uuid = self.cell.add(cloud.healthy())
        self.assertEqual(0, self.run_command(
            'disks', 'export', '--host', 'compute-a2b1'),
            self.stderr.getvalue())
        known = facts.load(self.stdout.getvalue())
        self.assertEqual(('compute-a2b1', [uuid]),
                         (known.host, list(known.servers)))

    def test_unknown_host(self):
        self.assertEqual(127, self.run_command(
            'disks', 'export', '--host', 'compute9'))
        self.assertEqual('no compute host compute9\n', self.stderr.getvalue())
        self.assertEqual('', self.stdout.getvalue())

    def test_no_host(self):
        self.assertEqual(127, self.run_command('disks', 'export'))

    def test_unreadable_cell(self):
        gone = self.cell.add_mapping('gone', 'nosuchdialect+driver://db/nova')
        objects.HostMapping(self.cell.context, host='lost',
                            cell_mapping=gone).create()
        self.assertEqual(2, self.run_command(
            'disks', 'export', '--host', 'lost'))
        self.assertEqual('gone could not be read: NoSuchModuleError\n',
                         self.stderr.getvalue())


class AuditTest(command.CommandTestCase):

    def setUp(self):
        super().setUp()
        # Whoever may not read Python's library cannot load a command.
        self.patch(os, 'geteuid', lambda: 1000)
        self.conf.config(host=compute_host.HOST)
        self.host = self.useFixture(compute_host.ComputeHost())
        self.base = self.host.add_base(
            compute_host.base_name(compute_host.IMAGE))
        self.uuid = self.host.add_server({'disk': {'base': self.base}})

    def run_audit(self, *arguments, **kwargs):
        """Run it, with the facts as they are now.

        :returns: exit code
        """
        path = os.path.join(self.host.path, 'facts.json')
        with open(path, 'w') as written:
            written.write(self.host.facts.dump())
        return self.run_command(
            'disks', 'audit', '--facts', path, '--instances-path',
            self.host.path, *arguments, **kwargs)

    def add_drift(self):
        other = self.host.add_base(
            compute_host.base_name(compute_host.SNAPSHOT))
        return self.host.add_server({'disk': {'base': other}})

    def add_header(self):
        return self.host.add_server({'disk': {}}, formats={'disk': 'raw'})

    def add_unreadable(self):
        uuid = self.host.add_server({'disk': {'base': self.base}})
        self.host.record(uuid, {})
        return uuid

    def rows(self, *arguments):
        self.run_audit('-f', 'json', *arguments)
        return json.loads(self.stdout.getvalue())

    def test_nothing_found(self):
        self.assertEqual(0, self.run_audit(), self.stderr.getvalue())
        self.assertEqual('', self.stderr.getvalue())
        self.assertEqual([], self.alerts.lines)

    def test_drift(self):
        uuid = self.add_drift()
        self.assertEqual(3, self.run_audit())
        self.assertIn('disk-base-other', self.stdout.getvalue())
        alert, = self.alerts.of('401')
        self.assertEqual(
            ('disks-audit', 'found', uuid, compute_host.PROJECT, 'disk',
             'disk-base-other', 'warning', compute_host.CELL),
            tuple(alert[key] for key in (
                'operation', 'outcome', 'instance', 'project', 'fields',
                'classes', 'severity', 'cell')))
        self.assertEqual(self.base, alert['disk_spec'])

    def test_header_in_a_raw_disk_is_no_drift(self):
        self.add_header()
        self.assertEqual(0, self.run_audit())
        self.assertIn('disk-unsafe', self.stdout.getvalue())
        self.assertEqual([], self.alerts.lines)

    def test_names_that_move_the_terminal(self):
        self.host.add_server({'disk': {
            'base': 'a\x1b[2J\u202eb', 'options': ('-u',)}})
        for name in ('table', 'value', 'csv'):
            self.assertEqual(3, self.run_audit('-f', name, '-c', 'reason',
                                               '-c', 'current_value'))
            self.assertIn(r'\u001b', self.stdout.getvalue())
            self.assert_printable()

    def test_unreadable_before_drift(self):
        self.add_drift()
        uuid = self.add_unreadable()
        self.assertEqual(2, self.run_audit('-c', 'instance_uuid'))
        self.assertIn(uuid, self.stdout.getvalue())

    def test_row(self):
        uuid = self.add_drift()
        row, = self.rows()
        self.assertEqual(list(findings.COLUMNS), list(row))
        self.assertEqual(set(), set(CONTRACT) - set(row))
        self.assertEqual(
            (uuid, compute_host.HOST, 'disk', 'disk', 'found'),
            tuple(row[name] for name in (
                'instance_uuid', 'host', 'field', 'disk', 'state')))

    def test_all(self):
        other = self.add_drift()
        self.assertEqual(
            {self.uuid: 'clean', other: 'found'},
            {row['instance_uuid']: row['state'] for row in self.rows('--all')})

    def test_facts_from_stdin(self):
        self.patch(sys, 'stdin', io.StringIO(self.host.facts.dump()))
        self.assertEqual(0, self.run_command(
            'disks', 'audit', '--facts', '-', '--instances-path',
            self.host.path), self.stderr.getvalue())

    def test_facts_of_another_host(self):
        self.conf.config(host='compute2')
        self.assertEqual(0, self.run_audit())
        self.assertIn('is of host compute1, this one is compute2',
                      self.stderr.getvalue())

    def test_root(self):
        self.patch(os, 'geteuid', lambda: 0)
        self.assertEqual(127, self.run_audit())
        self.assertEqual('qemu-img is not run as root: run this as the user '
                         'of nova-compute\n', self.stderr.getvalue())

    def test_no_qemu_img(self):
        folder = os.path.join(self.host.path, 'bin')
        os.mkdir(folder)
        os.symlink('/usr/bin/prlimit', os.path.join(folder, 'prlimit'))
        self.patch(os, 'environ', {**os.environ, 'PATH': folder})
        self.assertEqual(127, self.run_audit())
        self.assertEqual('qemu-img (package qemu-utils) is not installed\n',
                         self.stderr.getvalue())

    def assert_bad_arguments(self, text, *arguments):
        self.assertEqual(127, self.run_audit(*arguments))
        self.assertIn(text, self.stderr.getvalue())
        self.assertNotIn('Traceback', self.stderr.getvalue())

    def test_bad_arguments(self):
        self.assert_bad_arguments('no column', '-c', 'name')
        self.assert_bad_arguments('cannot read /nonexistent',
                                  '--facts', '/nonexistent')
        self.assert_bad_arguments('cannot read /nonexistent',
                                  '--instances-path', '/nonexistent')
        self.assert_bad_arguments('no file of "disks export"',
                                  '--facts', '/dev/null')

    def test_progress_on_a_terminal_only(self):
        self.patch(progress, '_INTERVAL', 0)
        self.run_audit()
        self.assertEqual('', self.stderr.getvalue())
        self.run_audit(terminal=True)
        self.assertIn('1/1 servers', self.stderr.getvalue())
