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
"""What nova's own code makes of request specs, repaired at rest.

The guard is off: the next move is nova's alone.
"""

import os

import ddt
import fixtures
from oslo_utils import timeutils

from nova_specguard.audit import healer
from nova_specguard.audit import journal as undo_journal
from nova_specguard.audit import spec_row
from nova_specguard import conf
from nova_specguard import exception
from tests.functional import matrix
from tests.functional import test_audit

UNHEALABLE = set(matrix.ALERTED_ONLY) - {'extra specs'}


@ddt.ddt
class HealTest(test_audit.AuditTestCase):

    def setUp(self):
        super().setUp()
        self.path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'journal')

    def heal(self, server):
        healing = healer.Healer(
            conf.options(), timeutils.utcnow(), lambda difference: True)
        journal = undo_journal.Journal(self.path)
        self.addCleanup(journal.close)
        plan = healing.plan(server['id'])
        healing.carry_out(plan, journal)
        return plan

    def produce(self, name):
        """A server that has drifted; the guard is off from now on."""
        server = getattr(self, matrix.DRIFTS[name].produce)()
        self.set_guard(mode='off')
        return server

    def found(self, server):
        """What an audit says, apart from left-over flavors."""
        return self.audit().get(server['id'], set()) - {
            ('stashed_flavor', 'stashed-flavor')}

    @ddt.data(*sorted(set(matrix.DRIFTS) - UNHEALABLE - {'healthy'}))
    def test_next_move_goes_right(self, name):
        drift = matrix.DRIFTS[name]
        server = self.produce(name)
        self.assertEqual({(drift.field, drift.drift_class)},
                         self.found(server))
        self.heal(server)
        self.assertEqual(set(), self.found(server))
        self.live_migrate(server)
        self.assertEqual('ACTIVE', self.show(server)['status'])
        self.assertIn(self.host_of(server), drift.right - {drift.source})
        self.assertEqual(set(), self.found(server))

    @ddt.data(*sorted(UNHEALABLE - {'lost zone'}))
    def test_what_is_left_to_people(self, name):
        server = self.produce(name)
        before = spec_row.read(self.context, server['id'])
        self.assertRaises(exception.NotRepairable, self.heal, server)
        self.assertEqual(before, spec_row.read(self.context, server['id']))

    def test_recorded_action(self):
        server = self.produce('smaller flavor')
        healer.Healer.record(self.heal(server))
        newest = self.api.get_instance_actions(server['id'])[0]
        self.assertEqual('specguard-heal', newest['action'])
        self.assertIsNone(newest['message'])
        self.assertEqual(
            [('specguard_healed', 'request spec repaired: flavor')],
            [(event['event'], event['details'])
             for event in self.events_of(server)])

    def test_journal_brings_the_drift_back(self):
        server = self.produce('smaller flavor')
        before = spec_row.read(self.context, server['id'])
        self.heal(server)
        (entry,) = undo_journal.read(self.path)
        self.assertTrue(spec_row.replace(
            self.context, server['id'], entry.new, entry.old))
        self.assertEqual(before, spec_row.read(self.context, server['id']))
        self.live_migrate(server)
        self.assertIn(self.host_of(server),
                      matrix.DRIFTS['smaller flavor'].wrong)
