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

"""The logic of ``devstack/exercise.sh``, with a client that has no cloud.

What nova and its client do is imitated by ``devstack/cloud.py``; only
``ComputeCapabilitiesFilter`` is nova's.
"""

import json
import os
import subprocess
import sys

import fixtures
from nova import objects
from nova.scheduler.filters import compute_capabilities_filter
from nova.scheduler import host_manager

from tests.unit import base

HERE = os.path.dirname(__file__)
CLOUD = os.path.join(HERE, 'devstack', 'cloud.py')
EXERCISE = os.path.join(HERE, '..', '..', 'devstack', 'exercise.sh')


class ExerciseTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.root = self.useFixture(fixtures.TempDir()).path
        self.log = self.path('log')
        open(self.log, 'w').close()
        self.cloud = {
            'hosts': ['host1', 'host2', 'host3'], 'flavors': {}, 'servers': {},
            'images': ['an-image'], 'guard': '101', 'stays': False,
            'refuses_smaller_disk': True, 'always_alerts': False, 'seen': []}
        with open(self.path('openstack'), 'w') as command:
            command.write('#!/bin/sh\nexec %s -I %s openstack "$@"\n'
                          % (sys.executable, CLOUD))
        os.chmod(self.path('openstack'), 0o755)
        self.mysql = '%s -I %s mysql' % (sys.executable, CLOUD)

    def path(self, name):
        return os.path.join(self.root, name)

    def run_exercise(self, *options, **cloud):
        with open(self.path('cloud'), 'w') as cloud_file:
            json.dump({**self.cloud, **cloud}, cloud_file)
        result = subprocess.run(
            ['bash', EXERCISE, '--log', self.log, '--timeout', '1', *options],
            env={**os.environ, 'CLOUD': self.path('cloud'),
                 'CLOUD_LOG': self.log,
                 'PATH': self.root + os.pathsep + os.environ['PATH']},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with open(self.path('cloud')) as cloud_file:
            self.cloud = json.load(cloud_file)
        return result

    def passes(self, *options, **cloud):
        result = self.run_exercise(*options, **cloud)
        self.assertEqual(0, result.returncode, result.stdout + result.stderr)
        self.assert_cleaned_up()
        return result.stdout

    def fails(self, *options, **cloud):
        result = self.run_exercise(*options, **cloud)
        self.assertEqual(1, result.returncode, result.stdout)
        self.assert_cleaned_up()
        return result.stderr

    def assert_cleaned_up(self):
        self.assertEqual({}, self.cloud['servers'])
        self.assertEqual({}, self.cloud['flavors'])

    def test_corrected(self):
        said = self.passes()
        self.assertIn('saw SPECGUARD-101, the server is on host1', said)
        self.assertIn('saw SPECGUARD-101, the server is on host2', said)
        self.assertIn('operation=live-migration instance=', said)

    def test_corrected_with_two_hosts(self):
        self.passes(hosts=['host1', 'host2'])

    def test_hosts(self):
        self.assertIn('saw SPECGUARD-103, the server is on host1',
                      self.passes('--hosts', 'host2,host3,host1',
                                  '--expect', '103', guard='103'))

    def test_drift_by_the_database(self):
        said = self.passes('--database', self.mysql,
                           refuses_smaller_disk=False)
        self.assertIn('saw SPECGUARD-101', said)

    def test_refused(self):
        self.assertIn('saw SPECGUARD-102, the server is on host2',
                      self.passes('--expect', '102', guard='102'))

    def test_allowed(self):
        """The breach: where the stale flavor wants it."""
        self.assertIn('saw SPECGUARD-103, the server is on host3',
                      self.passes('--expect', '103', guard='103'))

    def test_without_the_guard(self):
        self.assertIn('now on host3', self.fails(guard=None))

    def test_other_code(self):
        self.assertIn('expected SPECGUARD-101', self.fails(guard='103'))

    def test_wrong_host(self):
        """The alert alone is not enough."""
        self.assertIn('is on host1 and should be on host2',
                      self.fails(stays=True))

    def test_alert_for_a_healthy_move(self):
        self.assertIn('a healthy move raised an alert: SPECGUARD-101',
                      self.fails(always_alerts=True))

    def test_driver_that_takes_a_smaller_disk(self):
        self.assertIn('there is no drift; use --database',
                      self.fails(refuses_smaller_disk=False))

    def test_one_host(self):
        self.assertIn('a move needs two', self.fails(hosts=['host1']))

    def test_no_image(self):
        self.assertIn('name one with --image', self.fails(images=[]))

    def test_no_log(self):
        self.assertEqual(
            2, self.run_exercise('--log', self.path('none')).returncode)

    def test_unknown_code(self):
        self.assertEqual(
            2, self.run_exercise('--expect', '301').returncode)

    def test_nova_reads_the_flavors_so(self):
        self.passes()
        right, stale = self.cloud['seen']
        self.assertEqual(['host1', 'host2'], self.passing(right))
        self.assertEqual(['host3'], self.passing(stale))

    def passing(self, wanted):
        """The hosts that nova's filter lets through."""
        spec = objects.RequestSpec(flavor=objects.Flavor(
            extra_specs={'capabilities:host': wanted}))
        host_filter = compute_capabilities_filter.ComputeCapabilitiesFilter()
        return [host for host in ('host1', 'host2', 'host3')
                if host_filter.host_passes(
                    host_manager.HostState(host, host, None), spec)]
