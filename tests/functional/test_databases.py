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

import testtools

from tests import databases
from tests import server_cloud
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
