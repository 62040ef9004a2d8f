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

import json
import os
import subprocess
import sys
from unittest import mock

import fixtures
from nova.conductor import manager as conductor_manager
from nova.scheduler import request_filter as nova_request_filter
import oslo_messaging
from oslo_messaging import conffixture as messaging_conffixture
from oslo_messaging.notify import _impl_test
from oslo_messaging.notify import notifier

import nova.conf
from nova_specguard import plugin
from nova_specguard.scheduler import request_filter
from tests.unit import base

CONDUCTOR_HOOKS = ['_cold_migrate', '_live_migrate', 'rebuild_instance',
                   'select_destinations', 'unshelve_instance']
REQUEST_FILTER = ('nova_specguard.scheduler.request_filter.'
                  'verify_request_spec')
CONFIG = """
[DEFAULT]
transport_url = fake:/
[api_database]
connection = sqlite://
[database]
connection = sqlite://
[notifications]
notification_format = both
[oslo_messaging_notifications]
driver = messagingv2
driver = specguard
"""


class ServiceTestCase(base.TestCase):
    """A process of its own, since a service is known by what it imports."""

    def start(self, command, *arguments, options=''):
        path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'nova.conf')
        with open(path, 'w') as config_file:
            config_file.write(CONFIG + options)
        # Each service decides itself between eventlet and native threads.
        environment = {
            name: value for name, value in os.environ.items()
            if name != 'OS_NOVA_DISABLE_EVENTLET_PATCHING'}
        script = os.path.join(os.path.dirname(__file__), 'service.py')
        return subprocess.run(
            [sys.executable, '-W', 'ignore', script, command, path,
             *arguments],
            env=environment, capture_output=True, text=True, timeout=300)

    def report(self, command, **kwargs):
        finished = self.start(command, **kwargs)
        self.assertEqual(0, finished.returncode, finished.stderr)
        report = json.loads(finished.stdout.splitlines()[-1])
        if report['native_threads']:
            # nova 34, where importing it would raise.
            self.assertFalse(report['eventlet'])
        return report


class ConductorServiceTest(ServiceTestCase):

    def test_conductor_gets_the_wrappers_and_nothing_else(self):
        report = self.report('nova.cmd.conductor')
        self.assertEqual(CONDUCTOR_HOOKS, report['wrapped'])
        self.assertNotIn(REQUEST_FILTER, report['request_filters'])


class SchedulerServiceTest(ServiceTestCase):

    def test_scheduler_gets_the_request_filter_and_nothing_else(self):
        report = self.report('nova.cmd.scheduler')
        self.assertEqual([], report['wrapped'])
        # Constructed twice with ``both``.
        self.assertEqual(REQUEST_FILTER, report['request_filters'][0])
        self.assertEqual(1, report['request_filters'].count(REQUEST_FILTER))


class OtherServicesTest(ServiceTestCase):

    def test_compute_gets_nothing(self):
        report = self.report('nova.cmd.compute')
        self.assertEqual([], report['wrapped'])
        self.assertNotIn(REQUEST_FILTER, report['request_filters'])
        # Not even imported: nova-compute has no use for it.
        self.assertEqual(['nova_specguard', 'nova_specguard.plugin'],
                         report['guard'])


class RequireAllHooksServiceTest(ServiceTestCase):

    def test_service_does_not_start_where_a_hook_does_not_fit(self):
        finished = self.start(
            'nova.cmd.conductor', 'unshelve_instance',
            options='[specguard]\nrequire_all_hooks = true\n')
        self.assertEqual(1, finished.returncode, finished.stderr)
        self.assertEqual('', finished.stdout)
        message = finished.stderr.splitlines()[-1]
        for word in ('SPECGUARD-203', 'unshelve_instance', 'nova-conductor'):
            self.assertIn(word, message)


class DriverTest(base.TestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(base.Nova())
        self.useFixture(messaging_conffixture.ConfFixture(nova.conf.CONF))
        self.conf.config(transport_url='fake:/')

    def run_as(self, *commands):
        """The process is this service, or several for a test."""
        for name in list(sys.modules):
            if name.startswith('nova.cmd.'):
                self.addCleanup(sys.modules.__setitem__, name,
                                sys.modules.pop(name))
        for name in commands:
            sys.modules[name] = mock.Mock()
            self.addCleanup(sys.modules.pop, name)

    def driver(self):
        return plugin.Driver(nova.conf.CONF, ['notifications'], None)

    def notifier(self):
        transport = oslo_messaging.get_notification_transport(nova.conf.CONF)
        self.conf.config(group='oslo_messaging_notifications',
                         driver=['test', 'specguard'])
        return oslo_messaging.Notifier(transport, publisher_id='test')

    def is_in_scheduler(self):
        return (request_filter.verify_request_spec in
                nova_request_filter.ALL_REQUEST_FILTERS)

    def unshelve(self):
        return vars(conductor_manager.ComputeTaskManager)['unshelve_instance']

    def test_nothing_is_put_in_place_elsewhere(self):
        before = self.unshelve()
        self.run_as('nova.cmd.compute', 'nova.cmd.manage')
        self.driver()
        self.assertIs(before, self.unshelve())
        self.assertFalse(self.is_in_scheduler())

    def test_program_that_is_both(self):
        before = self.unshelve()
        self.run_as('nova.cmd.conductor', 'nova.cmd.scheduler')
        self.driver()
        self.assertIsNot(before, self.unshelve())
        self.assertTrue(self.is_in_scheduler())

    def test_constructing_it_again_changes_nothing(self):
        self.run_as('nova.cmd.conductor', 'nova.cmd.scheduler')
        self.driver()
        once = self.unshelve()
        filters = list(nova_request_filter.ALL_REQUEST_FILTERS)
        self.driver()
        self.assertIs(once, self.unshelve())
        self.assertEqual(filters, nova_request_filter.ALL_REQUEST_FILTERS)

    def test_it_is_a_driver_that_sends_nothing(self):
        driver = self.driver()
        self.assertIsInstance(driver, notifier.Driver)
        self.assertIsNone(driver.notify({}, {'payload': 1}, 'INFO', -1))

    def test_drivers_beside_it_still_send(self):
        _impl_test.reset()
        self.addCleanup(_impl_test.reset)
        self.notifier().info({}, 'compute.instance.update', {})
        self.assertEqual(1, len(_impl_test.NOTIFICATIONS))

    def test_configuration_finds_it_by_its_name(self):
        with mock.patch.object(
                plugin.Driver, '__init__', autospec=True,
                return_value=None) as constructed:
            self.notifier()
        self.assertEqual(1, constructed.call_count)


class InstallTest(base.TestCase):
    """For tests, and for programs that embed nova's services."""

    def setUp(self):
        super().setUp()
        self.useFixture(base.Nova())

    def test_everything_is_put_in_place_without_arguments(self):
        before = dict(vars(conductor_manager.ComputeTaskManager))
        plugin.install()
        after = vars(conductor_manager.ComputeTaskManager)
        for name in base.Nova.METHODS:
            self.assertIsNot(before[name], after[name])
        self.assertIs(request_filter.verify_request_spec,
                      nova_request_filter.ALL_REQUEST_FILTERS[0])

    def test_again_changes_nothing(self):
        plugin.install()
        once = dict(vars(conductor_manager.ComputeTaskManager))
        filters = list(nova_request_filter.ALL_REQUEST_FILTERS)
        plugin.install()
        self.assertEqual(once, dict(vars(
            conductor_manager.ComputeTaskManager)))
        self.assertEqual(filters, nova_request_filter.ALL_REQUEST_FILTERS)
