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


"""Worker processes: SIGHUP and fork, with real ones.

Under nova's own launcher, with eventlet and, where this nova has them, with
native threads.
"""

import inspect
import json
import os
import signal
import subprocess
import sys

import fixtures
from nova import monkey_patch
import testtools

from tests.unit import base
from tests.unit import test_plugin

# A limit if a process should hang.
TIMEOUT = 120
WORKERS = 2
# nova/service.py itself imports eventlet in those without it.
HAS_NATIVE_THREADS = 'backend' in inspect.signature(
    getattr(monkey_patch, 'patch', lambda: None)).parameters


class WorkersTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.Timeout(TIMEOUT, gentle=True))
        self.path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'nova.conf')

    def write(self, options):
        with open(self.path, 'w') as config_file:
            config_file.write(
                test_plugin.CONFIG + '[specguard]\n' + options + '\n')

    def start(self, native_threads, options='mode = enforce'):
        self.write(options)
        script = os.path.join(os.path.dirname(__file__), 'worker_service.py')
        log = open(self.path + '.log', 'w+')
        self.addCleanup(log.close)
        # In a session of its own: native workers are signalled by their
        # process group.
        self.service = subprocess.Popen(
            [sys.executable, '-W', 'ignore', script, 'nova.cmd.conductor',
             self.path, str(WORKERS)],
            env=dict(
                os.environ,
                OS_NOVA_DISABLE_EVENTLET_PATCHING=str(native_threads).lower(),
                PYTHONPATH=os.pathsep.join(sys.path)),
            stdout=subprocess.PIPE, stderr=log, text=True,
            start_new_session=True)
        self.addCleanup(self.service.stdout.close)
        self.addCleanup(self.stop)
        self.addOnException(lambda _exc_info: self.attach(log))

    def attach(self, log):
        log.seek(0)
        self.addDetail('log', testtools.content.text_content(
            ''.join(log.readlines()[-30:])))

    def stop(self):
        try:
            os.killpg(self.service.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.service.wait()

    def told(self, wanted):
        """What the workers tell: one line of each, others are left out."""
        found = {}
        while len(found) < WORKERS:
            line = self.service.stdout.readline()
            self.assertNotEqual('', line, 'the service has ended')
            values = json.loads(line)
            # of this service, not of a successor
            self.assertIn(self.service.pid, (values['main'], values['pid']))
            if wanted(values):
                found[values['pid']] = values
        return list(found.values())

    def told_mode(self, mode, has_problems=False):
        return self.told(lambda values: (
            values.get('mode') == mode and
            bool(values['problems']) == has_problems))

    def sighup(self, options):
        self.write(options)
        os.kill(self.service.pid, signal.SIGHUP)


class EventletTest(WorkersTestCase):

    native_threads = False

    def test_options_change_at_sighup(self):
        self.start(self.native_threads)
        self.told_mode('enforce')
        self.sighup('mode = warn')
        self.told_mode('warn')

        # A typing error: what held goes on, and it is said.
        self.sighup('mode = disabled')
        for values in self.told_mode('warn', has_problems=True):
            (problem,) = values['problems']
            self.assertIn('disabled', problem)
            self.assertIn('warn is used', problem)

        self.sighup('mode = off')
        self.told_mode('off')
        self.assertIsNone(self.service.poll())

    def test_each_worker_writes_its_own_events(self):
        # The main process has some waiting, and a thread, when it forks.
        self.start(self.native_threads)
        events = self.told(lambda values: 'event' in values)
        self.assertEqual(['worker'] * WORKERS,
                         [values['event'] for values in events])
        self.assertNotIn(self.service.pid,
                         [values['pid'] for values in events])


@testtools.skipUnless(HAS_NATIVE_THREADS, 'this nova has none')
class NativeThreadsTest(EventletTest):

    native_threads = True
