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

"""The phases of the DevStack plugin, on real files.

``devstack/functions.sh`` stands for DevStack's functions, ``devstack/run.sh``
for the order in which stack.sh, unstack.sh and clean.sh do things.
"""

import os
import re
import subprocess

import fixtures
from nova.conf import scheduler as scheduler_conf
from nova.scheduler import filters
from oslo_config import cfg
import oslo_messaging

from nova_specguard import conf as specguard_conf
from nova_specguard import plugin
from tests.unit import base

HERE = os.path.dirname(__file__)
RUN = os.path.join(HERE, 'devstack', 'run.sh')
README = os.path.join(HERE, '..', '..', 'devstack', 'README.rst')
TWO_CELLS = 'NOVA_NUM_CELLS=2'
ONE_CONDUCTOR = 'CELLSV2_SETUP=singleconductor'
COMPUTE_ONLY = 'ENABLED_SERVICES=n-cpu,q-agt'


class DevStackTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        # Loading filters and drivers puts the guard in place.
        self.useFixture(base.Nova())
        self.root = self.useFixture(fixtures.TempDir()).path
        self.path = os.path.join(self.root, 'nova')

    def run_devstack(self, command, local_conf):
        with open(os.path.join(self.root, 'local.conf'), 'w') as local:
            local.write(local_conf)
        return subprocess.run(
            ['bash', RUN, command], env={**os.environ, 'ROOT': self.root},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def succeed(self, command, *localrc, post_config=''):
        result = self.run_devstack(command, '\n'.join(
            ['[[local|localrc]]', *localrc, post_config, '']))
        self.assertEqual(0, result.returncode, result.stderr)

    def fail(self, *localrc, post_config=''):
        """Stacking fails.

        :returns: what it says
        """
        result = self.run_devstack('stack', '\n'.join(
            ['[[local|localrc]]', *localrc, post_config, '']))
        self.assertNotEqual(0, result.returncode)
        return result.stderr

    def read(self, name):
        """A file as nova's services read it."""
        conf = cfg.ConfigOpts()
        scheduler_conf.register_opts(conf)
        conf.register_opts(specguard_conf.OPTS, group=specguard_conf.GROUP)
        conf(['--config-file', os.path.join(self.path, name)], project='nova',
             default_config_files=[], default_config_dirs=[])
        return conf

    def text(self, name):
        with open(os.path.join(self.root, name)) as text_file:
            return text_file.read()

    def drivers(self, name):
        """The notification drivers that a service with this file has."""
        conf = self.read(name)
        transport = oslo_messaging.get_notification_transport(
            conf, url='fake:/')
        notifier = oslo_messaging.Notifier(transport, 'test')
        return [extension.obj for extension in notifier._driver_mgr]

    def assert_guarded_conductor(self, name):
        self.assertEqual(
            1, sum(isinstance(driver, plugin.Driver)
                   for driver in self.drivers(name)))
        self.assertEqual('enforce', self.read(name).specguard.mode)
        self.assertTrue(self.read(name).specguard.require_all_hooks)

    def assert_guarded_scheduler(self):
        """nova finds each enabled filter among the available ones."""
        options = self.read('nova.conf').filter_scheduler
        available = {
            found.__name__ for found in
            filters.HostFilterHandler().get_matching_classes(
                options.available_filters)}
        self.assertEqual('SpecGuardFilter', options.enabled_filters[0])
        self.assertLessEqual(set(options.enabled_filters), available)

    def assert_untouched(self, name):
        self.assertNotRegex(
            self.text(os.path.join('nova', name)),
            r'(?i)driver = specguard|nova_specguard|\[specguard\]')


class StackTestCase(DevStackTestCase):

    def test_controller_with_two_cells(self):
        self.succeed('stack', TWO_CELLS)
        for name in ('nova.conf', 'nova_cell1.conf', 'nova_cell2.conf'):
            self.assert_guarded_conductor(name)
        self.assert_guarded_scheduler()

    def test_one_conductor(self):
        """nova_cell1.conf is there, and read by nobody."""
        self.succeed('stack', ONE_CONDUCTOR)
        self.assert_guarded_conductor('nova.conf')
        self.assert_guarded_scheduler()
        self.assert_untouched('nova_cell1.conf')

    def test_compute_only_node(self):
        self.succeed('stack', COMPUTE_ONLY)
        self.assert_untouched('nova.conf')
        self.assertNotIn('setup_develop', self.text('calls'))

    def test_cell_conductor_alone(self):
        self.succeed('stack', 'ENABLED_SERVICES=n-cond-cell2', TWO_CELLS)
        self.assert_guarded_conductor('nova_cell2.conf')
        self.assert_untouched('nova.conf')

    def test_scheduler_alone(self):
        self.succeed('stack', 'ENABLED_SERVICES=n-sch')
        self.assert_guarded_scheduler()

    def test_other_drivers_stay(self):
        self.succeed('stack')
        names = {type(driver).__module__ for driver in self.drivers(
            'nova.conf')}
        self.assertEqual({'oslo_messaging.notify.messaging',
                          'nova_specguard.plugin'}, names)

    def test_waits_for_the_background_job(self):
        """Which would lose what is written, and be lost, otherwise."""
        self.succeed('stack')
        self.assertIn('[neutron]', self.text('nova/nova.conf'))
        self.assertIn('[neutron]', self.text('nova/nova_cell1.conf'))

    def test_installs_the_package(self):
        self.succeed('stack')
        self.assertIn('setup_develop nova-specguard', self.text('calls'))

    def test_mode(self):
        self.succeed('stack', 'SPECGUARD_MODE=warn')
        self.assertEqual('warn', self.read('nova.conf').specguard.mode)

    def test_wrong_mode(self):
        self.assertIn('SPECGUARD_MODE=enforced is wrong; write enforce, warn',
                      self.fail('SPECGUARD_MODE=enforced'))

    def test_tempest_knows_the_filters(self):
        self.succeed(
            'stack', 'ENABLED_SERVICES=n-sch,tempest', post_config="""
[[post-config|$NOVA_CONF]]
[filter_scheduler]
enabled_filters = SpecGuardFilter, ComputeFilter
""")
        self.assertIn(
            'scheduler_enabled_filters = SpecGuardFilter,ComputeFilter\n',
            self.text('tempest.conf'))

    def test_readme(self):
        """Each local.conf of the README stacks."""
        with open(README) as readme:
            blocks = re.findall(
                r'\.\. code-block:: ini\n\n((?:    .*\n|\n)+)', readme.read())
        confs = [re.sub('(?m)^    ', '', block) for block in blocks
                 if '[[local|localrc]]' in block]
        self.assertEqual(3, len(confs))
        for local_conf in confs:
            local_conf = re.sub('(?m)^enable_.*', '', local_conf)
            result = self.run_devstack('stack', local_conf)
            self.assertEqual(0, result.returncode, result.stderr)


class AgainTestCase(DevStackTestCase):

    def files(self):
        return {name: self.text(os.path.join('nova', name))
                for name in os.listdir(self.path)}

    def test_stacked_twice(self):
        self.succeed('stack', TWO_CELLS)
        once = self.files()
        self.succeed('stack', TWO_CELLS)
        self.assertEqual(once, self.files())

    def test_unstacked_and_stacked(self):
        self.succeed('stack', TWO_CELLS)
        once = self.files()
        self.succeed('unstack', TWO_CELLS)
        self.succeed('stack', TWO_CELLS)
        self.assertEqual(once, self.files())

    def test_cleaned_and_stacked(self):
        self.succeed('stack', TWO_CELLS)
        once = self.files()
        self.succeed('clean', TWO_CELLS)
        self.succeed('stack', TWO_CELLS)
        self.assertEqual(once, self.files())

    def test_clean_leaves_nothing(self):
        self.succeed('stack', TWO_CELLS)
        self.assertIn('nova-cpu.conf', os.listdir(self.path))
        # With fewer cells than there were.
        self.succeed('clean')
        for name, text in self.files().items():
            self.assertNotIn('specguard', text.lower(), name)
        self.assertIn('pip_uninstall nova-specguard', self.text('calls'))

    def test_clean_leaves_the_rest(self):
        self.succeed('stack')
        self.succeed('clean')
        conf = self.read('nova.conf')
        self.assertEqual(
            ['ComputeFilter', 'ImagePropertiesFilter', 'SameHostFilter'],
            conf.filter_scheduler.enabled_filters)
        self.assertEqual(['nova.scheduler.filters.all_filters'],
                         conf.filter_scheduler.available_filters)
        self.assertEqual(1, len(self.drivers('nova.conf')))
        self.assertIn('[neutron]', self.text('nova/nova.conf'))

    def test_clean_without_a_stack(self):
        self.succeed('clean')

    def test_clean_of_a_compute_only_node(self):
        self.succeed('stack', COMPUTE_ONLY)
        self.succeed('clean', COMPUTE_ONLY)


class OverriddenTestCase(DevStackTestCase):
    """local.conf is merged after the plugin has run."""

    def overridden(self, option, post_config, *localrc):
        """What to write: the lines after the first one of the error."""
        error = self.fail(*localrc, post_config=post_config)
        self.assertIn('%s in ' % option, error)
        self.assertIn('the guard is not in place', error)
        lines = error[error.index('ERROR: '):].splitlines()[1:]
        return '\n'.join(lines) + '\n'

    def test_enabled_filters(self):
        advice = self.overridden('[filter_scheduler] enabled_filters', """
[[post-config|$NOVA_CONF]]
[filter_scheduler]
enabled_filters = ComputeFilter, SameHostFilter
""")
        self.assertIn(
            'enabled_filters = SpecGuardFilter,ComputeFilter,SameHostFilter',
            advice)
        self.succeed('stack', post_config=advice)
        self.assert_guarded_scheduler()

    def test_available_filters(self):
        advice = self.overridden('[filter_scheduler] available_filters', """
[[post-config|$NOVA_CONF]]
[filter_scheduler]
available_filters = nova.scheduler.filters.all_filters
""")
        self.succeed('stack', post_config=advice)
        self.assert_guarded_scheduler()
        self.assertEqual(
            ['nova.scheduler.filters.all_filters',
             'nova_specguard.scheduler.all_filters'],
            self.read('nova.conf').filter_scheduler.available_filters)

    def test_driver(self):
        advice = self.overridden('[oslo_messaging_notifications] driver', """
[[post-config|$NOVA_CONF]]
[oslo_messaging_notifications]
driver = log
""")
        self.succeed('stack', post_config=advice)
        self.assert_guarded_conductor('nova.conf')
        self.assertEqual(2, len(self.drivers('nova.conf')))

    def test_driver_of_a_cell_conductor(self):
        post_config = """
[[post-config|%s/nova_cell2.conf]]
[oslo_messaging_notifications]
driver = log
""" % self.path
        advice = self.overridden(
            '[oslo_messaging_notifications] driver', post_config, TWO_CELLS)
        self.succeed('stack', TWO_CELLS, post_config=advice)
        self.assert_guarded_conductor('nova_cell2.conf')

    def test_filters_where_no_scheduler_runs(self):
        self.succeed('stack', COMPUTE_ONLY, post_config="""
[[post-config|$NOVA_CONF]]
[filter_scheduler]
enabled_filters = ComputeFilter
""")

    def test_own_options_win(self):
        self.succeed('stack', 'SPECGUARD_MODE=enforce', post_config="""
[[post-config|$NOVA_CONF]]
[specguard]
mode = warn
""")
        self.assertEqual('warn', self.read('nova.conf').specguard.mode)
