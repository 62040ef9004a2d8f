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

"""The mtail program: what it counts, and what it does not."""

import inspect
import logging
import re
from unittest import mock

import fixtures
from nova import filters
from nova.scheduler import filters as scheduler_filters
from nova.scheduler import manager
from stevedore import extension
from stevedore import named

from nova_specguard import alerts
from nova_specguard.audit import classes
from nova_specguard.disks import findings
from nova_specguard import fields
from nova_specguard.operation import Operation
from tests.alerting import base
from tests.unit import builders
from tests.unit import test_alerts

CODES = sorted(value for value in vars(alerts).values()
               if isinstance(value, str) and value.startswith('SPECGUARD-'))
FIELDS = [field.NAME for field in fields.FIELDS] + [
    *classes.NAMES, findings.FIELD]
OPERATIONS = [*map(str, Operation), 'migrate|resize',
              'evacuate|live-migration', 'audit', 'heal',
              'disks-audit', 'disks-repair']
OUTCOMES = ('corrected', 'refused', 'allowed', 'found', 'healed', 'left',
            'repaired')


def incident(code='SPECGUARD-102', operation='live-migration',
             outcome='refused', listed='flavor', **values):
    """The text of an alert, by the product's own code."""
    return alerts.line(code, {
        'operation': operation, 'outcome': outcome,
        'instance': builders.UUID, 'project': builders.PROJECT,
        'fields': listed, 'classes': 'flavor-other', 'severity': 'warning',
        **values})


class MtailTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.nova = base.NovaLog()

    def alerts(self, *lines):
        """The counted alerts: dict of (code, operation, outcome) to number."""
        return self._by(self.counted(*lines), 'nova_specguard_alerts_total',
                        'code', 'operation', 'outcome')

    @staticmethod
    def _by(metrics, name, *keys):
        return {tuple(dict(labels).get(key) for key in keys): value
                for labels, value in metrics.get(name, {}).items()}

    def value(self, metrics, name, **labels):
        return metrics.get('nova_specguard_' + name, {}).get(
            base.labels(**labels))


class CountTest(MtailTestCase):

    def test_what_is_there_before_the_first_alert(self):
        self.assertEqual(
            {'nova_specguard_refused_total': {base.labels(): 0}},
            self.counted('nothing of ours'))

    def test_each_code_is_counted_as_itself(self):
        found = self.alerts(*(
            self.nova.line(incident(code)) for code in CODES))
        self.assertEqual(
            {(code, 'live-migration', 'refused'): 1 for code in CODES}, found)

    def test_unknown_code_is_other(self):
        self.assertEqual(
            {('other', 'live-migration', 'refused'): 2}, self.alerts(
                self.nova.line(incident('SPECGUARD-999')),
                self.nova.line(incident('SPECGUARD-000'))))

    def test_each_operation_and_outcome_is_counted_as_itself(self):
        found = self.alerts(*(
            self.nova.line(incident(operation=operation, outcome=outcome))
            for operation in OPERATIONS for outcome in OUTCOMES))
        self.assertEqual(
            {('SPECGUARD-102', operation, outcome): 1
             for operation in OPERATIONS for outcome in OUTCOMES}, found)

    def test_unknown_operation_and_outcome_are_other(self):
        self.assertEqual(
            {('SPECGUARD-102', 'other', 'other'): 2}, self.alerts(
                self.nova.line(incident(operation='teleport', outcome='no')),
                self.nova.line(incident(operation='re size', outcome='""'))))

    def test_line_without_operation_has_no_such_label(self):
        self.assertEqual(
            {('SPECGUARD-203', None, None): 1}, self.alerts(self.nova.line(
                alerts.line('SPECGUARD-203', {
                    'service': 'nova-scheduler', 'reason': 'a b'}))))

    def test_unverifiable_and_fault_have_no_fields(self):
        metrics = self.counted(
            self.nova.line(alerts.line('SPECGUARD-201', {
                'operation': 'migrate', 'outcome': 'refused',
                'instance': builders.UUID, 'reason': 'fields=flavor x'})),
            # what protection writes when nothing else works
            self.nova.line('SPECGUARD-202 operation=unknown outcome=allowed '
                           'error=KeyError service=nova-scheduler'))
        self.assertEqual(
            {('SPECGUARD-201', 'migrate', 'refused'): 1,
             ('SPECGUARD-202', 'unknown', 'allowed'): 1},
            self._by(metrics, 'nova_specguard_alerts_total', 'code',
                     'operation', 'outcome'))
        self.assertNotIn('nova_specguard_alert_fields_total', metrics)

    def test_time_of_the_last_one(self):
        metrics = self.counted(self.nova.line(incident()))
        self.assertGreater(self.value(
            metrics, 'alert_last_timestamp_seconds', code='SPECGUARD-102',
            operation='live-migration', outcome='refused'), 1.6e9)


class FieldsTest(MtailTestCase):

    def fields(self, *lists):
        return self._by(self.counted(*(
            self.nova.line(incident(listed=listed)) for listed in lists)),
            'nova_specguard_alert_fields_total', 'field')

    def test_each_field_is_counted_as_itself(self):
        self.assertEqual({(field,): 1 for field in FIELDS},
                         self.fields(*FIELDS))

    def test_each_field_of_a_line_is_counted_once(self):
        self.assertEqual({(field,): 2 for field in FIELDS}, self.fields(
            ','.join(FIELDS), ','.join(reversed(FIELDS))))

    def test_line_with_several_fields_is_one_alert(self):
        self.assertEqual(
            {('SPECGUARD-102', 'live-migration', 'refused'): 1}, self.alerts(
                self.nova.line(incident(listed=','.join(FIELDS)))))

    def test_unknown_fields_of_a_line_are_one_other(self):
        self.assertEqual(
            {('flavor',): 1, ('other',): 2},
            self.fields('disks,flavor,colour', 'flavor_spec'))


class PrefixTest(MtailTestCase):

    def assert_counted(self, *lines):
        self.assertEqual(
            {('SPECGUARD-102', 'live-migration', 'refused'): len(lines)},
            self.alerts(*lines))

    def test_file_of_nova(self):
        line = self.nova.line(incident())
        self.assert_counted(line, re.sub(r'\[None .*?\]', '[-]', line))

    def test_syslog_and_journal(self):
        line = self.nova.line(incident())
        self.assert_counted(*(start + line for start in (
            'Dec  1 03:12:44 ctl-1 nova-scheduler[7]: ',
            'Nov 30 03:12:44 ctl-1.example.org nova-scheduler: ',
            '2026-12-01T03:12:44.512345+00:00 ctl-1 nova-scheduler[7]: ',
            '2026-12-01T03:12:44+0000 ctl-1 nova_scheduler[7]: ',
            '2026-12-01T03:12:44.512345Z ctl-1 nova-scheduler[7]:')))

    def test_syslog_handler_without_a_tag(self):
        self.assert_counted('2026-12-01T03:12:44.512345+00:00 ctl-1 '
                            + self.nova.line(incident()))

    def test_service_that_stops_says_it_without_nova(self):
        text = alerts.line('SPECGUARD-203', {
            'service': 'nova-conductor', 'reason': 'no hook'})
        self.assertEqual({('SPECGUARD-203', None, None): 2}, self.alerts(
            text, 'Dec  1 03:12:44 ctl-1 nova-conductor[7]: ' + text))


class ForgeryTest(MtailTestCase):

    def test_code_elsewhere_in_a_line_is_not_counted(self):
        whole = self.nova.line(incident())
        self.assertEqual({}, self.alerts(
            self.nova.line(incident(), logger='nova.api'),
            self.nova.line(incident(), logger='nova.specguardian'),
            self.nova.line('name is %s' % whole, logger='nova.api'),
            self.nova.line('name is %s' % whole),
            'Dec  1 03:12:44 ctl-1 nova-api[7]: name %s' % whole,
            'x' + whole, ' ' + whole))

    def test_hostile_values_change_nothing_but_themselves(self):
        lines = [self.nova.line(incident(
            instance=value, project=value, classes=value, cell=value,
            flavor_spec=value, flavor_current=value, reason=value))
            for value in test_alerts.HOSTILE.values()]
        self.assertEqual(
            [('nova_specguard_alert_fields_total',
              {base.labels(code='SPECGUARD-102', operation='live-migration',
                           outcome='refused', field='flavor'): len(lines)}),
             ('nova_specguard_alerts_total',
              {base.labels(code='SPECGUARD-102', operation='live-migration',
                           outcome='refused'): len(lines)}),
             ('nova_specguard_refused_total', {base.labels(): len(lines)})],
            sorted((name, values)
                   for name, values in self.counted(*lines).items()
                   if not name.endswith('_timestamp_seconds')))

    def test_hostile_keys_are_other(self):
        lines = [self.nova.line(incident(operation=value, outcome=value,
                                         listed=value))
                 for value in test_alerts.HOSTILE.values()]
        self.assertEqual(
            {('SPECGUARD-102', 'other', 'other'): len(lines)},
            self.alerts(*lines))

    def test_key_inside_a_value_is_not_read(self):
        found = self.counted(self.nova.line(incident(
            project='x" fields=image y="', reason=' fields=project')))
        self.assertEqual({('flavor',): 1}, self._by(
            found, 'nova_specguard_alert_fields_total', 'field'))


class SummaryTest(MtailTestCase):

    def summary(self, service='nova-scheduler', **values):
        counts = dict(dict.fromkeys(alerts.Reporter.COUNTED, 0), **values)
        return 'Dec  1 03:12:44 ctl-1 nova-scheduler[7]: ' + self.nova.line(
            alerts.line('SPECGUARD-001', {
                'service': service, **counts, 'seconds': '0.250',
                'interval': '604'}), level=logging.INFO)

    def test_sums(self):
        metrics = self.counted(
            self.summary(checked=1313, corrected=3, refused=1, faults=2),
            self.summary(checked=7, allowed=5, unverifiable=4),
            self.summary('nova-conductor', checked=1))
        self.assertEqual(
            {('nova-scheduler', 'checked'): 1320,
             ('nova-scheduler', 'corrected'): 3,
             ('nova-scheduler', 'refused'): 1,
             ('nova-scheduler', 'allowed'): 5,
             ('nova-scheduler', 'unverifiable'): 4,
             ('nova-scheduler', 'faults'): 2},
            {key: value for key, value in self._by(
                metrics, 'nova_specguard_summary_requests_total', 'service',
                'result').items() if key[0] == 'nova-scheduler'})
        self.assertEqual(0.5, self.value(
            metrics, 'summary_seconds_total', service='nova-scheduler'))
        self.assertEqual(1, self.value(
            metrics, 'summary_requests_total', service='nova-conductor',
            result='checked'))

    def test_last_summary_of_service_and_host(self):
        metrics = self.counted(
            self.summary(), self.summary('nova-conductor'),
            self.summary('nova-else'))
        self.assertEqual(
            {('nova-scheduler', 'ctl-1'), ('nova-conductor', 'ctl-1'),
             ('other', 'ctl-1')},
            set(self._by(
                metrics, 'nova_specguard_summary_last_timestamp_seconds',
                'service', 'host')))

    def test_in_place(self):
        metrics = self.counted(self.nova.line(alerts.line('SPECGUARD-002', {
            'service': 'nova-conductor', 'mode': 'warn', 'nova': '34'})))
        self.assertGreater(self.value(
            metrics, 'in_place_last_timestamp_seconds',
            service='nova-conductor'), 1.6e9)


class NotLoadedTest(MtailTestCase):

    SYSLOG = 'Dec  1 03:12:44 ctl-1 %s[7]: '

    def messages(self):
        """What stevedore says: a name that is not there, one that fails."""
        said = self.useFixture(fixtures.FakeLogger('stevedore'))
        named.NamedExtensionManager(
            'oslo.messaging.notify.drivers.none', ['first', 'specguard'])
        named.NamedExtensionManager('oslo.messaging.notify.drivers.none',
                                    ['specguard'])
        with mock.patch.object(
                extension.ExtensionManager, '_load_one_plugin',
                side_effect=ImportError("No module named 'nova_specguard'")):
            named.NamedExtensionManager(
                'oslo.messaging.notify.drivers', ['specguard'],
                on_missing_entrypoints_callback=None)
        return said.output.splitlines()

    def services(self, *lines, **kwargs):
        return set(self._by(
            self.counted(*lines, **kwargs),
            'nova_specguard_not_loaded_last_timestamp_seconds',
            'service', 'host'))

    def test_each_way_to_say_it(self):
        messages = self.messages()
        self.assertEqual(3, len(messages), messages)
        for message in messages:
            for line in (message, self.nova.line(
                    message, logger='stevedore.named')):
                self.assertEqual(
                    {('nova-conductor', 'ctl-1')},
                    self.services(self.SYSLOG % 'nova-conductor' + line))

    def test_service_by_tag_or_by_file(self):
        line = 'Could not load specguard'
        for tag, service in (
                ('nova-conductor', 'nova-conductor'),
                ('nova_scheduler', 'nova-scheduler'), ('nova-api', 'other')):
            self.assertEqual(
                {(service, 'ctl-1')},
                self.services(self.SYSLOG % tag + line,
                              log_name='nova-conductor.log'))
        self.assertEqual({('nova-scheduler', None)}, self.services(
            line, log_name='nova-scheduler.log'))
        self.assertEqual({('other', None)}, self.services(line))

    def test_other_drivers_are_not_ours(self):
        self.assertEqual(set(), self.services(
            'Could not load first, second', 'Could not load specguard2',
            "Could not load 'other': Could not load specguard",
            self.nova.line('Could not load specguard', logger='nova.api')))


class SchedulerTest(MtailTestCase):

    def counted_requests(self, *lines):
        return self._by(
            self.counted(*lines),
            'nova_specguard_scheduler_request_lines_total', 'host')

    def test_request_of_which_each_filter_leaves_no_host(self):
        said = self.useFixture(fixtures.FakeLogger(
            filters.__name__, logging.INFO))

        class NoHost(scheduler_filters.BaseHostFilter):
            def filter_all(self, hosts, spec):
                return iter(())

        scheduler_filters.HostFilterHandler().get_filtered_objects(
            [NoHost()], [mock.Mock(host='h', nodename='n')],
            mock.Mock(instance_uuid=builders.UUID))
        self.assertEqual(
            {(None,): 1}, self.counted_requests(*(
                self.nova.line(text, logger=filters.__name__)
                for text in said.output.splitlines())))

    def test_messages_of_the_manager(self):
        source = inspect.getsource(manager)
        lines = []
        for message in ('Starting to schedule for instances: ',
                        'Got no allocation candidates'):
            self.assertIn('"' + message, source)
            lines.append('Dec  1 03:12:44 ctl-1 nova-scheduler[7]: '
                         + self.nova.line(message, logger=manager.__name__))
        self.assertEqual({('ctl-1',): 2}, self.counted_requests(*lines))

    def test_other_lines_of_the_scheduler_are_none(self):
        self.assertEqual({}, self.counted_requests(
            self.nova.line('Reporting in', logger=manager.__name__),
            self.nova.line('Starting to schedule for instances: []',
                           logger='nova.specguard'),
            self.nova.line("name 'Starting to schedule for instances'",
                           logger=manager.__name__)))
