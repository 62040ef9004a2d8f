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

"""Every drift that nova's own code makes is found at rest."""

import ddt

from nova_specguard.audit import audit
from nova_specguard.audit import selection
from nova_specguard import conf
from tests.functional import base
from tests.functional import drifts
from tests.functional import matrix
from tests.functional import world

DAY = 24 * 60 * 60


class AuditTestCase(drifts.Drifts, base.TestCase):

    def audit(self, stuck_after=DAY, with_allocations=False, **selected):
        """What an audit finds of all servers.

        :returns: dict of UUID to set of (field, drift class)
        """
        found = {}
        for finding in self.findings(
                stuck_after, with_allocations, **selected):
            found.setdefault(finding.instance_uuid, set()).add(
                (finding.difference.field,
                 finding.difference.drift_class.name))
        return found

    def findings(self, stuck_after=DAY, with_allocations=False, **selected):
        audited = audit.Audit(
            selection.Selection(**selected), conf.options(), stuck_after,
            with_allocations)
        found = list(audited.run(lambda: None))
        self.assertEqual([], audited.unreadable)
        self.assertEqual(0, audited.in_flight)
        return found


@ddt.ddt
class DriftTest(AuditTestCase):

    # What a failed resize leaves besides.
    LEFT_OVER = {'smaller flavor': {('stashed_flavor', 'stashed-flavor')}}

    @ddt.data(*sorted(set(matrix.DRIFTS) - {'healthy'}))
    def test_drift(self, name):
        drift = matrix.DRIFTS[name]
        server = getattr(self, drift.produce)()
        self.set_guard(mode='enforce')
        # nova makes no zone of hosts that have servers
        self.boot(host='amd2')
        found = self.audit()
        self.assertEqual(
            {(drift.field, drift.drift_class)} |
            self.LEFT_OVER.get(name, set()), found.pop(server['id']))
        self.assertEqual({}, found)
        # the guard says the same
        self.live_migrate(server)
        alert, = self.alerts.incidents
        self.assertEqual((drift.field, drift.drift_class),
                         (alert['fields'], alert['classes']))


class OneHealthyTest(AuditTestCase):
    """Servers that nova has moved about without a fault are clean."""

    def test_one_per_operation(self):
        servers = {name: self.boot(host='amd1') for name in (
            'live_migrate', 'migrate', 'resize', 'revert', 'rebuild',
            'shelve', 'unshelve')}
        self.live_migrate(servers['live_migrate'])
        self.migrate(servers['migrate'])
        self.confirm(servers['migrate'])
        self.resize(servers['resize'], world.A2_LARGE)
        self.resize(servers['revert'], world.A2_LARGE)
        self.assertEqual({}, self.audit(with_allocations=True))
        self.confirm(servers['resize'])
        self.revert(servers['revert'])
        self.rebuild(servers['rebuild'])
        self.shelve(servers['shelve'])
        self.shelve(servers['unshelve'])
        self.unshelve(servers['unshelve'])
        self.assertEqual({}, self.audit(with_allocations=True))


class AllocationTest(AuditTestCase):

    ALLOCATION = ('allocation', 'allocation')

    def test_move_with_a_drifted_flavor(self):
        """A2b: the claim is what the spec asks for, and stays."""
        server = self.drift_to_smaller_flavor()
        with self.unguarded():
            self.live_migrate(server)
        self.assertNotIn(self.ALLOCATION, self.audit()[server['id']])
        self.assertIn(self.ALLOCATION, self.audit(
            with_allocations=True)[server['id']])

    def test_stored_rebuild_hint(self):
        """The move claims nothing."""
        server = self.leave_rebuild_hint()
        with self.unguarded():
            self.live_migrate(server)
        self.assertIn(self.ALLOCATION, self.audit(
            with_allocations=True)[server['id']])
