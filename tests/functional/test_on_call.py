# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What the page for the person on call says, done.

A test does what one section says, in order, and fails if it leaves out a
command; CoverageTest fails if it is a whole section.
"""

import contextlib
import json
import os
import subprocess
import sys
import types
from unittest import mock

import ddt
import fixtures
from nova import context as nova_context
from nova import objects
from nova.tests.functional.api import client
from oslo_db import exception as db_exception
from oslotest import base as oslo_base

from nova_specguard.audit import audit
from nova_specguard.cmd import status
from nova_specguard import fields
from nova_specguard import instances
from nova_specguard.upgrade_check import databases
from tests.functional import base
from tests.functional import drifts
from tests.functional import fixtures as specguard_fixtures
from tests.functional import on_call
from tests.functional import test_faults
from tests.functional.world import A2_LARGE
from tests.functional.world import A2_MEDIUM
from tests.functional.world import E2_MEDIUM
from tests import pages
from tests.unit import test_plugin

DRIFT = 3
UNREADABLE = 2


def database_is_down(*args):
    raise db_exception.DBConnectionError()


class MoveTest(on_call.OnCallTestCase):
    """The reported case, and a move of it."""

    hosts = ('amd1', 'amd2', 'intel1')

    def setUp(self):
        super().setUp()
        self.about(self.drift_to_smaller_flavor())

    def move(self):
        self.live_migrate(self.server)

    def assert_healed(self, host):
        """The next move goes right, and nobody hears of it."""
        alerts = len(self.alerts.incidents)
        self.move()
        self.assert_runs(self.server, host, A2_MEDIUM)
        self.assertEqual(alerts, len(self.alerts.incidents))

    @pages.follows('Which server')
    def test_which_server(self):
        self.set_guard(correct=False)
        self.move()
        alert = specguard_fixtures.parse_alert(self.do('grep'))
        self.assertEqual('102', alert['code'])
        self.assertEqual(self.server['id'], alert['instance'])
        self.assert_events(self.server, 'specguard_refused')
        self.values['REQUEST_ID'] = alert['request_id']
        action = self.do('openstack')
        self.assertIn('specguard_refused',
                      [event['event'] for event in action['events']])

    @pages.follows('SPECGUARD-101')
    def test_corrected(self):
        self.move()
        self.assert_alert('101', self.server, 'live-migration', 'flavor')
        self.assertEqual(DRIFT, self.do('nova-specguard explain'))
        self.assertIn('e2.medium', self.stdout.getvalue())
        self.assertEqual(0, self.do('nova-specguard heal'))
        self.assertEqual(0, self.do('nova-specguard audit'))
        # nova's fake driver keeps a server that was migrated away.
        del self.computes['amd1'].driver.instances[self.server['id']]
        self.assert_healed('amd1')

    @pages.follows('SPECGUARD-102')
    def test_refused(self):
        self.set_guard(correct=False)
        self.move()
        self.assert_alert('102', self.server, 'live-migration', 'flavor')
        self.assert_runs(self.server, 'amd1', A2_MEDIUM)
        self.assertEqual(DRIFT, self.do('nova-specguard explain'))
        self.assertRegex(self.stdout.getvalue(),
                         r'resize \d+ to e2\.medium failed')
        self.assertEqual(0, self.do('nova-specguard heal'))
        self.assertEqual(0, self.do('nova-specguard audit'))
        self.assert_healed('amd2')

    @pages.follows('SPECGUARD-103')
    def test_allowed(self):
        self.set_guard(mode='warn')
        self.move()
        self.assertEqual('intel1', self.host_of(self.server))
        self.assert_alert('103', self.server, 'live-migration', 'flavor')
        # nova's fake driver keeps a server that was migrated away.
        del self.computes['amd1'].driver.instances[self.server['id']]
        self.assertEqual(DRIFT, self.do('nova-specguard audit'))
        for found in ('flavor-other', 'allocation'):
            self.assertIn(found, self.stdout.getvalue())
        self.assertEqual(0, self.do('nova-specguard heal'))
        self.do('openstack')
        self.assert_runs(self.server, 'amd1', A2_MEDIUM)

    @pages.follows('SPECGUARD-301')
    def test_found(self):
        self.assertEqual(DRIFT, self.do('nova-specguard audit'))
        self.assertIn('flavor-other', self.stdout.getvalue())
        self.assert_alerts(self.server, 'audit', ('301', 'flavor'))
        self.assertEqual(DRIFT, self.do('nova-specguard explain'))
        self.assertEqual(DRIFT, self.do('nova-specguard heal'))
        self.assertIn('would be healed', self.stdout.getvalue())
        self.assertEqual('e2.medium', self.spec_flavor(self.server))

    @pages.follows('SPECGUARD-302')
    def test_healed(self):
        self.run_nova_specguard('nova-specguard heal')
        self.values['JOURNAL'], = (
            name for name in os.listdir(self.directory)
            if name.endswith('.jsonl'))
        self.assertEqual(0, self.do('nova-specguard audit'))
        self.assertEqual(0, self.do('nova-specguard restore --dry-run'))
        self.assertEqual('a2.medium', self.spec_flavor(self.server))
        self.assertEqual(0, self.do('nova-specguard restore'))
        self.assertEqual('e2.medium', self.spec_flavor(self.server))

    @pages.follows('Allocation of another size')
    def test_allocation(self):
        with self.unguarded():
            self.move()
        self.run_nova_specguard('nova-specguard heal')
        allocation, = self.do('openstack').values()
        self.assertEqual(E2_MEDIUM.resources, allocation['resources'])
        self.assertIn('[dry-run]', self.do('nova-manage'))
        self.assert_allocation(self.server, 'intel1', E2_MEDIUM.resources)
        self.do('nova-manage')
        self.assert_allocation(self.server, 'intel1', A2_MEDIUM.resources)

    @pages.follows('Switch it off')
    def test_off(self):
        self.set_guard(correct=False)
        self.do('[specguard]\nmode = off')
        self.do('kill')
        self.move()
        self.assert_no_alert()
        self.assertEqual('intel1', self.host_of(self.server))

    @pages.follows('Let one kind of move through')
    def test_let_through(self):
        healthy = self.boot(host='amd1')
        self.set_guard(correct=False)
        self.do('[specguard]\noperation_modes = live-migration:warn')
        self.do('kill')
        self.move()
        self.assert_alert('103', self.server, 'live-migration', 'flavor')
        self.assertEqual('intel1', self.host_of(self.server))

        self.do('[specguard]\non_unverifiable = allow')
        self.do('kill')
        self.guard_reads_with(test_faults.unreadable)
        self.live_migrate(healthy)
        alert = self.alerts.incidents[-1]
        self.assertEqual(('201', 'allowed'),
                         (alert['code'], alert['outcome']))
        self.assert_runs(healthy, 'amd2', A2_MEDIUM)

    @pages.follows('Many refused moves')
    def test_storm(self):
        self.set_guard(correct=False)
        self.move()
        self.move()
        self.migrate(self.boot(host='amd1'))
        self.assertEqual(
            ['2', 'SPECGUARD-102', 'operation=live-migration'],
            self.do('grep').split())


class FaultTest(on_call.OnCallTestCase):
    """What has to be mended outside of the server's rows."""

    hosts = ('amd1', 'amd2', 'amd3-numa')

    def setUp(self):
        super().setUp()
        self.about(self.boot(host='amd1'))

    @contextlib.contextmanager
    def cell_down(self):
        """For the guard and its commands."""
        broken = types.SimpleNamespace(**vars(nova_context))
        broken.target_cell = database_is_down
        with contextlib.ExitStack() as stack:
            for module in (instances, audit, databases):
                stack.enter_context(mock.patch.object(
                    module, 'nova_context', broken))
            yield

    @pages.follows('SPECGUARD-201')
    def test_unverifiable(self):
        with self.cell_down():
            self.live_migrate(self.server)
            self.assert_incidents(('201', 'live-migration', 'refused'))
            result, details = self.do('nova-specguard-status')['Databases']
            self.assertEqual('FAILURE', result)
            self.assertIn('cell1', details)
            self.assertEqual(UNREADABLE, self.do('nova-specguard audit'))
            self.assertIn('cell1', self.stderr.getvalue())
        self.do('openstack')
        self.assert_runs(self.server, 'amd2', A2_MEDIUM)

    @pages.follows('SPECGUARD-202')
    def test_fault(self):
        with mock.patch.object(fields, 'differences', side_effect=KeyError):
            self.live_migrate(self.server)
        self.assert_runs(self.server, 'amd2', A2_MEDIUM)
        text = self.do('grep')
        for word in ('SPECGUARD-202', 'Traceback', 'KeyError'):
            self.assertIn(word, text)
        self.assertEqual('SUCCESS', self.do('nova-specguard-status')[
            'Hooks'][0])
        self.assertEqual(0, self.do('nova-specguard audit'))

    @pages.follows('SPECGUARD-203')
    def test_misconfigured(self):
        self.write_config('[specguard]\nmode = enforced\n')
        self.run_kill('kill -HUP MAIN_PID')
        self.live_migrate(self.server)
        self.assertIn("found 'enforced'", self.do('grep'))
        result, details = self.do('nova-specguard-status')['Options']
        self.assertEqual('FAILURE', result)
        self.write_config('[specguard]\nmode = warn\n')
        self.do('kill')
        self.assertEqual(
            ('SUCCESS', 'All values are valid; mode = warn.'),
            self.run_nova_specguard_status(
                'nova-specguard-status upgrade check')['Options'])

    @pages.follows('SPECGUARD-303')
    def test_not_healed(self):
        self.about(self.refuse_rebuild())
        self.assertEqual(DRIFT, self.run_nova_specguard('nova-specguard heal'))
        self.assert_alerts(self.server, 'heal', ('303', 'image'))
        self.assertIn('rebuild', self.alerts.incidents[0]['reason'])
        self.assertIsNone(self.do('openstack')['OS-EXT-STS:task_state'])
        self.assertEqual(DRIFT, self.do('nova-specguard explain'))
        self.assertIn('rebuild req-', self.stdout.getvalue())
        # What mends it.
        self.rebuild(self.server, drifts.LINUX_IMAGE)
        self.assertEqual(0, self.do('nova-specguard heal'))
        self.assertEqual(0, self.run_nova_specguard('nova-specguard audit'))

    @pages.follows('The audit does not run')
    def test_audit(self):
        self.assertEqual(0, self.do('nova-specguard audit'))
        with open(os.path.join(
                self.directory, 'nova-specguard.prom')) as written:
            self.assertRegex(
                written.read(),
                r'nova_specguard_audit_last_run_timestamp_seconds \d+\n')

    @pages.follows('The upgrade check fails')
    def test_upgrade_check(self):
        result, details = self.do('nova-specguard-status')[
            'Notification drivers']
        self.assertEqual('FAILURE', result)
        self.assertIn('Add the line beside', details)
        self.flags(group='oslo_messaging_notifications',
                   driver=['noop', 'specguard'])
        self.assertEqual('SUCCESS', self.run_nova_specguard_status(
            'nova-specguard-status upgrade check')['Notification drivers'][0])


class UnguardedSchedulerTest(on_call.OnCallTestCase):
    """Somebody has set enabled_filters, and left the guard out."""

    hosts = ('amd1',)
    conductor_is_guarded = False
    # It has said nothing at its start: there is no line for the guard.
    stderr_of_services = ''

    def _configure_nova(self):
        super()._configure_nova()
        self.flags(
            group='filter_scheduler', enabled_filters=base.NOVA_FILTERS,
            available_filters=['nova.scheduler.filters.all_filters'])

    @pages.follows('SPECGUARD-001')
    def test_scheduler(self):
        self.boot(host='amd1')
        self.assertEqual('', self.do('grep'))
        self.assertEqual('FAILURE', self.do('nova-specguard-status')[
            'Scheduler filter'][0])
        self.assertEqual([], self.do('journalctl'))


class UnguardedServiceTest(pages.Reader, test_plugin.ServiceTestCase):
    """nova-conductor, in whose environment the package is broken."""

    def setUp(self):
        super().setUp()
        package = os.path.join(self.directory, 'nova_specguard')
        os.mkdir(package)
        with open(os.path.join(package, '__init__.py'), 'w') as module:
            module.write('raise ImportError("no module named x")\n')
        self.config_file = os.path.join(self.directory, 'nova.conf')
        with open(self.config_file, 'w') as written:
            written.write(test_plugin.CONFIG)

    run_journalctl = on_call.OnCallTestCase.run_journalctl

    def run_nova_specguard_status(self, text):
        ended = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c',
             'import sys; from nova_specguard.cmd import status; '
             'sys.exit(status.main())', '--config-file', self.config_file,
             *text.split()[1:], '--json'], capture_output=True, text=True)
        return {check['check']: check['result']
                for check in json.loads(ended.stdout)['checks']}

    @pages.follows('A service without the guard')
    def test_service(self):
        self.useFixture(fixtures.EnvironmentVariable(
            'PYTHONPATH', os.pathsep.join([self.directory, *sys.path])))
        finished = self.start('nova.cmd.conductor')
        self.assertEqual(0, finished.returncode, finished.stderr)
        self.assertEqual([], json.loads(
            finished.stdout.splitlines()[-1])['wrapped'])
        self.stderr_of_services = finished.stderr
        self.assertIn("'specguard'", self.do('journalctl')[0])
        # The package is installed.
        self.useFixture(fixtures.EnvironmentVariable(
            'PYTHONPATH', os.pathsep.join(sys.path)))
        self.assertEqual(0, self.do('nova-specguard-status')[
            'Notification drivers'])


@ddt.ddt
class UnseenTest(on_call.OnCallTestCase):
    """Specs that nova-api itself cannot load."""

    hosts = ('amd1', 'amd2')

    def setUp(self):
        super().setUp()
        self.about(self.boot(host='amd1'))

    def break_spec(self, kind):
        uuid = self.server['id']
        if kind == 'missing':
            objects.RequestSpec._destroy_in_db(self.context, uuid)
            return
        row = self.spec_row(self.server)
        if kind == 'newer':
            row['nova_object.version'] = '1.999'
        text = {'newer': json.dumps(row), 'cut off': json.dumps(row)[:500],
                'foreign': '{}'}[kind]
        objects.RequestSpec._save_in_db(self.context, uuid, {'spec': text})

    def assert_500(self, name, call, *args):
        """The API names the class of the error."""
        error = self.assertRaises(client.OpenStackApiException, call, *args)
        self.assertEqual(500, error.response.status_code)
        self.assertIn("<class '%s'>" % name, error.response.text)

    @ddt.data(
        ('missing', 'nova.exception.RequestSpecNotFound', 'spec-missing'),
        ('newer', 'oslo_versionedobjects.exception.IncompatibleObjectVersion',
         'spec-newer'),
        ('cut off', 'json.decoder.JSONDecodeError', 'spec-unreadable'),
        ('foreign', 'KeyError', 'spec-unreadable'))
    @ddt.unpack
    @pages.follows('A spec that no guard can see')
    def test_api(self, kind, name, drift_class):
        with open(os.path.join(pages.SOURCE, pages.ON_CALL)) as page:
            self.assertIn('``%s``' % name, page.read())
        self.break_spec(kind)
        self.assert_500(name, self.live_migrate, self.server)
        self.assert_no_alert()
        self.assertIn(name + ': ', self.do('grep'))
        self.assertEqual(DRIFT, self.do('nova-specguard audit'))
        self.assertIn(drift_class, self.stdout.getvalue())
        self.assertEqual([self.server['id']], [
            server['id'] for server in self.do('openstack')])
        if kind != 'missing':
            self.assert_500(name, self.run_openstack,
                            'openstack --os-compute-api-version 2.96 '
                            'server list --all-projects')

    def test_what_goes_on_and_what_does_not(self):
        name = 'nova.exception.RequestSpecNotFound'
        resized = self.resize(self.boot(host='amd1'), A2_LARGE)
        offloaded = self.shelve(self.boot(host='amd1'))
        for server in (self.server, resized, offloaded):
            objects.RequestSpec._destroy_in_db(self.context, server['id'])
        self.stop(self.server)
        self.start(self.server)
        for move in (self.live_migrate, self.migrate, self.rebuild):
            self.assert_500(name, move, self.server)
        self.assert_500(name, self.resize, self.server, A2_LARGE)
        self.assert_500(name, self.revert, resized)
        self.assert_500(name, self.unshelve, offloaded)
        self.assertEqual('ACTIVE', self.show(self.server)['status'])
        self.assert_500(name, self.evacuate, self.server)
        self.computes['amd1'].start()
        self._delete_server(self.server)
        self.assert_no_alert()


class CoverageTest(oslo_base.BaseTestCase):

    def test_nothing_on_the_page_is_left_out(self):
        done = {
            test.section for case in (
                MoveTest, FaultTest, UnguardedSchedulerTest,
                UnguardedServiceTest, UnseenTest)
            for test in vars(case).values() if hasattr(test, 'section')}
        titles = {block.section for block in pages.blocks(pages.ON_CALL)}
        titles.remove('Silence it')  # tests.alerting.test_silence
        self.assertEqual(done, {
            title for title in titles if pages.steps(pages.ON_CALL, title)})

    def test_names_of_the_upgrade_check(self):
        with open(os.path.join(pages.SOURCE, pages.ON_CALL)) as page:
            text = page.read()
        for name in ('Scheduler filter', 'Notification drivers', 'Hooks'):
            self.assertIn(name, dict(status.CHECKS))
            self.assertIn('``%s``' % name.lower().replace(' ', '_'), text)
