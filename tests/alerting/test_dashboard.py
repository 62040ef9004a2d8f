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

"""grafana-dashboard.json asks for what there is, in PromQL."""

import json
import re

from nova_specguard.audit import report
from tests.alerting import base

# What Grafana puts in before it asks, and labels that Prometheus adds.
VARIABLES = {'$__rate_interval': '5m', '$__range': '24h'}
ADDED = {'job', 'instance'}

_DECLARED = re.compile(
    r'^(?:counter|gauge) (\w+)(?: by ([\w, ]+?))?(?: limit \d+)?$', re.M)
_METRIC = re.compile(r'\bnova_specguard_\w+')
_GROUPED = re.compile(r'\b(?:by|without|on) \(([\w, ]+)\)')
_MATCHED = re.compile(r'(\w+)(?:=|!=|=~|!~)"')


class DashboardTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        with open(base.path('grafana-dashboard.json')) as dashboard:
            self.panels = json.load(dashboard)['panels']
        self.expressions = []
        for panel in self.panels:
            for target in panel['targets']:
                expression = target['expr']
                for name, value in VARIABLES.items():
                    expression = expression.replace(name, value)
                self.expressions.append(expression)

    def exported(self):
        """What mtail and the audit export.

        :returns: dict of the metric's name to the set of its labels
        """
        with open(base.path('specguard.mtail')) as program:
            metrics = {name: set(labels.split(', ') if labels else ())
                       for name, labels in _DECLARED.findall(program.read())}
        for name, _text in report._METRICS:
            metrics[name] = set()
        metrics['nova_specguard_audit_drifts'] = {
            'cell', 'drift_class', 'severity'}
        return metrics

    def test_expressions_are_promql(self):
        rules = self.file('rules.yml', json.dumps({'groups': [{
            'name': 'dashboard', 'rules': [
                {'record': 'panel:%d' % number, 'expr': expression}
                for number, expression in enumerate(self.expressions)]}]}))
        done = self.run_program('promtool', 'check', 'rules', rules)
        self.assertIn('%d rules found' % len(self.expressions), done.stdout)

    def test_metrics_and_labels_exist(self):
        exported = self.exported()
        for expression in self.expressions:
            names = set(_METRIC.findall(expression))
            self.assertNotEqual(set(), names, expression)
            self.assertEqual(set(), names - set(exported), expression)
            labels = ADDED.union(*(exported[name] for name in names))
            used = set(_MATCHED.findall(expression)).union(*(
                group.split(', ') for group in _GROUPED.findall(expression)))
            self.assertEqual(set(), used - labels, expression)

    def test_every_metric_is_shown(self):
        self.assertEqual(
            set(self.exported()),
            set(_METRIC.findall(' '.join(self.expressions))))

    def test_legends_name_labels_of_the_result(self):
        for panel in self.panels:
            for target in panel['targets']:
                kept = set().union(*(
                    group.split(', ') for group
                    in _GROUPED.findall(target['expr'])))
                self.assertEqual(set(), set(re.findall(
                    r'\{\{(\w+)\}\}', target['legendFormat'])) - kept,
                    panel['title'])

    def test_panels(self):
        """Each has an explanation and a place of its own."""
        taken = set()
        for panel in self.panels:
            self.assertNotEqual('', panel['description'])
            place = panel['gridPos']
            self.assertLessEqual(place['x'] + place['w'], 24)
            cells = {(x, y)
                     for x in range(place['x'], place['x'] + place['w'])
                     for y in range(place['y'], place['y'] + place['h'])}
            self.assertEqual(set(), cells & taken, panel['title'])
            taken |= cells
        self.assertEqual(len(self.panels),
                         len({panel['id'] for panel in self.panels}))
