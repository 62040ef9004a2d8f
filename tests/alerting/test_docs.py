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

"""What the documentation says of alerting fits the files."""

import os
import re

import ddt
import yaml

from nova_specguard import alerts
from tests.alerting import base
from tests import pages

HOSTILE = ('x" SPECGUARD-102 operation=live-migration outcome=refused ',
           '2026-12-01 03:12:44.512 7 ERROR nova.specguard [-] '
           'SPECGUARD-102 operation=live-migration outcome=refused ')


def text_of(page):
    with open(os.path.join(pages.SOURCE, page)) as source:
        return source.read()


def rules_of(groups):
    """:returns: dict of the alert's name to the rule"""
    return {rule['alert']: rule
            for group in groups['groups'] for rule in group['rules']}


class DocsTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        with open(base.path('specguard.rules.yml')) as rules:
            self.rules = rules_of(yaml.safe_load(rules))

    def loki_rules(self):
        block, = [block for block in pages.blocks(pages.ALERTING)
                  if block.section == "Loki's ruler"]
        return rules_of(yaml.safe_load(block.text))


class OnCallTest(DocsTestCase):

    def test_every_alert_leads_to_a_section_that_names_it(self):
        page = text_of(pages.ON_CALL)
        sections = dict(re.findall(
            r'^\.\. _([-a-z0-9]+):\n\n(.*?)(?=^\.\. _|\Z)', page,
            re.M | re.S))
        for name, rule in self.rules.items():
            path, anchor = rule['annotations']['runbook_url'].split('#')
            self.assertTrue(path.endswith('/operate/on-call.html'), path)
            self.assertIn('**%s**' % name, sections[anchor])

    def test_every_code_has_a_section(self):
        page = text_of(pages.ON_CALL)
        for code in alerts._LEVELS:
            self.assertIn('.. _%s:\n\n%s\n' % (code.lower(), code), page)


@ddt.ddt
class LokiTest(DocsTestCase):

    def test_rules_are_those_of_prometheus(self):
        for name, rule in self.loki_rules().items():
            known = self.rules[name]
            self.assertEqual(
                (known['labels'], known['annotations']['runbook_url']),
                (rule['labels'], rule['annotations']['runbook_url']), name)

    def matching(self, line):
        """The alerts whose expression takes a line of the log."""
        found = set()
        for name, rule in self.loki_rules().items():
            for expression in re.findall('`(.*?)`', rule['expr']):
                if re.search(expression, line):
                    found.add(name)
        return found

    def line(self, code, **values):
        return base.NovaLog().line(alerts.line(code, {
            'operation': 'live-migration', 'outcome': 'x', **values}))

    @ddt.data(
        (alerts.REFUSED, 'SpecguardMoveRefused', 'SpecguardRefusalStorm'),
        (alerts.ALLOWED, 'SpecguardDriftAllowed'),
        (alerts.UNVERIFIABLE, 'SpecguardUnverifiable'),
        (alerts.FAULT, 'SpecguardFault'),
        (alerts.NOT_HEALED, 'SpecguardHealGaveUp'),
        (alerts.CORRECTED,), (alerts.FOUND,), (alerts.HEALED,))
    def test_codes(self, data):
        code, *names = data
        self.assertEqual(set(names), self.matching(self.line(code)))

    def test_codes_of_services(self):
        for code, name in ((alerts.MISCONFIGURED, 'SpecguardMisconfigured'),
                           (alerts.SUMMARY, 'SpecguardNoSummary')):
            self.assertEqual({name}, self.matching(base.NovaLog().line(
                alerts.line(code, {'service': 'nova-scheduler', 'x': 'y'}))))

    @ddt.data(*HOSTILE)
    def test_values_are_not_taken_for_codes(self, value):
        self.assertEqual(set(), self.matching(
            self.line(alerts.CORRECTED, flavor_spec=value)))


@ddt.ddt
class FluentdTest(DocsTestCase):

    def record(self, payload):
        """What fluentd would find in what kolla-ansible calls Payload."""
        block, = [block for block in pages.blocks(pages.ALERTING)
                  if block.section == 'fluentd']
        expression, = re.findall(r'^ *expression /(.*)/$', block.text, re.M)
        found = re.search(expression.replace('(?<', '(?P<'), payload)
        return found and found.groupdict()

    # A line of a command has no context.
    @ddt.data(' ', ' [-] ')
    def test_alert(self, before):
        self.assertEqual(
            {'specguard_code': 'SPECGUARD-101',
             'specguard_operation': 'evacuate|live-migration',
             'specguard_outcome': 'corrected'},
            self.record(before + alerts.line(alerts.CORRECTED, {
                'operation': 'evacuate|live-migration',
                'outcome': 'corrected', 'instance': 'x'})))

    def test_summary(self):
        self.assertEqual(
            {'specguard_code': 'SPECGUARD-001', 'specguard_operation': None,
             'specguard_outcome': None},
            self.record(' ' + alerts.line(alerts.SUMMARY, {
                'service': 'nova-scheduler'})))

    @ddt.data(*HOSTILE)
    def test_values_are_not_taken_for_codes(self, value):
        self.assertIsNone(self.record(
            ' Failed to schedule instances of flavor ' + value))
