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

"""Audit, heal and restore on real database servers."""

import fixtures
import testtools

from nova_specguard.audit import reading
from tests import databases
from tests import server_cloud
from tests.unit import builders
from tests.unit import cloud
from tests.unit import command
from tests.unit import test_audit
from tests.unit import test_audit_healer
from tests.unit import test_cmd_heal


class MissingServerTest(testtools.TestCase):

    def test_it_is_a_failure(self):
        class Missing(databases.MariaDB):
            package = 'no-such-package'

            def _prepare(self):
                return [self._program('no-such-program')]
        error = self.assertRaises(RuntimeError, Missing.get)
        self.assertEqual('no program no-such-program: install the package '
                         'no-such-package', str(error))


class WithoutSchemas(databases.MariaDB):

    def _migrated(self, name):
        return None


class HangingTest(server_cloud.OnMariaDB, command.CommandTestCase):
    """A database that accepts connections, and does not answer."""

    def setUp(self):
        super().setUp()
        self.cell.add(cloud.reported_case())

    def patience(self, seconds):
        self.useFixture(fixtures.MockPatchObject(
            reading, 'TIMEOUT', seconds))

    def test_cell(self):
        hanging = WithoutSchemas.get()
        mapping = self.cell.add_mapping('hanging', hanging.url('nova_cell1'))
        row = cloud.healthy()
        self.cell.map(mapping, row['instance']['uuid'])
        # which the others have to do with
        self.patience(20)
        with hanging.paused():
            self.assertEqual(2, self.run_command('audit', '-f', 'json'))
        self.assertEqual(
            'hanging could not be read: no answer in 20 s\n',
            self.stderr.getvalue())
        self.assertIn('flavor-other', self.stdout.getvalue())

    def test_api_database(self):
        self.patience(2)
        with self.cell.server.paused():
            for arguments in (('audit',), ('heal', '--yes'),
                              ('explain', builders.UUID)):
                self.assertEqual(2, self.run_command(*arguments))
                self.assertEqual(
                    'API database could not be read: no answer in 2 s\n',
                    self.stderr.getvalue())


def _on_each(case):
    """Make the tests of a class run on each kind of server."""
    for mixin in (server_cloud.OnMariaDB, server_cloud.OnPostgreSQL):
        name = case.__name__ + mixin.__name__
        globals()[name] = type(
            name, (mixin, case), {'__module__': __name__})


for case in (test_audit.ReportedCaseTest, test_audit.RowsTest,
             test_audit.SpecsTest, test_audit.InstancesTest,
             test_audit.StateTest, test_audit.SelectionTest,
             test_audit.UnreadableTest, test_audit_healer.WrittenTest,
             test_audit_healer.ConcurrencyTest, test_cmd_heal.RestoreTest):
    _on_each(case)
del case
