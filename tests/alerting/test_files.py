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

"""etc/alerting, looked at by the programs that read it."""

import os
import re
import shutil
import subprocess

import yaml

from nova_specguard.cmd import status
from tests.alerting import base
from tests.alerting import chain

# Their values are from closed sets, or names of hosts.
LABELS = {'operation', 'drift_class', 'check', 'service', 'host', 'instance'}


def rules():
    """The alerting rules by name."""
    return {rule['alert']: rule for group in chain.load_rules()['groups']
            for rule in group['rules']}


class ProgramsTest(base.TestCase):

    def test_prometheus(self):
        self.run_program(
            'promtool', 'check', 'rules', base.path('specguard.rules.yml'))

    def test_cases_of_the_rules(self):
        self.run_program('promtool', 'test', 'rules',
                         base.path('specguard.rules.test.yml'))

    def test_alertmanager(self):
        self.run_program(
            'amtool', 'check-config', base.path('alertmanager.yml'))

    def test_rsyslog(self):
        done = self.run_program(
            'rsyslogd', '-N1', '-f', base.path('rsyslog.conf'))
        self.assertNotIn('error', done.stdout.lower())

    def test_logrotate(self):
        # which wants to be the only one who can write the file
        copy = shutil.copy(base.path('logrotate'), self.directory)
        os.chmod(copy, 0o644)
        done = self.run_program(
            'logrotate', '--debug', '--state',
            os.path.join(self.directory, 'state'), copy)
        self.assertNotIn('error', done.stdout.lower())
        self.assertIn('/var/log/nova-specguard/alerts.log', done.stdout)


class RulesTest(base.TestCase):

    def test_severity(self):
        self.assertEqual(
            {'critical', 'warning'},
            {rule['labels']['severity'] for rule in rules().values()})

    def test_each_names_its_place_on_the_page_for_the_person_on_call(self):
        for name, rule in rules().items():
            self.assertRegex(
                rule['annotations']['runbook_url'],
                r'^https://specguard\.example\.org/operate/on-call\.html'
                r'#[a-z0-9-]+$', name)

    def test_anchor_is_that_of_the_code(self):
        for name, rule in rules().items():
            codes = re.findall(r'code="SPECGUARD-(\d+)"', rule['expr'])
            for code in codes:
                self.assertTrue(
                    rule['annotations']['runbook_url'].endswith(
                        '#specguard-' + code), name)

    def test_no_text_of_a_user_is_shown(self):
        for name, rule in rules().items():
            for text in rule['annotations'].values():
                used = re.findall(r'\{\{(.*?)\}\}', text)
                shown = set(re.findall(r'\$labels\.(\w+)', ' '.join(used)))
                self.assertLessEqual(shown, LABELS, name)

    def test_each_has_cases_in_which_it_fires_and_does_not(self):
        with open(base.path('specguard.rules.test.yml')) as file:
            tests = yaml.safe_load(file)['tests']
        cases = [(case['alertname'], bool(case.get('exp_alerts')))
                 for test in tests for case in test['alert_rule_test']]
        self.assertEqual(
            {(name, fires) for name in rules() for fires in (True, False)},
            set(cases))

    def test_checks_of_the_upgrade_check_are_there(self):
        expression = rules()['SpecguardUpgradeCheckFailed']['expr']
        (names,) = re.findall(r'check=~"(.*?)"', expression)
        self.assertLessEqual(
            set(names.split('|')),
            {name.lower().replace(' ', '_') for name, _check in status.CHECKS})


class RouteTest(base.TestCase):

    def receiver(self, **labels):
        done = subprocess.run(
            [base.program('amtool'), 'config', 'routes', 'test',
             '--config.file', base.path('alertmanager.yml'),
             *map('='.join, labels.items())],
            stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.strip()

    def test_critical_is_for_the_person_on_call(self):
        for name, rule in rules().items():
            severity = rule['labels']['severity']
            self.assertEqual(
                'on-call' if severity == 'critical' else 'operators',
                self.receiver(alertname=name, severity=severity))

    def test_alerts_of_others_are_left_where_they_were(self):
        self.assertEqual('operators', self.receiver(
            alertname='DiskFull', severity='critical'))
