# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The guard reads the cell of the server, not whatever database is at hand.

All computes are in a cell that is not the default database of nova's
fixtures, and contexts arrive over RPC as they do in production.
"""

from tests.functional import base
from tests.functional import fixtures
from tests.functional.world import A2_MEDIUM
from tests.functional.world import E2_MEDIUM
from tests.functional.world import TOO_BIG


class OtherCellTestCase(base.TestCase):

    NUMBER_OF_CELLS = 2
    cell_name = 'cell2'

    def setUp(self):
        self.useFixture(fixtures.HonestContexts())
        super().setUp()


class ConductorTargetsTheCellTest(OtherCellTestCase):

    def setUp(self):
        super().setUp()
        self.server = self.boot_reported_case()
        self.fail_resize(self.server, E2_MEDIUM)

    def test_live_migration(self):
        self.live_migrate(self.server)
        self.assert_corrected('amd2', 'live-migration')

    def test_evacuate(self):
        self.evacuate(self.server)
        self.assert_corrected('amd2', 'evacuate')

    def test_unshelve(self):
        self.shelve(self.server)
        self.unshelve(self.server)
        self.assert_corrected('amd1', 'unshelve')

    def test_rebuild(self):
        self.rebuild(self.server)
        self.assert_corrected('amd1', 'rebuild')

    def assert_corrected(self, host, operation):
        self.assert_runs(self.server, host, A2_MEDIUM)
        self.assert_alert(
            '101', self.server, operation, 'flavor', cell='cell2')


class MigrateTargetsTheCellTest(OtherCellTestCase):

    def test_migrate(self):
        server = self.boot(A2_MEDIUM, host='amd1')
        self.leave_pci_behind(server)
        self.migrate(server)
        self.assert_runs(server, 'amd2', A2_MEDIUM, status='VERIFY_RESIZE')
        self.assert_alert(
            '101', server, 'migrate', 'pci_requests', cell='cell2')


class SchedulerTargetsTheCellTest(OtherCellTestCase):

    conductor_is_guarded = False

    def test_a_request_is_corrected(self):
        server = self.boot(A2_MEDIUM, host='amd1')
        self.exceed_all_hosts(server)
        self.assertEqual(TOO_BIG.name, self.spec_flavor(server))
        self.live_migrate(server)
        self.assert_runs(server, 'amd2', A2_MEDIUM)
        self.assert_alert(
            '101', server, 'live-migration', 'flavor', cell='cell2')

    def test_a_request_is_refused(self):
        self.set_guard(correct=False)
        server = self.boot_reported_case()
        self.fail_resize(server, E2_MEDIUM)
        self.live_migrate(server)
        self.assert_runs(server, 'amd1', A2_MEDIUM)
        self.assert_alert(
            '102', server, 'live-migration', 'flavor', cell='cell2')
