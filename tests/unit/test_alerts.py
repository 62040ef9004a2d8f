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

import logging
import threading
import time
from unittest import mock

import nova.version

from nova_specguard import actions
from nova_specguard import alerts
from nova_specguard.fields import base as fields_base
from nova_specguard import guard
from nova_specguard import instances
from nova_specguard.operation import Operation
from nova_specguard.scheduler import request_filter
from tests.unit import base
from tests.unit import builders

PASSWORD = 's3cr3tPASSWORD'
NEVER = 10 ** 9
ALWAYS = 0

HOSTILE = {
    'empty': '',
    'space': ' ',
    'newline': 'a\nSPECGUARD-101 operation=boot',
    'carriage return': 'a\rSPECGUARD-101',
    'vertical tab and form feed': 'a\x0bb\x0cc',
    'file separators': 'a\x1cb\x1db\x1eb',
    'next line': 'a\x85b',
    'unicode line separators': 'a\u2028b\u2029c',
    'quote': 'a"b" c',
    'quote at the end': 'a"',
    'backslash at the end': 'a\\',
    'backslash and quote': 'a\\" outcome=corrected',
    'equals sign': 'a=b',
    'another pair': 'a outcome=corrected',
    'tab and zero': 'a\tb\x00c',
    'terminal escape': '\x1b[2J\x1b]0;title\x07',
    'terminal escape of eight bits': '\x9b2J',
    'right to left': 'a\u202egnp.exe',
    'other scripts': 'Größe 大きさ',
    'lone surrogate': 'a\ud800b',
    'format character': '%s %(name)s %d',
    'another alert': 'x nova.specguard [-] SPECGUARD-102 operation=migrate',
    'markup': '<script>alert(1)</script> <!channel> [a](http://b) *c* `d`',
    'template': '{{ $labels.code }} {{ template "x" }} ${x} #{x}',
    'shell': '$(id) `id` ; | & > *',
    'very long': 'x' * 100000,
    'very long with newlines': 'x\n' * 50000,
}


class AlertsTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.reporter = alerts.Reporter('nova-conductor')

    def difference(self, field='flavor', spec_value='id=831',
                   current_value='id=982'):
        return fields_base.Difference(
            field, fields_base.DriftClass(field + '-other', 'warning', ''),
            spec_value, current_value)

    def finding(self, *differences, **values):
        current = builders.current(**values)
        return guard.Finding(
            Operation.LIVE_MIGRATION, current,
            differences or (self.difference(),), cell=current.cell)

    def drift(self, code=alerts.CORRECTED, outcome='corrected', context=None,
              finding=None, **values):
        finding = finding or self.finding(**values)
        self.reporter.drift(code, outcome, context or self.context, finding,
                            finding.differences)

    def unverifiable(self, outcome='refused', spec=None, reason='no answer',
                     **kwargs):
        self.reporter.unverifiable(
            outcome, self.context, spec or builders.spec(),
            guard.Finding(Operation.UNKNOWN, unverifiable=reason,
                          cell='cell1'),
            'live-migration', **kwargs)

    def fault(self, error, **values):
        try:
            raise error
        except Exception as exc:
            self.reporter.fault(self.context, builders.spec(**values),
                                Operation.EVACUATE, exc)

    def used(self, **options):
        self.use(self.reporter, 0.25, **options)

    def formatted(self):
        """The log as a file would hold it, tracebacks and all."""
        formatter = logging.Formatter('%(levelname)s %(message)s')
        return '\n'.join(map(formatter.format, self.alerts.records))


class LineTest(AlertsTestCase):

    def test_code_and_pairs_in_order(self):
        self.assertEqual(
            'SPECGUARD-101 operation=resize fields=flavor,pci_requests',
            alerts.line('SPECGUARD-101', {
                'operation': Operation.RESIZE,
                'fields': 'flavor,pci_requests'}))

    def test_what_is_none_is_left_out(self):
        self.assertEqual('SPECGUARD-201 a=1', alerts.line(
            'SPECGUARD-201', {'cell': None, 'a': 1, 'project': None}))

    def test_ids_and_numbers_need_no_quotes(self):
        for value in (builders.UUID, builders.PROJECT, 'req-' + builders.UUID,
                      'amd1.example.org', '34.0.0', 7, '0.250'):
            self.assertEqual(
                'SPECGUARD-002 value=%s' % value,
                alerts.line('SPECGUARD-002', {'value': value}))

    def test_hostile_value_stays_one_value_of_one_line(self):
        for name, value in HOSTILE.items():
            line = alerts.line('SPECGUARD-103', {
                'before': 'x', 'value': value, 'after': 'y z'})
            self.assertEqual([line], line.splitlines(), name)
            self.assertTrue(line.isascii() and line.isprintable(), name)
            self.assertEqual(
                {'code': 'SPECGUARD-103', 'before': 'x', 'value': value,
                 'after': 'y z'}, base.parse(line), name)

    def test_hostile_values_of_every_alert_stay_one_line(self):
        for name, value in HOSTILE.items():
            self.drift(finding=self.finding(
                self.difference('flavor', value, value),
                self.difference('numa_topology', value, value),
                uuid=name, cell=value, project_id=value))
            self.unverifiable(
                reason=value, spec=builders.spec(project_id=value))
            self.fault(RuntimeError(value), project_id=value)
            self.reporter = alerts.Reporter('nova-conductor')
            self.used(problems=(value,))
        for line, record in zip(self.alerts.lines, self.alerts.records):
            self.assertEqual([line], line.splitlines())
            self.assertIn(record.levelno, (
                logging.INFO, logging.WARNING, logging.ERROR))
            base.parse(line)


class CredentialsTest(AlertsTestCase):
    """Database and transport URLs carry passwords."""

    def assert_masked(self, text):
        line = alerts.line('SPECGUARD-202', {'message': text})
        self.assertNotIn(PASSWORD, line)
        self.assertIn('db.example.org', line)

    def test_database_url(self):
        self.assert_masked(
            'mysql+pymysql://nova:%s@db.example.org/nova' % PASSWORD)

    def test_url_within_a_text(self):
        self.assert_masked(
            "(OperationalError) can't connect to 'mysql://nova:%s"
            "@db.example.org:3306/nova?charset=utf8' [42]" % PASSWORD)

    def test_two_urls(self):
        self.assert_masked('mysql://a:%s@x/y, mysql://b:%s@db.example.org/y'
                           % (PASSWORD, PASSWORD))

    def test_transport_url_of_several_hosts(self):
        self.assert_masked(
            'rabbit://nova:%s@mq1.example.org:5672,'
            'nova:%s@db.example.org:5672//' % (PASSWORD, PASSWORD))

    def test_password_without_user(self):
        self.assert_masked('redis://:%s@db.example.org:6379' % PASSWORD)

    def test_password_with_escaped_characters(self):
        self.assert_masked(
            'mysql://nova:%%40%%2F%s@db.example.org/nova' % PASSWORD)

    def test_password_with_characters_that_should_have_been_escaped(self):
        # SQLAlchemy takes them.
        for character in '/:#?@!$':
            self.assert_masked('mysql://nova:a%s%s@db.example.org/nova'
                               % (character, PASSWORD))

    def test_url_without_credentials_is_left_alone(self):
        for url in ('http://controller:8774/v2.1', 'sqlite:////var/nova.db'):
            self.assertEqual(
                url, base.parse(alerts.line(
                    'SPECGUARD-202', {'message': url}))['message'])

    def test_url_is_masked_before_its_text_is_shortened(self):
        # Cut off in front of the @, a password is not known for one.
        for length in range(0, 220, 5):
            self.fault(
                RuntimeError('%s mysql://nova:%s@db.example.org/nova' % (
                    'x' * length, PASSWORD * 10)))
            self.reporter = alerts.Reporter('nova-conductor')
        for line in self.alerts.lines:
            self.assertNotIn(PASSWORD[:6], line)

    def test_every_alert_masks(self):
        url = 'mysql://nova:%s@db.example.org/nova' % PASSWORD
        self.drift(finding=self.finding(self.difference('flavor', url, url)))
        self.unverifiable(reason=url)
        self.fault(RuntimeError(url))
        self.used(problems=(url,))
        for line in self.alerts.lines:
            self.assertNotIn(PASSWORD, line)

    def test_traceback_of_a_fault_holds_none_either(self):
        self.fault(RuntimeError(
            'mysql://nova:%s@db.example.org/nova' % PASSWORD))
        self.assertIn('Traceback', self.formatted())
        self.assertNotIn(PASSWORD, self.formatted())


class IncidentTest(AlertsTestCase):

    def other_context(self):
        context = self.context.elevated()
        context.request_id = 'req-other'
        return context

    def test_drift_says_what_is_needed_to_act(self):
        self.drift(finding=self.finding(
            self.difference(),
            self.difference('numa_topology', '2 cell(s)', '-')))
        (alert,) = self.alerts.all
        self.assertEqual(
            {'code': 'SPECGUARD-101', 'operation': 'live-migration',
             'outcome': 'corrected', 'instance': builders.UUID,
             'project': builders.PROJECT, 'fields': 'flavor,numa_topology',
             'flavor_spec': 'id=831', 'flavor_current': 'id=982',
             'numa_topology_spec': '2 cell(s)', 'numa_topology_current': '-',
             'cell': 'cell1', 'request_id': self.context.request_id},
            {key: alert.get(key) for key in (
                'code', 'operation', 'outcome', 'instance', 'project',
                'fields', 'flavor_spec', 'flavor_current',
                'numa_topology_spec', 'numa_topology_current', 'cell',
                'request_id')})

    def test_unverifiable_says_what_is_needed_to_act(self):
        self.unverifiable(reason='reading the server raised DBError')
        (alert,) = self.alerts.all
        self.assertEqual('SPECGUARD-201', alert['code'])
        self.assertEqual('refused', alert['outcome'])
        self.assertEqual('live-migration', alert['operation'])
        self.assertEqual(builders.UUID, alert['instance'])
        self.assertEqual(builders.PROJECT, alert['project'])
        self.assertEqual('cell1', alert['cell'])
        self.assertEqual(self.context.request_id, alert['request_id'])
        self.assertIn('DBError', ' '.join(alert.values()))

    def test_unverifiable_request_spec_without_project(self):
        spec = builders.spec()
        del spec.project_id
        self.unverifiable(spec=spec)
        self.assertNotIn('project', self.alerts.all[0])

    def test_codes_are_permanent(self):
        self.assertEqual(
            ['SPECGUARD-001', 'SPECGUARD-002', 'SPECGUARD-101',
             'SPECGUARD-102', 'SPECGUARD-103', 'SPECGUARD-201',
             'SPECGUARD-202', 'SPECGUARD-203'],
            [alerts.SUMMARY, alerts.IN_PLACE, alerts.CORRECTED,
             alerts.REFUSED, alerts.ALLOWED, alerts.UNVERIFIABLE,
             alerts.FAULT, alerts.MISCONFIGURED])

    def test_one_incident_is_one_line(self):
        # A live migration asks the scheduler again after each host that
        # fails its checks.
        for _time in range(3):
            self.drift()
            self.unverifiable()
            self.fault(RuntimeError())
        self.assertEqual(['101', '201', '202'], self.alerts.codes)

    def test_other_request_is_another_incident(self):
        self.drift()
        self.drift(context=self.other_context())
        self.assertEqual(['101', '101'], self.alerts.codes)

    def test_other_server_is_another_incident(self):
        self.drift()
        self.drift(uuid=builders.OTHER_UUID)
        self.assertEqual(['101', '101'], self.alerts.codes)

    def test_other_code_is_another_incident(self):
        self.drift()
        self.drift(alerts.REFUSED, 'refused')
        self.drift(alerts.ALLOWED, 'allowed')
        self.assertEqual(['101', '102', '103'], self.alerts.codes)

    def test_repeated_incident_is_counted_once(self):
        self.used(summary_interval=NEVER)
        for _time in range(3):
            self.drift()
        self.used(summary_interval=ALWAYS)
        self.assertEqual('1', self.alerts.of('001')[0]['corrected'])


class EventTest(AlertsTestCase):
    """What is written to the instance action beside the line."""

    def names_and_details(self):
        return [event[2:] for event in self.events]

    def test_drift_is_an_event_with_the_text_of_the_line(self):
        for code, outcome in ((alerts.CORRECTED, 'corrected'),
                              (alerts.REFUSED, 'refused'),
                              (alerts.ALLOWED, 'allowed')):
            self.drift(code, outcome)
        self.assertEqual(
            list(zip(('specguard_corrected', 'specguard_refused',
                      'specguard_allowed'), self.alerts.lines)),
            self.names_and_details())
        self.assertEqual({builders.UUID}, {event[1] for event in self.events})

    def test_unverifiable_is_an_event_with_the_text_of_the_line(self):
        self.unverifiable('refused')
        self.unverifiable('allowed', builders.spec(
            instance_uuid=builders.OTHER_UUID))
        self.assertEqual(
            list(zip(('specguard_refused', 'specguard_allowed'),
                     self.alerts.lines)),
            self.names_and_details())
        self.assertEqual([builders.UUID, builders.OTHER_UUID],
                         [event[1] for event in self.events])

    def test_details_say_what_differs(self):
        self.drift()
        details = base.parse(self.events[0][-1])
        self.assertEqual(
            {'code': 'SPECGUARD-101', 'outcome': 'corrected',
             'flavor_spec': 'id=831', 'flavor_current': 'id=982'},
            {key: details.get(key) for key in (
                'code', 'outcome', 'flavor_spec', 'flavor_current')})

    def test_details_are_masked(self):
        url = 'mysql://nova:%s@db.example.org/nova' % PASSWORD
        self.drift(finding=self.finding(self.difference('flavor', url, url)))
        self.unverifiable(reason=url)
        self.assertEqual(2, len(self.events))
        self.assertNotIn(PASSWORD, str(self.names_and_details()))

    def test_event_belongs_to_the_request(self):
        self.drift()
        self.assertEqual(self.context.request_id,
                         self.events[0][0].request_id)

    def test_life_signs_and_faults_are_none(self):
        self.used(summary_interval=ALWAYS, problems=('one',))
        self.fault(RuntimeError())
        self.assertEqual([], self.events)

    def test_event_that_cannot_be_written_spoils_nothing(self):
        with mock.patch.object(actions, '_writer', None):
            self.drift()
            self.unverifiable()
        self.assertEqual(['101', '201'], self.alerts.codes)
        self.assertEqual([], self.events)

    def test_evacuation_of_a_host_with_hundreds_of_servers(self):
        self.used(summary_interval=NEVER)
        # nova asks again after each host that fails.
        for _try in range(3):
            for number in range(500):
                self.drift(uuid='server-%d' % number)
                self.used(summary_interval=NEVER)
        self.used(summary_interval=ALWAYS)
        self.assertEqual(500, len(self.alerts.of('101')))
        self.assertEqual(500, len(self.events))
        (summary,) = self.alerts.of('001')
        self.assertEqual('500', summary['corrected'])
        self.assertLessEqual(500, actions.QUEUED)


class LifeSignsTest(AlertsTestCase):

    def test_in_place_names_service_mode_and_nova(self):
        self.used(mode='warn')
        (alert,) = self.alerts.of('002')
        self.assertEqual('nova-conductor', alert['service'])
        self.assertEqual('warn', alert['mode'])
        self.assertEqual(nova.version.version_string(), alert['nova'])

    def test_in_place_is_said_once(self):
        for mode in ('enforce', 'warn', 'off'):
            self.used(mode=mode)
        self.assertEqual(1, len(self.alerts.of('002')))

    def test_in_place_is_said_before_everything_else(self):
        self.configure(mode='enforced-by-mistake', summary_interval=1)
        with mock.patch.object(
                instances, 'read',
                return_value=builders.current(task_state='migrating')):
            request_filter.verify_request_spec(
                self.context, builders.spec(flavor=builders.e2_medium()))
        self.assertIn('101', self.alerts.codes)
        self.assertEqual('002', self.alerts.codes[0])

    def test_each_service_says_it(self):
        for service in ('nova-conductor', 'nova-scheduler'):
            self.use(alerts.reporter(service))
        self.assertEqual(
            ['nova-conductor', 'nova-scheduler'],
            [alert['service'] for alert in self.alerts.of('002')])

    def test_reporter_of_a_service_is_always_the_same(self):
        self.assertIs(alerts.reporter('nova-scheduler'),
                      alerts.reporter('nova-scheduler'))

    def test_nothing_is_said_before_the_first_use(self):
        alerts.reporter('nova-scheduler')
        self.assertEqual([], self.alerts.lines)


class MisconfiguredTest(AlertsTestCase):

    def reasons(self):
        return [alert['reason'] for alert in self.alerts.of('203')]

    def test_named_at_first_use(self):
        self.reporter.hook_problems.append('hook x does not fit')
        self.used(problems=('mode = y is invalid',))
        self.assertEqual(['hook x does not fit', 'mode = y is invalid'],
                         self.reasons())
        self.assertEqual({'nova-conductor'},
                         {alert['service'] for alert in self.alerts.of('203')})

    def test_not_repeated_with_every_request(self):
        self.reporter.hook_problems.append('hook x does not fit')
        for _time in range(3):
            self.used(problems=('mode = y is invalid',),
                      summary_interval=NEVER)
        self.assertEqual(2, len(self.reasons()))

    def test_named_when_it_is_new(self):
        self.used()
        self.used(problems=('one',))
        self.used(problems=('one', 'two'))
        self.assertEqual(['one', 'two'], self.reasons())

    def test_named_again_when_it_has_come_back(self):
        self.used(problems=('one',))
        self.used()
        self.used(problems=('one',))
        self.assertEqual(['one', 'one'], self.reasons())

    def test_named_with_each_summary(self):
        self.reporter.hook_problems.append('hook')
        self.used(problems=('option',), summary_interval=NEVER)
        for _time in range(2):
            self.used(problems=('option',), summary_interval=ALWAYS)
        self.assertEqual(['hook', 'option'] * 3, self.reasons())

    def test_nothing_to_say(self):
        self.used(summary_interval=ALWAYS)
        self.assertEqual([], self.reasons())


class SummaryTest(AlertsTestCase):

    def test_counts_since_the_last_one(self):
        self.used(summary_interval=NEVER)
        self.drift(uuid='one')
        self.drift(uuid='two')
        self.drift(alerts.REFUSED, 'refused')
        self.drift(alerts.ALLOWED, 'allowed')
        self.unverifiable('allowed')
        self.used(summary_interval=NEVER)
        self.used(summary_interval=ALWAYS)
        self.used(summary_interval=ALWAYS)
        first, second = self.alerts.of('001')
        names = ('checked', 'corrected', 'refused', 'allowed', 'unverifiable')
        self.assertEqual(['3', '2', '1', '2', '1'],
                         [first[name] for name in names])
        self.assertEqual(['1', '0', '0', '0', '0'],
                         [second[name] for name in names])
        self.assertEqual('nova-conductor', first['service'])

    def test_time_spent(self):
        self.used(summary_interval=NEVER)
        self.used(summary_interval=ALWAYS)
        (alert,) = self.alerts.of('001')
        self.assertEqual(0.5, float(alert['seconds']))

    def test_boots_are_counted(self):
        self.configure(summary_interval=1)
        for _time in range(2):
            request_filter.verify_request_spec(
                self.context, builders.spec(requested_destination=None))
        self.use(alerts.reporter('nova-scheduler'), summary_interval=ALWAYS)
        self.assertEqual('3', self.alerts.of('001')[-1]['checked'])

    def test_at_most_once_in_its_interval(self):
        clock = mock.Mock(return_value=1000.0)
        with mock.patch.object(time, 'monotonic', clock):
            for now in (1000, 1599.9, 1600, 1601, 2199.9, 2300, 2899.9, 2900):
                clock.return_value = now
                self.used(summary_interval=600)
                due = len(self.alerts.of('001'))
                self.assertEqual(
                    {1600: 1, 1601: 1, 2199.9: 1, 2300: 2, 2899.9: 2,
                     2900: 3}.get(now, 0), due, now)

    def test_interval_that_was_shortened_holds_at_once(self):
        clock = mock.Mock(return_value=1000.0)
        with mock.patch.object(time, 'monotonic', clock):
            self.used(summary_interval=600)
            clock.return_value = 1010
            self.used(summary_interval=5)
        self.assertEqual(1, len(self.alerts.of('001')))

    def test_none_without_work(self):
        self.used(summary_interval=NEVER)
        self.assertEqual([], self.alerts.of('001'))

    def test_counts_add_up_under_threads(self):
        threads = 8
        each = 50

        def work(number):
            for i in range(each):
                self.drift(uuid='%d-%d' % (number, i))
                self.drift(alerts.REFUSED, 'refused',
                           uuid='%d-%d' % (number, i))
                # the same for all of them
                self.drift(alerts.ALLOWED, 'allowed', uuid='same')
                self.used(summary_interval=ALWAYS)

        workers = [threading.Thread(target=work, args=(number,))
                   for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.used(summary_interval=ALWAYS)
        total = {
            name: sum(int(alert[name]) for alert in self.alerts.of('001'))
            for name in ('checked', 'corrected', 'refused', 'allowed')}
        self.assertEqual(
            {'checked': threads * each + 1, 'corrected': threads * each,
             'refused': threads * each, 'allowed': 1}, total)
        self.assertEqual(1, len(self.alerts.of('002')))
        self.assertEqual(1, len(self.alerts.of('103')))


class FaultTest(AlertsTestCase):

    def test_line_names_error_and_server(self):
        self.fault(ZeroDivisionError('by zero'))
        (alert,) = self.alerts.all
        self.assertEqual('SPECGUARD-202', alert['code'])
        self.assertEqual('evacuate', alert['operation'])
        self.assertEqual(builders.UUID, alert['instance'])
        self.assertEqual(builders.PROJECT, alert['project'])
        self.assertEqual(self.context.request_id, alert['request_id'])
        self.assertIn('ZeroDivisionError', alert.values())
        self.assertIn('by zero', alert.values())
        # The request goes on.
        self.assertEqual('allowed', alert['outcome'])

    def test_traceback_follows_the_line(self):
        self.fault(ZeroDivisionError('by zero'))
        lines = self.formatted().splitlines()
        self.assertIn('SPECGUARD-202', lines[0])
        self.assertIn('Traceback', lines[1])
        self.assertIn('ZeroDivisionError', lines[-1])

    def test_no_context_and_no_server(self):
        try:
            raise KeyError('request_spec')
        except KeyError as exc:
            self.reporter.fault(None, None, Operation.UNKNOWN, exc)
        (alert,) = self.alerts.all
        self.assertNotIn('instance', alert)

    def test_long_message_is_shortened(self):
        self.fault(RuntimeError('x' * 100000))
        self.assertLess(len(self.alerts.lines[0]), 2000)

    def test_faults_are_counted(self):
        self.fault(RuntimeError())
        self.used(summary_interval=ALWAYS)
        self.assertEqual('1', self.alerts.of('001')[0]['faults'])
