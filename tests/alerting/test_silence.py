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

"""What the page for the person on call says of silences."""

import json
import os
import shlex

from tests.alerting import base
from tests.alerting import chain
from tests import pages

EMPTYING = ('SpecguardMoveRefused', 'live-migration')
OTHERS = {('SpecguardMoveRefused', 'unshelve'),
          ('SpecguardFault', 'live-migration')}


class SilenceTest(pages.Reader, base.TestCase):

    def setUp(self):
        super().setUp()
        receiver = self.useFixture(chain.Receiver(self.directory))
        self.alertmanager = self.useFixture(
            chain.Alertmanager(self.directory, receiver))
        self.file('.config/prometheus/amtool.yml',
                  'alertmanager.url: %s\n' % self.alertmanager.url)
        for name, operation in {EMPTYING} | OTHERS:
            self.run_amtool(
                'amtool alert add %s operation=%s' % (name, operation))
        self.wait_for('active', {EMPTYING} | OTHERS)

    def run_amtool(self, text):
        """:returns: what it prints"""
        return self.run_program(
            *shlex.split(self.filled_in(text)),
            env=dict(os.environ, HOME=self.directory)).stdout

    def wait_for(self, state, expected):
        """Wait until these alerts, and no others, are in a state."""
        def is_so():
            alerts = json.loads(chain.get(
                self.alertmanager.url + '/api/v2/alerts'))
            return expected == {
                (alert['labels']['alertname'], alert['labels']['operation'])
                for alert in alerts if alert['status']['state'] == state}
        chain.eventually(is_so, 'change to ' + state)

    @pages.follows('Silence it')
    def test_silence(self):
        self.values['SILENCE_ID'] = self.do('amtool silence add').strip()
        self.wait_for('suppressed', {EMPTYING})
        self.wait_for('active', OTHERS)
        self.assertIn('emptying compute7', self.do('amtool silence query'))
        self.do('amtool silence expire')
        self.wait_for('active', {EMPTYING} | OTHERS)
