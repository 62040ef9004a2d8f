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

"""The page of the reference about alerting names what is in etc/alerting."""

import os
import re
import unittest

import yaml

ROOT = os.path.join(os.path.dirname(__file__), '..', '..')
ROW = re.compile(r'^   \* - (.*)\n((?:^     .*\n)+)', re.MULTILINE)
DECLARED = re.compile(
    r'^(?:counter|gauge) (\w+)(?: by ([\w, ]+?))?(?: limit \d+)?$',
    re.MULTILINE)


def read(*path):
    with open(os.path.join(ROOT, *path)) as file:
        return file.read()


class AlertingPageTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        page = read('doc', 'source', 'reference', 'alerting.rst')
        self.rows = [(name.strip('`'), rest.replace('\n', ' '))
                     for name, rest in ROW.findall(page)]

    def test_metrics(self):
        self.assertEqual(
            {name + ('{%s}' % labels.replace(' ', '') if labels else '')
             for name, labels in DECLARED.findall(
                 read('etc', 'alerting', 'specguard.mtail'))},
            {name for name, _rest in self.rows
             if name.startswith('nova_specguard_')})

    def test_rules(self):
        groups = yaml.safe_load(
            read('etc', 'alerting', 'specguard.rules.yml'))['groups']
        rows = {name: rest for name, rest in self.rows
                if name.startswith('Specguard')}
        self.assertEqual(
            {rule['alert']: rule['labels']['severity']
             for group in groups for rule in group['rules']},
            {name: rest.split()[1] for name, rest in rows.items()})
        for group in groups:
            for rule in group['rules']:
                for code in re.findall(r'SPECGUARD-\d+', rule['expr']):
                    self.assertIn(code, rows[rule['alert']])

    def test_files(self):
        page = read('doc', 'source', 'reference', 'alerting.rst')
        for name in os.listdir(os.path.join(ROOT, 'etc', 'alerting')):
            self.assertIn('``%s``' % name, page)
