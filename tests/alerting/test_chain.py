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

"""Alerts all the way from the product's code to a pager."""

import glob
import gzip
import os
import re

from tests.alerting import base
from tests.alerting import chain

IS_LONG = os.environ.get('SPECGUARD_ENDURANCE') == 'full'
COUNT = 10000 if IS_LONG else 1000
PATIENCE = 1200 if IS_LONG else 240
LABELS = {'alerts': ('code', 'operation', 'outcome'),
          'alert_fields': ('code', 'operation', 'outcome', 'field'),
          'summary_requests': ('service', 'result')}


class BurstTest(base.TestCase):

    def setUp(self):
        super().setUp()
        self.chain = self.useFixture(chain.Chain())

    def lines(self):
        """All lines that rsyslog has written, rotated ones too."""
        lines = []
        for path in glob.glob(self.chain.rsyslog.output + '*'):
            opened = gzip.open if path.endswith('.gz') else open
            with opened(path, 'rt') as file:
                lines += file.readlines()
        return lines

    def series(self, name, counts):
        """Counts as the samples of a metric."""
        return {base.labels(**dict(zip(LABELS[name], values))): number
                for values, number in counts.items()}

    def test_each_alert_is_counted_once_on_all_of_its_way(self):
        running = self.useFixture(
            chain.Burst(self.chain.rsyslog.socket, COUNT))
        for part in (1, 2):
            chain.eventually(
                lambda: self.chain.mtail.total() > part * COUNT,
                'alerts before the rotation', PATIENCE)
            self.chain.rsyslog.rotate()
        expected = running.expected()
        # those that have no metric with one of nothing are left out
        counted = {
            'alerts': self.series('alerts', expected['alerts']),
            'alert_fields': self.series('alert_fields', expected['fields']),
            'summary_requests': {
                base.labels(service='nova-scheduler', result=result):
                expected['summary'].get(('nova-scheduler', result), 0)
                for result in ('checked', 'corrected', 'refused', 'allowed',
                               'unverifiable', 'faults')}}
        total = sum(expected['alerts'].values())
        self.assertEqual(14 * COUNT, total)

        chain.eventually(lambda: self.chain.mtail.total() >= total,
                         'last alert at mtail', PATIENCE)
        found = self.chain.mtail.samples()
        for name, samples in counted.items():
            self.assertEqual(
                samples, found['nova_specguard_%s_total' % name])
        self.assertEqual({base.labels(): COUNT},
                         found['nova_specguard_refused_total'])
        # the alerts, and as many lines that are like them
        self.assertEqual(total + COUNT, len(self.lines()))

        chain.eventually(
            lambda: sum(self.chain.prometheus.samples(
                'nova_specguard_alerts_total').values()) >= total,
            'last alert at Prometheus')
        for name, samples in counted.items():
            self.assertEqual(samples, self.chain.prometheus.samples(
                'nova_specguard_%s_total' % name))
        self.assert_paged()

    def assert_paged(self):
        """Each rule pages the right one, in its own words only."""
        receivers = {
            'SpecguardRefusalStorm': 'on-call', 'SpecguardFault': 'on-call',
            'SpecguardMisconfigured': 'on-call',
            'SpecguardDriftAllowed': 'operators',
            'SpecguardHealGaveUp': 'operators',
            'SpecguardAuditNotRun': 'operators'}
        # may be inhibited by the storm
        allowed = dict(receivers, SpecguardMoveRefused='on-call')
        found = chain.eventually(
            lambda: self._paged(set(receivers)), 'pages')
        for (name, labels), (status, receiver, texts) in found.items():
            self.assertEqual('firing', status)
            self.assertEqual(allowed[name], receiver)
            for text in (*texts.values(), *dict(labels).values()):
                self.assertRegex(text, r'\A[\w .,:;/#()|"-]+\Z')

    def _paged(self, names):
        found = self.chain.pager.alerts()
        return found if names <= {name for name, _labels in found} else None


class PageTest(base.TestCase):

    def test_page_of_a_refused_move_arrives_and_resolves(self):
        rules = chain.load_rules()
        refused = rules['groups'][0]['rules'][0]
        refused['expr'], count = re.subn(r'< 600\b', '< 30', refused['expr'])
        self.assertEqual(('SpecguardMoveRefused', 1),
                         (refused['alert'], count))
        alerting = self.useFixture(chain.Chain(rules))
        page = ('SpecguardMoveRefused', base.labels(
            severity='critical', code='SPECGUARD-102', outcome='refused',
            operation='live-migration'))
        self.useFixture(chain.Burst(alerting.rsyslog.socket, 1)).expected()
        for status in ('firing', 'resolved'):
            chain.eventually(
                lambda: alerting.pager.alerts().get(page, [''])[0] == status,
                status)
        self.assertEqual(
            ['firing', 'resolved'], [
                alert['status'] for name, sent in alerting.pager.received()
                for alert in sent['alerts']
                if alert['labels']['alertname'] == page[0]])
