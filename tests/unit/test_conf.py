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

import dataclasses
import logging
import os

import fixtures
import nova.conf
from oslo_config import cfg

from nova_specguard import alerts
from nova_specguard import conf
from nova_specguard import operation
from tests.unit import base

CONF = nova.conf.CONF

DEFAULTS = {
    'mode': 'enforce',
    'operation_modes': {},
    'field_modes': {'flavor_extra_specs': 'warn', 'availability_zone': 'warn'},
    'correct': True,
    'ignored_extra_specs': [],
    'on_unverifiable': 'refuse',
    'lookup_timeout': 10,
    'require_all_hooks': False,
    'summary_interval': 600,
}

GOOD = {
    'mode': [
        ('enforce', 'enforce'), ('warn', 'warn'), ('off', 'off'),
        ('"warn"', 'warn')],
    'operation_modes': [
        ('', {}), ('evacuate:enforce', {'evacuate': 'enforce'}),
        ('live-migration:off, migrate:warn,resize : enforce',
         {'live-migration': 'off', 'migrate': 'warn', 'resize': 'enforce'}),
        ('unshelve:warn,rebuild:off', {'unshelve': 'warn', 'rebuild': 'off'})],
    'field_modes': [
        # Writing the option replaces the whole default.
        ('', {}), ('flavor:warn', {'flavor': 'warn'}),
        ('flavor_extra_specs:enforce,numa_topology:off,pci_requests:warn',
         {'flavor_extra_specs': 'enforce', 'numa_topology': 'off',
          'pci_requests': 'warn'}),
        # One configuration has to do for audit and for later releases too.
        ('image:off,project:off,scheduler_hints:off,instance_group:off,'
         'availability_zone:off,is_bfv:off,disk:off',
         dict.fromkeys(('image', 'project', 'scheduler_hints',
                        'instance_group', 'availability_zone', 'is_bfv',
                        'disk'), 'off'))],
    'correct': [
        ('true', True), ('false', False), ('no', False), ('1', True)],
    'ignored_extra_specs': [
        ('', []), ('quota:*', ['quota:*']),
        ('quota:*, my:[ab]?', ['quota:*', 'my:[ab]?'])],
    'on_unverifiable': [('refuse', 'refuse'), ('allow', 'allow')],
    'lookup_timeout': [('1', 1), (' 7 ', 7), ('60', 60)],
    'require_all_hooks': [('true', True), ('off', False)],
    'summary_interval': [('1', 1), ('86400', 86400)],
}

_BAD_NUMBERS = (
    '', 'ten', '0', '-1', '1.5', '1e3', '10 s', '0x10', 'nan', 'inf', 'True')
_BAD_BOOLEANS = ('', 'maybe', '2', '-1', 'truee', 'true,false')
_BAD_PAIRS = (
    # unknown mode
    '%(name)s:disable', '%(name)s:ENFORCE', '%(name)s:', '%(name)s:warn:off',
    # unknown name, of which a part is right
    'boot:warn', 'unknown:warn', 'swap:warn', '%(name)s:warn,swap:off',
    '%(name)ss:warn',
    # malformed
    '%(name)s', '%(name)s=warn', ':warn', ':', ',', '%(name)s:warn,',
    '%(name)s:warn %(other)s:off', '{%(name)s:warn}',
    '%(name)s:warn,%(name)s:off')

BAD = {
    'mode': ('', 'enforced', 'ENFORCE', 'true', 'enforce,warn', '0'),
    'operation_modes': tuple(
        bad % {'name': 'evacuate', 'other': 'resize'} for bad in _BAD_PAIRS),
    'field_modes': tuple(
        bad % {'name': 'flavor', 'other': 'image'} for bad in _BAD_PAIRS),
    'correct': _BAD_BOOLEANS,
    # Any text is a glob pattern.
    'ignored_extra_specs': (),
    'on_unverifiable': ('', 'ignore', 'Refuse', 'refuse:allow', 'false'),
    'lookup_timeout': _BAD_NUMBERS + ('3601', '9' * 30, '9' * 5000),
    'require_all_hooks': _BAD_BOOLEANS,
    'summary_interval': _BAD_NUMBERS + ('9' * 5000,),
}


class ConfTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'nova.conf')

    def write(self, *lines):
        with open(self.path, 'w') as config_file:
            config_file.write('\n'.join(('[specguard]',) + lines) + '\n')

    def start(self, *lines):
        """A service starts with these lines."""
        self.write(*lines)
        CONF([], project='nova', default_config_files=[self.path],
             default_config_dirs=[])

    def sighup(self, *lines):
        self.write(*lines)
        CONF.mutate_config_files()

    def cases(self, table):
        return [(name, case) for name, cases in table.items()
                for case in cases]

    def fresh(self, *lines):
        """A ConfigOpts that has never seen the guard's options."""
        self.write(*lines)
        config = cfg.ConfigOpts()
        for group, opts in conf.list_opts():
            config.register_opts(opts, group=group)
        config([], project='nova', default_config_files=[self.path],
               default_config_dirs=[])
        return config


class DefaultsTest(ConfTestCase):

    def test_every_option_has_the_default_of_the_contract(self):
        self.start()
        options = dataclasses.asdict(conf.options())
        self.assertEqual((), options.pop('problems'))
        self.assertEqual(DEFAULTS, options)

    def test_nova_s_own_configuration_knows_every_option(self):
        self.assertEqual(set(DEFAULTS), set(CONF.specguard))

    def test_generator_is_given_every_option(self):
        ((group, opts),) = conf.list_opts()
        self.assertEqual('specguard', group)
        self.assertEqual(set(DEFAULTS), {opt.dest for opt in opts})

    def test_every_option_but_the_one_for_the_start_is_mutable(self):
        ((_group, opts),) = conf.list_opts()
        self.assertEqual(['require_all_hooks'],
                         [opt.dest for opt in opts if not opt.mutable])

    def test_every_option_has_a_help_text(self):
        ((_group, opts),) = conf.list_opts()
        self.assertEqual([], [opt.dest for opt in opts if not opt.help])


class GoodValuesTest(ConfTestCase):

    def test_good_values_are_taken_from_the_file(self):
        wrong = []
        for name, (text, value) in self.cases(GOOD):
            self.start('%s = %s' % (name, text))
            options = conf.options()
            if getattr(options, name) != value or options.problems:
                wrong.append((name, text, options))
        self.assertEqual([], wrong)

    def test_last_of_repeated_lines_holds(self):
        self.start('mode = off', 'mode = warn')
        self.assertEqual('warn', conf.options().mode)


class NamesTest(base.TestCase):

    def test_operations_are_those_that_the_guard_knows(self):
        self.assertEqual(set(conf.OPERATIONS) | {'unknown'},
                         {str(known) for known in operation.Operation})


class BadValuesTest(ConfTestCase):
    """Nothing raises, since a service reads all options when it starts."""

    def test_bad_value_at_start_is_replaced_by_the_default(self):
        wrong = []
        for name, text in self.cases(BAD):
            self.start('%s = %s' % (name, text))
            value = getattr(conf.options(), name)
            if value != DEFAULTS[name]:
                wrong.append((name, text[:40], value))
            # A bad value that was taken for a good one must not spoil the
            # cases after it.
            self.start()
            conf.options()
        self.assertEqual([], wrong)

    def test_problem_names_option_value_and_what_is_used(self):
        wrong = []
        for name, text in self.cases(BAD):
            self.start('%s = %s' % (name, text))
            problems = conf.options().problems
            if len(problems) != 1 or not all(
                    part in problems[0] for part in (
                        name, text, str(DEFAULTS[name]))):
                wrong.append((name, text[:40], problems))
            self.start()
            conf.options()
        self.assertEqual([], wrong)

    def test_bad_value_leaves_the_other_options_alone(self):
        self.start('mode = enforced', 'correct = false', 'lookup_timeout = x',
                   'operation_modes = evacuate:enforce')
        options = conf.options()
        self.assertIs(False, options.correct)
        self.assertEqual({'evacuate': 'enforce'}, options.operation_modes)
        self.assertEqual(2, len(options.problems))

    def test_bad_values_do_not_stop_a_service_that_logs_its_options(self):
        raised = []
        for name, text in self.cases(BAD):
            config = self.fresh('%s = %s' % (name, text))
            try:
                config.log_opt_values(logging.getLogger(__name__),
                                      logging.DEBUG)
            except Exception as exc:
                raised.append((name, text[:40], repr(exc)))
        self.assertEqual([], raised)

    def test_bad_values_do_not_stop_nova_from_logging_its_options(self):
        self.start(*('%s = %s' % (name, bad[0])
                     for name, bad in BAD.items() if bad))
        CONF.log_opt_values(logging.getLogger(__name__), logging.DEBUG)

    def test_log_of_the_options_says_that_a_value_is_invalid(self):
        logger = self.useFixture(fixtures.FakeLogger(
            __name__, level=logging.DEBUG))
        self.fresh('mode = enforced').log_opt_values(
            logging.getLogger(__name__), logging.DEBUG)
        line = next(line for line in logger.output.splitlines()
                    if 'specguard.mode' in line)
        self.assertIn('enforced', line)
        self.assertIn('invalid', line)

    def test_reference_to_an_option_that_does_not_exist(self):
        # oslo.config substitutes before it asks the type of the option.
        for name in DEFAULTS:
            self.start('%s = $no_such_option' % name)
            options = conf.options()
            self.assertEqual(DEFAULTS[name], getattr(options, name))
            self.assertIn('no_such_option', options.problems[0])

    def test_dollar_sign_in_a_glob_pattern(self):
        self.start(r'ignored_extra_specs = price:\$*')
        self.assertEqual(['price:$*'], conf.options().ignored_extra_specs)

    def test_unprintable_value_is_one_alert_of_one_line(self):
        self.start('mode = enf\x1b[31morce\u2028d')
        self.use(alerts.reporter('nova-conductor'))
        (alert,) = self.alerts.of('203')
        self.assertIn('mode', alert['reason'])
        self.assertTrue(all(line.isascii() and line.isprintable()
                            for line in self.alerts.lines))


class ReloadTest(ConfTestCase):
    """What SIGHUP does: mutate_config_files()."""

    def test_new_good_value_is_taken(self):
        self.start('mode = warn')
        self.assertEqual('warn', conf.options().mode)
        self.sighup('mode = off')
        self.assertEqual('off', conf.options().mode)

    def test_last_good_value_is_kept_for_every_option(self):
        wrong = []
        for name, text in self.cases(BAD):
            if name == 'require_all_hooks':
                # not mutable
                continue
            good_text, good = GOOD[name][-1]
            self.start('%s = %s' % (name, good_text))
            conf.options()
            self.sighup('%s = %s' % (name, text))
            options = conf.options()
            if getattr(options, name) != good or not options.problems:
                wrong.append((name, text[:40], options))
        self.assertEqual([], wrong)

    def test_problem_says_that_the_last_good_value_is_used(self):
        self.start('mode = warn')
        conf.options()
        self.sighup('mode = enforced')
        (problem,) = conf.options().problems
        self.assertIn('enforced', problem)
        self.assertIn('warn is used', problem)

    def test_good_value_after_a_bad_one_is_taken(self):
        self.start('mode = warn')
        conf.options()
        self.sighup('mode = enforced')
        conf.options()
        self.sighup('mode = off')
        options = conf.options()
        self.assertEqual('off', options.mode)
        self.assertEqual((), options.problems)

    def test_two_bad_values_after_each_other_keep_the_last_good_one(self):
        self.start('lookup_timeout = 7')
        conf.options()
        for bad in ('seven', '0'):
            self.sighup('lookup_timeout = ' + bad)
            self.assertEqual(7, conf.options().lookup_timeout)

    def test_good_value_that_no_request_has_used_is_kept_too(self):
        # With native threads a reload replaces the workers, and the new ones
        # have only what their parent knows.
        self.start('mode = warn')
        conf.options()
        self.sighup('mode = off')
        self.sighup('mode = enforced')
        self.assertEqual('off', conf.options().mode)

    def test_line_taken_away_means_the_default(self):
        self.start('mode = warn')
        conf.options()
        self.sighup()
        self.assertEqual('enforce', conf.options().mode)

    def test_option_for_the_start_only_is_not_reloaded(self):
        self.start('require_all_hooks = false')
        self.sighup('require_all_hooks = true')
        self.assertIs(False, conf.options().require_all_hooks)

    def test_bad_value_of_the_option_for_the_start_does_not_raise(self):
        self.start('require_all_hooks = true')
        conf.options()
        self.sighup('require_all_hooks = maybe')
        self.assertIs(True, conf.options().require_all_hooks)


class SnapshotTest(ConfTestCase):
    """A request must not see two configurations."""

    def test_options_cannot_be_changed(self):
        options = conf.options()
        self.assertRaises(dataclasses.FrozenInstanceError,
                          setattr, options, 'mode', 'off')

    def test_snapshot_survives_a_reload(self):
        self.start('mode = warn', 'operation_modes = evacuate:enforce',
                   'field_modes = flavor:off', 'correct = false',
                   'ignored_extra_specs = quota:*')
        options = conf.options()
        before = dataclasses.asdict(options)
        self.sighup('mode = off', 'operation_modes = evacuate:off',
                    'ignored_extra_specs = hw:*')
        conf.options()
        self.assertEqual(before, dataclasses.asdict(options))

    def test_snapshot_keeps_the_problems_of_its_time(self):
        self.start('mode = enforced')
        options = conf.options()
        self.sighup('mode = warn')
        self.assertEqual((), conf.options().problems)
        self.assertEqual(1, len(options.problems))
