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

import functools
import inspect
from unittest import mock

import fixtures
from nova.compute import vm_states
from nova.conductor import manager as conductor_manager
from nova import objects
from nova.scheduler.client import query
from nova.scheduler import request_filter as nova_request_filter
import nova.service

from nova_specguard import alerts
from nova_specguard import conductor
from nova_specguard import exception
from nova_specguard import hooks
from nova_specguard import instances
from nova_specguard import scheduler
from nova_specguard.scheduler import request_filter
from tests.unit import base
from tests.unit import builders

TASK_MANAGER = conductor_manager.ComputeTaskManager
METHODS = base.Nova.METHODS


def in_place():
    """What nova's classes hold at the moment."""
    found = {name: vars(TASK_MANAGER).get(name) for name in METHODS}
    found['select_destinations'] = vars(query.SchedulerQueryClient).get(
        'select_destinations')
    return found


class HooksTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(base.Nova())
        self.before = in_place()

    def replace(self, name, value):
        # fixtures.MonkeyPatch would give it the signature of nova's method.
        patch = mock.patch.object(TASK_MANAGER, name, value)
        patch.start()
        self.addCleanup(patch.stop)
        self.before = in_place()

    def delete(self, name):
        self.useFixture(fixtures.MonkeyPatch(
            'nova.conductor.manager.ComputeTaskManager.' + name,
            fixtures.MonkeyPatch.delete))
        self.before = in_place()

    def wrapped(self):
        """Names of the methods that were changed since."""
        return {name for name, value in in_place().items()
                if value is not self.before[name]}

    def problems(self, service='nova-conductor'):
        return alerts.reporter(service).hook_problems


class InstallTest(HooksTestCase):

    def test_every_hook_fits_this_nova(self):
        conductor.install()
        scheduler.install()
        self.assertEqual([], self.problems('nova-conductor'))
        self.assertEqual([], self.problems('nova-scheduler'))

    def test_every_hook_is_in_place(self):
        conductor.install()
        self.assertEqual({*METHODS, 'select_destinations'}, self.wrapped())
        scheduler.install()
        self.assertIs(request_filter.verify_request_spec,
                      nova_request_filter.ALL_REQUEST_FILTERS[0])

    def test_installing_again_changes_nothing(self):
        conductor.install()
        scheduler.install()
        once = in_place()
        filters = list(nova_request_filter.ALL_REQUEST_FILTERS)
        for _time in range(2):
            conductor.install()
            scheduler.install()
        self.assertEqual(once, in_place())
        self.assertEqual(filters, nova_request_filter.ALL_REQUEST_FILTERS)

    def test_nova_s_own_decorators_still_find_the_arguments(self):
        # nova looks for instance and context by the signature.
        signatures = {name: inspect.signature(vars(TASK_MANAGER)[name])
                      for name in METHODS}
        conductor.install()
        for name in METHODS:
            method = getattr(TASK_MANAGER, name)
            self.assertEqual(signatures[name], inspect.signature(method))
            self.assertEqual(name, method.__name__)
            self.assertTrue(inspect.isfunction(method))

    def test_bound_methods_are_methods(self):
        conductor.install()
        manager = TASK_MANAGER.__new__(TASK_MANAGER)
        for name in METHODS:
            self.assertTrue(inspect.ismethod(getattr(manager, name)), name)


class MisfitTest(HooksTestCase):

    def assert_all_but(self, name, *words):
        conductor.install()
        self.assertEqual({*METHODS, 'select_destinations'} - {name},
                         self.wrapped())
        (problem,) = self.problems()
        for word in (name, *words):
            self.assertIn(word, problem)

    def test_method_that_does_not_exist(self):
        self.delete('unshelve_instance')
        self.assert_all_but('unshelve_instance')

    def test_parameter_that_does_not_exist(self):
        def _cold_migrate(self, context, instance, flavor, spec):
            pass

        self.replace('_cold_migrate', _cold_migrate)
        self.assert_all_but('_cold_migrate', 'request_spec')

    def test_method_that_became_a_property(self):
        self.replace('_live_migrate', property(lambda self: None))
        self.assert_all_but('_live_migrate')

    def test_method_that_cannot_be_called(self):
        self.replace('_live_migrate', None)
        self.assert_all_but('_live_migrate')

    def test_class_that_does_not_exist(self):
        self.useFixture(fixtures.MonkeyPatch(
            'nova.conductor.manager.ComputeTaskManager',
            fixtures.MonkeyPatch.delete))
        conductor.install()
        self.assertEqual({'select_destinations'}, self.wrapped())
        self.assertEqual(len(METHODS), len(self.problems()))

    def test_module_that_does_not_exist(self):
        error = self.assertRaises(
            exception.HookMismatch, hooks.wrap, 'nova.no_such_module',
            'Class', 'method', (), lambda *args: None)
        self.assertIn('nova.no_such_module', error.format_message())

    def test_request_filters_that_nova_keeps_otherwise(self):
        for value in (None, (), 'x', {}):
            alerts.reporter.cache_clear()
            with mock.patch.object(nova_request_filter,
                                   'ALL_REQUEST_FILTERS', value):
                scheduler.install()
            (problem,) = self.problems('nova-scheduler')
            self.assertIn('ALL_REQUEST_FILTERS', problem)

    def test_request_filters_that_nova_has_not(self):
        self.useFixture(fixtures.MonkeyPatch(
            'nova.scheduler.request_filter.ALL_REQUEST_FILTERS',
            fixtures.MonkeyPatch.delete))
        scheduler.install()
        self.assertEqual(1, len(self.problems('nova-scheduler')))

    def test_problem_is_named_once_however_often_it_is_installed(self):
        self.delete('unshelve_instance')
        conductor.install()
        conductor.install()
        self.assertEqual(1, len(self.problems()))

    def test_problem_is_alerted_at_first_use(self):
        self.delete('unshelve_instance')
        conductor.install()
        self.assertEqual([], self.alerts.lines)
        self.use(alerts.reporter('nova-conductor'))
        (alert,) = self.alerts.of('203')
        self.assertIn('unshelve_instance', alert['reason'])
        self.assertEqual('nova-conductor', alert['service'])


class RequireAllHooksTest(HooksTestCase):

    def setUp(self):
        super().setUp()
        self.configure(require_all_hooks=True)

    def test_service_starts_where_all_fit(self):
        conductor.install()
        scheduler.install()

    def test_service_is_stopped_where_one_does_not(self):
        self.delete('unshelve_instance')
        error = self.assertRaises(SystemExit, conductor.install)
        # A text makes Python print it and exit with 1.
        self.assertIsInstance(error.code, str)
        for word in ('SPECGUARD-203', 'nova-conductor', 'unshelve_instance'):
            self.assertIn(word, error.code)

    def test_every_hook_that_does_not_fit_is_named(self):
        self.delete('unshelve_instance')
        self.delete('_cold_migrate')
        error = self.assertRaises(SystemExit, conductor.install)
        self.assertIn('unshelve_instance', error.code)
        self.assertIn('_cold_migrate', error.code)

    def test_service_is_stopped_however_often_it_is_tried(self):
        self.delete('unshelve_instance')
        for _time in range(2):
            self.assertRaises(SystemExit, conductor.install)

    def test_scheduler_is_stopped_too(self):
        self.useFixture(fixtures.MonkeyPatch(
            'nova.scheduler.request_filter.ALL_REQUEST_FILTERS',
            fixtures.MonkeyPatch.delete))
        self.assertRaises(SystemExit, scheduler.install)
        self.assertRaises(SystemExit, scheduler.all_filters)


class CallTestCase(HooksTestCase):
    """nova's methods with nothing behind them, wrapped."""

    def setUp(self):
        super().setUp()
        self.calls = []
        for name in METHODS:
            self.replace(name, self.stub(vars(TASK_MANAGER)[name]))
        conductor.install()
        self.manager = TASK_MANAGER.__new__(TASK_MANAGER)
        self.read = self.useFixture(fixtures.MockPatchObject(
            instances, 'read', return_value=builders.current())).mock

    def stub(self, original):
        @functools.wraps(original)
        def stubbed(manager, *args, **kwargs):
            self.calls.append((args, kwargs))
            return 'nova'
        return stubbed

    def arguments(self, name, **values):
        instance = objects.Instance(
            uuid=builders.UUID, project_id=builders.PROJECT,
            flavor=builders.flavor(), instance_type_id=982,
            vm_state=vm_states.ACTIVE)
        common = {'context': self.context, 'instance': instance,
                  'request_spec': builders.spec(flavor=builders.e2_medium())}
        if name == '_live_migrate':
            common.update(scheduler_hint={}, block_migration=None,
                          disk_over_commit=None)
        elif name == '_cold_migrate':
            common.update(flavor=builders.flavor(), filter_properties={},
                          clean_shutdown=True, host_list=None)
        elif name == 'rebuild_instance':
            common.update(
                orig_image_ref=None, image_ref=None, injected_files=None,
                new_pass=None, orig_sys_metadata=None, bdms=None,
                recreate=True, on_shared_storage=True,
                preserve_ephemeral=False, host=None)
        else:
            instance.vm_state = vm_states.SHELVED_OFFLOADED
        return {**common, **values}

    def call(self, name, target=None, **values):
        """As RPC calls it, with keywords only.

        :returns: the arguments that arrived at nova's own method
        """
        arguments = self.arguments(name, **values)
        context = arguments.pop('context')
        self.calls.clear()
        result = getattr(target or self.manager, name)(context, **arguments)
        self.assertEqual('nova', result)
        self.assertEqual([((context,), arguments)], self.calls)
        return arguments


class CallTest(CallTestCase):

    def test_request_is_corrected_before_nova_reads_it(self):
        for name in ('_live_migrate', 'rebuild_instance',
                     'unshelve_instance'):
            arguments = self.call(name)
            self.assertEqual(982, arguments['request_spec'].flavor.id, name)

    def test_arguments_may_be_passed_by_position(self):
        arguments = self.arguments('unshelve_instance')
        self.manager.unshelve_instance(*(arguments[name] for name in (
            'context', 'instance', 'request_spec')))
        self.assertEqual(982, arguments['request_spec'].flavor.id)

    def test_optional_arguments_may_be_left_out(self):
        arguments = self.arguments('unshelve_instance')
        del arguments['request_spec']
        self.assertEqual('nova', self.manager.unshelve_instance(**arguments))

    def test_guard_looks_once_however_often_it_was_installed(self):
        conductor.install()
        conductor.install()
        self.call('unshelve_instance')
        self.assertEqual(1, self.read.call_count)

    def test_request_spec_of_an_old_compute_is_a_dict(self):
        for name in METHODS:
            self.call(name, request_spec={'flavor': 'x'})
            self.call(name, request_spec=None)
        self.assertEqual([], self.alerts.incidents)

    def test_resize_keeps_the_flavor_that_was_asked_for(self):
        arguments = self.call('_cold_migrate', flavor=builders.e2_medium())
        self.assertEqual(831, arguments['request_spec'].flavor.id)

    def test_mode_off_reads_nothing(self):
        self.configure(mode='off',
                       operation_modes={'live-migration': 'enforce'})
        for name in METHODS:
            self.call(name)
        self.assertFalse(self.read.called)
        self.assertEqual([], self.alerts.incidents)


class CorrectionTestCase(CallTestCase):

    FIELDS = {'image', 'project', 'scheduler_hints', 'instance_group',
              'is_bfv'}

    def setUp(self):
        super().setUp()
        self.server_is()

    def server_is(self, **values):
        self.read.return_value = builders.current(**{
            'image_meta': builders.image_meta(),
            'base_image_ref': builders.OTHER_UUID,
            'is_volume_backed': False, 'surroundings': builders.surroundings(
                builders.GROUP), 'server_group': builders.server_group(),
            **values})

    def drifted(self, **values):
        """Wrong in all that a resize is corrected in."""
        return builders.spec(**{
            'image': builders.image_meta(builders.UUID, os_type='linux'),
            'project_id': 'admin', 'is_bfv': True,
            'scheduler_hints': {'_nova_check_type': ['rebuild']},
            'force_hosts': ['amd1'], 'force_nodes': ['amd1'],
            'instance_group': None, **values})

    def assert_corrected(self, spec):
        self.assertEqual(builders.OTHER_UUID, spec.image.id)
        self.assertEqual(builders.PROJECT, spec.project_id)
        self.assertEqual({'group': [builders.GROUP]}, spec.scheduler_hints)
        self.assertIsNone(spec.force_hosts)
        self.assertEqual(builders.GROUP, spec.instance_group.uuid)
        self.assertIs(False, spec.is_bfv)

    def corrected(self):
        (alert,) = self.alerts.incidents
        self.assertEqual('SPECGUARD-101', alert['code'])
        return alert['operation'], set(alert['fields'].split(','))


class CorrectionTest(CorrectionTestCase):
    """What nova-conductor makes of the fields besides the flavor."""

    def test_every_scheduled_move(self):
        for name in METHODS:
            self.alerts.records.clear()
            alerts.reporter.cache_clear()
            spec = self.drifted()
            self.call(name, request_spec=spec)
            self.assert_corrected(spec)
            self.assertEqual(self.FIELDS, self.corrected()[1], name)

    def test_rebuild_keeps_its_hint(self):
        spec = self.drifted()
        self.call('rebuild_instance', request_spec=spec, recreate=False)
        self.assertEqual(['rebuild'],
                         spec.scheduler_hints['_nova_check_type'])
        self.assertEqual(['amd1'], spec.force_hosts)
        self.assertEqual(('rebuild', self.FIELDS - {'scheduler_hints'}),
                         self.corrected())

    def test_resize(self):
        topology = builders.constraints(
            builders.flavor(extra_specs={'hw:numa_nodes': '2'}))
        requests = builders.pci_requests(builders.pci_request())
        spec = self.drifted(flavor=builders.e2_medium(),
                            numa_topology=topology, pci_requests=requests)
        self.call('_cold_migrate', request_spec=spec,
                  flavor=builders.e2_medium())
        self.assert_corrected(spec)
        self.assertEqual(('resize', self.FIELDS), self.corrected())
        self.assertEqual(831, spec.flavor.id)
        self.assertIs(topology, spec.numa_topology)
        self.assertIs(requests, spec.pci_requests)

    def test_cold_migration(self):
        spec = self.drifted(numa_topology=builders.constraints(
            builders.flavor(extra_specs={'hw:numa_nodes': '2'})))
        self.call('_cold_migrate', request_spec=spec)
        self.assert_corrected(spec)
        self.assertIsNone(spec.numa_topology)
        self.assertEqual(('migrate', self.FIELDS | {'numa_topology'}),
                         self.corrected())

    def test_what_is_not_scheduled_is_alerted_only(self):
        for name, values in (
                ('_live_migrate', {'scheduler_hint': {'host': 'amd2'}}),
                ('_cold_migrate', {'host_list': []}),
                ('rebuild_instance', {'host': 'amd2'})):
            self.alerts.records.clear()
            alerts.reporter.cache_clear()
            spec = self.drifted()
            before = builders.stored(spec)
            self.call(name, request_spec=spec, **values)
            self.assertEqual(before, builders.stored(spec))
            (alert,) = self.alerts.incidents
            self.assertEqual('SPECGUARD-103', alert['code'])
            self.assertEqual(self.FIELDS, set(alert['fields'].split(',')))

    def test_what_an_old_compute_has_made_an_object_of(self):
        # With its RPC pinned below 5.1 a dict is passed on, which has no
        # is_bfv, in a reschedule. nova puts that in again.
        spec = self.drifted()
        delattr(spec, objects.base.get_attrname('id'))
        self.call('_cold_migrate', request_spec=spec, host_list=[])
        self.assertEqual([], self.alerts.incidents)
        self.call('_cold_migrate', request_spec=spec)
        self.assertEqual(('migrate', self.FIELDS), self.corrected())

    def test_what_the_scheduler_gets_to_see_is_left_to_it(self):
        self.configure(correct=False)
        for name in METHODS:
            self.call(name, request_spec=self.drifted(
                instance_group=builders.server_group()))
        self.assertEqual([], self.alerts.incidents)

    def test_missing_group_that_is_not_corrected_is_alerted(self):
        # nova raises before it asks the scheduler.
        for options in ({'correct': False}, {'mode': 'warn'},
                        {'field_modes': {'instance_group': 'warn'}}):
            self.configure(mode='enforce', correct=True, field_modes={})
            self.configure(**options)
            for name in METHODS:
                self.alerts.records.clear()
                alerts.reporter.cache_clear()
                spec = builders.spec(instance_group=None)
                self.call(name, request_spec=spec)
                self.assertIsNone(spec.instance_group)
                (alert,) = self.alerts.incidents
                self.assertEqual(
                    ('SPECGUARD-103', 'allowed', 'instance_group',
                     'server-group-missing', builders.GROUP),
                    (alert['code'], alert['outcome'], alert['fields'],
                     alert['classes'], alert['instance_group_current']))

    def test_missing_group_of_a_member_of_several_is_alerted(self):
        self.server_is(server_group=None, surroundings=builders.surroundings(
            builders.GROUP, builders.OTHER_UUID))
        self.call('_live_migrate', request_spec=builders.spec())
        (alert,) = self.alerts.incidents
        self.assertEqual('SPECGUARD-103', alert['code'])

    def test_group_that_is_off_is_not_alerted(self):
        self.configure(field_modes={'instance_group': 'off'})
        self.call('_live_migrate', request_spec=builders.spec())
        self.assertEqual([], self.alerts.incidents)

    def test_image_that_cannot_be_told_is_left_as_it_is(self):
        self.server_is(base_image_ref=builders.UUID)
        spec = builders.spec(
            image=builders.image_meta(builders.UUID),
            instance_group=builders.server_group())
        self.call('_live_migrate', request_spec=spec)
        self.assertEqual(builders.UUID, spec.image.id)
        self.assertEqual([], self.alerts.incidents)


class LaggingRowTest(CorrectionTestCase):
    """The row read is older than the one that nova-api read."""

    def lagging(self, name, request_spec, **values):
        arguments = self.arguments(name)
        for key, value in values.items():
            setattr(arguments['instance'], key, value)
        before = builders.stored(request_spec)
        self.call(name, request_spec=request_spec,
                  instance=arguments['instance'])
        self.assertEqual(before, builders.stored(request_spec))
        self.assertEqual([], self.alerts.incidents)

    def test_another_image(self):
        for name in METHODS:
            self.lagging(name, self.drifted(), image_ref=builders.UUID)

    def test_another_base_image(self):
        for name in METHODS:
            self.lagging(name, self.drifted(), system_metadata={
                'image_base_image_ref': builders.UUID})

    def test_another_flavor(self):
        for name in METHODS:
            self.lagging(name, self.drifted(), flavor=builders.e2_medium())

    def test_same_image(self):
        for name in METHODS:
            self.alerts.records.clear()
            alerts.reporter.cache_clear()
            arguments = self.arguments(name)
            arguments['instance'].image_ref = builders.OTHER_UUID
            arguments['instance'].system_metadata = {
                'image_base_image_ref': builders.OTHER_UUID}
            spec = self.drifted()
            self.call(name, request_spec=spec,
                      instance=arguments['instance'])
            self.assert_corrected(spec)

    def test_base_image_that_was_not_read(self):
        self.configure(field_modes={'image': 'off'})
        self.server_is(image_meta=None, base_image_ref=None)
        arguments = self.arguments('_live_migrate')
        arguments['instance'].system_metadata = {
            'image_base_image_ref': builders.UUID}
        spec = builders.spec(project_id='admin')
        self.call('_live_migrate', request_spec=spec,
                  instance=arguments['instance'])
        self.assertEqual(builders.PROJECT, spec.project_id)


class FaultTest(CallTestCase):
    """What goes wrong in the guard never reaches nova."""

    def assert_goes_through(self, broken):
        with mock.patch('nova_specguard.' + broken,
                        side_effect=ZeroDivisionError):
            for name in METHODS:
                self.call(name)

    def test_fault_is_alerted_and_the_call_goes_through(self):
        for broken in ('guard.examine', 'guard.enforce', 'instances.read',
                       'fields.differences', 'hooks.arguments'):
            alerts.reporter.cache_clear()
            self.alerts.records.clear()
            self.assert_goes_through(broken)
            # the same request and server in all four calls
            self.assertIn('202', self.alerts.codes, broken)
            self.assertIn('ZeroDivisionError', str(self.alerts.of('202')))

    def test_fault_while_correcting(self):
        self.assert_goes_through('fields.apply')
        self.assertIn('202', self.alerts.codes)

    def test_fault_of_the_options(self):
        self.assert_goes_through('conf.options')

    def test_fault_of_the_alert_itself(self):
        self.assert_goes_through('alerts.Reporter.drift')

    def test_fault_of_the_alert_of_a_fault(self):
        with mock.patch('nova_specguard.guard.examine',
                        side_effect=ZeroDivisionError):
            self.assert_goes_through('alerts.Reporter.fault')

    def test_fault_of_the_life_signs_and_the_counting(self):
        self.assert_goes_through('alerts.Reporter.begin')
        self.assert_goes_through('alerts.Reporter.end')

    def test_fault_of_the_alert_line(self):
        self.assert_goes_through('alerts.line')

    def test_request_spec_that_raises_whatever_is_asked(self):
        class Broken(objects.RequestSpec):
            def __contains__(self, name):
                raise ZeroDivisionError

        for name in METHODS:
            self.call(name, request_spec=Broken(instance_uuid=builders.UUID))

    def test_instance_that_has_nothing(self):
        for name in METHODS:
            self.call(name, instance=objects.Instance(uuid=builders.UUID))

    def test_exception_of_nova_is_nova_s(self):
        class FromNova(Exception):
            pass

        self.replace('unshelve_instance', functools.wraps(
            self.before['unshelve_instance'])(
                mock.Mock(side_effect=FromNova)))
        self.assertRaises(
            FromNova, self.manager.unshelve_instance,
            **self.arguments('unshelve_instance'))


if hasattr(nova.service, '_TrackingEndpointWrapper'):

    class TrackingEndpointTest(CallTestCase):
        """nova 34 keeps a bound method from its first call on."""

        def setUp(self):
            super().setUp()
            self.tracker = mock.Mock()
            self.endpoint = nova.service._TrackingEndpointWrapper(
                self.manager, self.tracker)

        def test_evacuation_is_guarded_at_every_call(self):
            for times in (1, 2):
                arguments = self.call('rebuild_instance', self.endpoint)
                self.assertEqual(982, arguments['request_spec'].flavor.id)
                self.assertEqual(times, self.read.call_count)

        def test_unshelve_is_guarded_at_every_call(self):
            for times in (1, 2):
                arguments = self.call('unshelve_instance', self.endpoint)
                self.assertEqual(982, arguments['request_spec'].flavor.id)
                self.assertEqual(times, self.read.call_count)

        def test_nova_tracks_the_wrapped_method(self):
            self.call('rebuild_instance', self.endpoint)
            self.tracker._record_task_start.assert_called_once_with(
                'rebuild_instance', builders.UUID, self.context.request_id)
            self.assertEqual(1, self.tracker._record_task_end.call_count)

        def test_fault_of_the_guard_goes_through(self):
            with mock.patch('nova_specguard.guard.examine',
                            side_effect=ZeroDivisionError):
                self.call('rebuild_instance', self.endpoint)
            self.assertIn('202', self.alerts.codes)
