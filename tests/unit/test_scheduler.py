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

from importlib import metadata
from unittest import mock

import fixtures
from nova.compute import task_states
from nova import exception as nova_exception
from nova import objects
from nova.scheduler import filters as nova_filters
from nova.scheduler import host_manager
from nova.scheduler import request_filter as nova_request_filter
from stevedore import extension

from nova_specguard import alerts
from nova_specguard import exception
from nova_specguard import instances
from nova_specguard import scheduler
from nova_specguard.scheduler import filter as specguard_filter
from nova_specguard.scheduler import request_filter
from tests.unit import base
from tests.unit import builders

ALL_FILTERS = 'nova_specguard.scheduler.all_filters'
REBUILD = {'scheduler_hints': {'_nova_check_type': ['rebuild']},
           'force_hosts': ['amd1'], 'force_nodes': ['amd1']}


class RegisteredFilter(nova_filters.BaseHostFilter):
    """As another package could register one."""


def marked(**values):
    """A resize or a cold migration."""
    return builders.spec(
        ignore_hosts=['amd1'],
        requested_destination=builders.destination(
            allow_cross_cell_move=False), **values)


class SchedulerTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(base.Nova())
        self.read = self.useFixture(fixtures.MockPatchObject(
            instances, 'read')).mock
        self.server_is(task_states.MIGRATING)
        self.filter = specguard_filter.SpecGuardFilter()
        self.hosts = [host_manager.HostState('amd%d' % i, 'amd%d' % i, None)
                      for i in range(3)]

    def server_is(self, task_state, **values):
        self.read.side_effect = None
        self.read.return_value = builders.current(
            task_state=task_state, **values)

    def drifted(self, **values):
        return builders.spec(**{'flavor': builders.e2_medium(),
                                'ignore_hosts': ['amd1'], **values})

    def not_correctable(self, **values):
        """The server has devices that its flavor does not ask for."""
        self.server_is(task_states.MIGRATING, pci_requests=(
            builders.pci_requests(builders.pci_request())))
        return builders.spec(ignore_hosts=['amd1'], **values)

    def request(self, spec):
        """What nova does before it asks placement.

        :returns: whether it goes on
        """
        try:
            request_filter.verify_request_spec(self.context, spec)
            return True
        except nova_exception.RequestFilterFailed:
            return False

    def filtered(self, spec, index=0):
        """What nova's own filter loop leaves of the hosts."""
        return list(nova_filters.HostFilterHandler().get_filtered_objects(
            [self.filter], list(self.hosts), spec, index=index) or [])


class AllFiltersTest(SchedulerTestCase):

    def test_nova_s_filters_are_all_there(self):
        self.assertLessEqual(set(nova_filters.all_filters()),
                             set(scheduler.all_filters()))

    def test_ours_is_there(self):
        self.assertIn(specguard_filter.SpecGuardFilter,
                      scheduler.all_filters())

    def test_every_filter_of_the_namespace_is_there(self):
        original = extension.ExtensionManager.list_entry_points

        def list_entry_points(manager):
            found = list(original(manager))
            if manager.namespace == 'nova_specguard.scheduler.filters':
                found.append(metadata.EntryPoint(
                    'RegisteredFilter', __name__ + ':RegisteredFilter',
                    manager.namespace))
            return found

        with mock.patch.object(extension.ExtensionManager,
                               'list_entry_points', list_entry_points):
            self.assertIn(RegisteredFilter, scheduler.all_filters())

    def test_filter_that_cannot_be_loaded_does_not_stop_the_scheduler(self):
        original = extension.ExtensionManager.list_entry_points

        def list_entry_points(manager):
            return list(original(manager)) + [metadata.EntryPoint(
                'Gone', 'no_such_module:Gone', manager.namespace)]

        with mock.patch.object(extension.ExtensionManager,
                               'list_entry_points', list_entry_points):
            self.assertIn(specguard_filter.SpecGuardFilter,
                          scheduler.all_filters())

    def test_no_filter_is_there_twice(self):
        found = scheduler.all_filters()
        self.assertEqual(len(set(found)), len(found))

    def test_nova_finds_them_by_the_configured_value(self):
        found = nova_filters.HostFilterHandler().get_matching_classes(
            [ALL_FILTERS])
        names = {cls.__name__ for cls in found}
        self.assertLessEqual({'SpecGuardFilter', 'ComputeFilter',
                              'NUMATopologyFilter'}, names)


class RequestFilterPlaceTest(SchedulerTestCase):

    def assert_first_and_once(self):
        found = nova_request_filter.ALL_REQUEST_FILTERS
        self.assertIs(request_filter.verify_request_spec, found[0])
        self.assertEqual(1, found.count(request_filter.verify_request_spec))

    def test_reading_the_filters_puts_it_first(self):
        nova_request_filter.ALL_REQUEST_FILTERS.remove(
            request_filter.verify_request_spec)
        scheduler.all_filters()
        self.assert_first_and_once()

    def test_constructing_the_filter_puts_it_first(self):
        # A cloud may name the class itself in available_filters.
        nova_request_filter.ALL_REQUEST_FILTERS.remove(
            request_filter.verify_request_spec)
        specguard_filter.SpecGuardFilter()
        self.assert_first_and_once()

    def test_it_is_there_once_however_often_it_is_put_there(self):
        for _time in range(2):
            scheduler.all_filters()
            specguard_filter.SpecGuardFilter()
            scheduler.install()
        self.assert_first_and_once()

    def test_nova_s_own_follow_in_their_order(self):
        others = nova_request_filter.ALL_REQUEST_FILTERS[1:]
        self.assertIn(nova_request_filter.compute_status_filter, others)
        scheduler.install()
        self.assertEqual(others, nova_request_filter.ALL_REQUEST_FILTERS[1:])

    def test_nova_runs_it(self):
        with mock.patch.object(
                nova_request_filter, 'ALL_REQUEST_FILTERS',
                nova_request_filter.ALL_REQUEST_FILTERS[:1]):
            nova_request_filter.process_reqspec(self.context, self.drifted())
            self.assertRaises(
                nova_exception.RequestFilterFailed,
                nova_request_filter.process_reqspec, self.context,
                self.not_correctable())


class RequestFilterTest(SchedulerTestCase):

    def test_consistent_request_passes_unchanged(self):
        spec = builders.spec(ignore_hosts=['amd1'])
        before = builders.stored(spec)
        self.assertTrue(self.request(spec))
        self.assertEqual(before, builders.stored(spec))
        self.assertEqual([], self.alerts.incidents)

    def test_drift_is_corrected_before_placement_is_asked(self):
        spec = self.drifted()
        self.assertTrue(self.request(spec))
        self.assertEqual(982, spec.flavor.id)
        (alert,) = self.alerts.incidents
        self.assertEqual('SPECGUARD-101', alert['code'])
        self.assertEqual('live-migration', alert['operation'])
        self.assertEqual('nova-scheduler', alert['service'])

    def test_what_cannot_be_corrected_is_refused(self):
        self.assertFalse(self.request(self.not_correctable()))
        (alert,) = self.alerts.incidents
        self.assertEqual('SPECGUARD-102', alert['code'])
        self.assertEqual('refused', alert['outcome'])

    def test_refusal_names_the_server(self):
        error = self.assertRaises(
            nova_exception.RequestFilterFailed,
            request_filter.verify_request_spec, self.context,
            self.not_correctable())
        self.assertIn(builders.UUID, str(error))

    def test_correction_that_is_not_wanted_is_a_refusal(self):
        self.configure(correct=False)
        spec = self.drifted()
        self.assertFalse(self.request(spec))
        self.assertEqual(831, spec.flavor.id)

    def test_refused_request_is_not_corrected(self):
        spec = self.not_correctable(flavor=builders.e2_medium())
        self.assertFalse(self.request(spec))
        self.assertEqual(831, spec.flavor.id)
        (alert,) = self.alerts.incidents
        self.assertEqual('flavor,pci_requests', alert['fields'])

    def test_mode_warn_alerts_and_changes_nothing(self):
        self.configure(mode='warn')
        spec = self.drifted()
        self.assertTrue(self.request(spec))
        self.assertEqual(831, spec.flavor.id)
        self.assertEqual(['103'], [
            alert['code'][-3:] for alert in self.alerts.incidents])

    def test_mode_off_reads_nothing_and_alerts_nothing(self):
        self.configure(mode='off',
                       operation_modes={'live-migration': 'enforce'},
                       field_modes={'flavor': 'enforce'})
        self.assertTrue(self.request(self.drifted()))
        self.assertFalse(self.read.called)
        self.assertEqual([], self.alerts.incidents)

    def test_resize_keeps_the_flavor_that_was_asked_for(self):
        self.server_is(task_states.RESIZE_PREP)
        spec = marked(flavor=builders.e2_medium())
        self.assertTrue(self.request(spec))
        self.assertEqual(831, spec.flavor.id)
        self.assertEqual([], self.alerts.incidents)

    def test_resize_on_a_lagging_database_node(self):
        # It shows the server before the resize was asked for, or in the move
        # before.
        for task_state in (None, task_states.MIGRATING,
                           task_states.REBUILDING, task_states.UNSHELVING):
            self.server_is(task_state)
            spec = marked(flavor=builders.e2_medium())
            self.assertTrue(self.request(spec), task_state)
            self.assertEqual(831, spec.flavor.id)
        self.assertEqual([], self.alerts.incidents)

    def test_resize_after_a_rebuild_that_a_lagging_node_has_not_seen(self):
        for task_state in (None, task_states.REBUILDING,
                           task_states.REBUILD_SPAWNING):
            self.alerts.records.clear()
            alerts.reporter.cache_clear()
            self.server_is(task_state, image_meta=builders.image_meta(),
                           base_image_ref=builders.OTHER_UUID)
            for of_flavor in (builders.flavor(), builders.e2_medium()):
                spec = marked(image=other_image(),
                              flavor=of_flavor)
                self.assertTrue(self.request(spec))
                self.assertEqual(builders.UUID, spec.image.id)
            # one incident
            (alert,) = self.alerts.incidents
            self.assertEqual(('SPECGUARD-103', 'image'),
                             (alert['code'], alert['fields']))

    def test_nothing_of_a_marked_request_is_corrected(self):
        self.server_is(task_states.RESIZE_PREP)
        topology = builders.constraints(
            builders.flavor(extra_specs={'hw:numa_nodes': '2'}))
        spec = marked(numa_topology=topology)
        self.assertFalse(self.request(spec))
        self.assertIsNotNone(spec.numa_topology)

    def test_flavor_with_another_device_profile_is_not_corrected(self):
        # nova-conductor has made request groups of it.
        spec = self.drifted(flavor=builders.e2_medium(
            extra_specs={'accel:device_profile': 'fpga'}))
        self.assertFalse(self.request(spec))
        self.assertEqual(831, spec.flavor.id)

    def test_flavor_with_the_same_device_profile_is(self):
        profile = {'accel:device_profile': 'fpga'}
        self.server_is(task_states.MIGRATING,
                       flavor=builders.flavor(extra_specs=profile))
        spec = self.drifted(flavor=builders.e2_medium(extra_specs=profile))
        self.assertTrue(self.request(spec))
        self.assertEqual(982, spec.flavor.id)

    def test_left_over_pci_requests_are_not_corrected(self):
        spec = self.drifted(pci_requests=builders.pci_requests(
            builders.pci_request()))
        self.assertFalse(self.request(spec))
        self.assertEqual(1, len(spec.pci_requests.requests))
        self.assertEqual(831, spec.flavor.id)

    def test_unknown_operation_is_alerted_never_refused(self):
        self.server_is(None)
        spec = self.drifted()
        self.assertTrue(self.request(spec))
        self.assertEqual(831, spec.flavor.id)
        (alert,) = self.alerts.incidents
        self.assertEqual('SPECGUARD-103', alert['code'])
        self.assertEqual('unknown', alert['operation'])

    def test_server_that_is_gone_is_left_to_nova(self):
        self.read.side_effect = exception.InstanceGone(
            instance=builders.UUID)
        self.assertTrue(self.request(self.drifted()))
        self.assertEqual([], self.alerts.incidents)


def other_image():
    """Neither id nor properties are those of the server's."""
    return builders.image_meta(builders.UUID, os_type='linux')


class WhoMayCorrectTest(SchedulerTestCase):
    """nova-conductor goes on with its own copy of the spec."""

    def assert_outcome(self, outcome, field, spec, task_state, **server):
        self.server_is(task_state, **{
            'image_meta': builders.image_meta(),
            'base_image_ref': builders.OTHER_UUID, **server})
        self.alerts.records.clear()
        alerts.reporter.cache_clear()
        went_on = self.request(spec)
        (alert,) = self.alerts.incidents
        self.assertEqual((outcome, field), (alert['outcome'],
                                            alert['fields']))
        self.assertEqual(outcome != 'refused', went_on)
        return spec

    def moves(self, **values):
        """Each with the task state of its server."""
        for task_state in (task_states.MIGRATING, task_states.UNSHELVING):
            yield builders.spec(**values), task_state
        yield marked(**values), task_states.RESIZE_PREP

    def test_project_is_corrected_in_every_move(self):
        for spec, task_state in self.moves(project_id='admin'):
            self.assert_outcome('corrected', 'project', spec, task_state)
            self.assertEqual(builders.PROJECT, spec.project_id)

    def test_user_is_corrected_in_every_move(self):
        for spec, task_state in self.moves(user_id='root'):
            self.assert_outcome('corrected', 'project', spec, task_state)
            self.assertEqual(builders.USER, spec.user_id)

    def test_project_of_a_resize(self):
        spec = marked(project_id='admin', flavor=builders.e2_medium())
        self.assert_outcome('corrected', 'project', spec,
                            task_states.RESIZE_PREP)
        self.assertEqual((builders.PROJECT, 831),
                         (spec.project_id, spec.flavor.id))

    def test_image_is_corrected_unless_marked(self):
        for spec, task_state in self.moves(
                image=other_image()):
            is_marked = task_state == task_states.RESIZE_PREP
            self.assert_outcome('refused' if is_marked else 'corrected',
                                'image', spec, task_state)
            self.assertEqual(
                builders.UUID if is_marked else builders.OTHER_UUID,
                spec.image.id)

    def test_image_properties_are_corrected_unless_marked(self):
        for spec, task_state in self.moves(
                image=builders.image_meta(os_distro='debian')):
            is_marked = task_state == task_states.RESIZE_PREP
            self.assert_outcome('refused' if is_marked else 'corrected',
                                'image', spec, task_state)

    def test_ambiguous_image_goes_on_as_it_is(self):
        for spec, task_state in self.moves(
                image=other_image()):
            self.assert_outcome('allowed', 'image', spec, task_state,
                                base_image_ref=builders.UUID)
            self.assertEqual(builders.UUID, spec.image.id)

    def test_is_bfv_is_corrected_unless_marked(self):
        for spec, task_state in self.moves(is_bfv=True):
            is_marked = task_state == task_states.RESIZE_PREP
            self.assert_outcome('refused' if is_marked else 'corrected',
                                'is_bfv', spec, task_state,
                                is_volume_backed=False)
            self.assertIs(is_marked, spec.is_bfv)

    def test_server_group_is_never_corrected(self):
        # nova-conductor has collected the hosts of the group.
        for spec, task_state in self.moves(
                instance_group=builders.server_group(builders.OTHER_UUID)):
            self.assert_outcome(
                'allowed', 'instance_group', spec, task_state,
                surroundings=builders.surroundings(builders.GROUP),
                server_group=builders.server_group())
            self.assertEqual(builders.OTHER_UUID, spec.instance_group.uuid)

    def test_group_that_the_server_is_no_member_of_refuses_nothing(self):
        for spec, task_state in self.moves(
                instance_group=builders.server_group()):
            self.assert_outcome('allowed', 'instance_group', spec, task_state,
                                surroundings=builders.surroundings())

    def test_rebuild_hint_is_never_corrected(self):
        for spec, task_state in self.moves(
                scheduler_hints=REBUILD['scheduler_hints']):
            self.assert_outcome('refused', 'scheduler_hints', spec,
                                task_state)
            self.assertIn('_nova_check_type', spec.scheduler_hints)

    def test_zone_refuses_nothing(self):
        self.configure(field_modes={'availability_zone': 'enforce'})
        for spec, task_state in self.moves(availability_zone='az1'):
            self.assert_outcome(
                'allowed', 'availability_zone', spec, task_state,
                surroundings=builders.surroundings(zone='az2'))

    def test_pci_requests_are_never_corrected(self):
        for spec, task_state in self.moves(
                pci_requests=builders.pci_requests(builders.pci_request())):
            self.assert_outcome('refused', 'pci_requests', spec, task_state)

    def test_one_that_stays_does_not_keep_others_from_being_corrected(self):
        spec = builders.spec(
            project_id='admin', image=other_image(),
            instance_group=builders.server_group())
        self.server_is(
            task_states.MIGRATING, image_meta=builders.image_meta(),
            base_image_ref=builders.OTHER_UUID,
            surroundings=builders.surroundings())
        self.assertTrue(self.request(spec))
        self.assertEqual((builders.PROJECT, builders.OTHER_UUID),
                         (spec.project_id, spec.image.id))
        self.assertEqual(['101', '103'], self.alerts.codes[1:])

    def test_nothing_is_corrected_after_the_host_manager(self):
        self.server_is(
            task_states.MIGRATING, is_volume_backed=False,
            image_meta=builders.image_meta(),
            base_image_ref=builders.OTHER_UUID)
        for values in ({'project_id': 'admin'}, {'is_bfv': True},
                       {'image': other_image()}):
            spec = builders.spec(**values)
            before = builders.stored(spec)
            self.assertEqual([], self.filtered(spec))
            self.assertEqual(before, builders.stored(spec))

    def test_rebuild_is_alerted_only(self):
        self.server_is(
            task_states.REBUILDING, image_meta=builders.image_meta(),
            base_image_ref=builders.OTHER_UUID)
        self.assertEqual(self.hosts, self.filtered(builders.spec(
            image=other_image(), **REBUILD)))
        (alert,) = self.alerts.incidents
        self.assertEqual(('SPECGUARD-103', 'image'),
                         (alert['code'], alert['fields']))

    def test_evacuation_with_a_left_over_hint(self):
        # nova-conductor clears the forced host of every evacuation.
        self.server_is(task_states.REBUILDING)
        self.assertEqual(self.hosts, self.filtered(builders.spec(
            scheduler_hints=REBUILD['scheduler_hints'],
            ignore_hosts=['amd1'])))
        (alert,) = self.alerts.incidents
        self.assertEqual(('SPECGUARD-103', 'evacuate', 'scheduler_hints'), (
            alert['code'], alert['operation'], alert['fields']))


class UnverifiableTest(SchedulerTestCase):

    def setUp(self):
        super().setUp()
        self.read.side_effect = exception.LookupTimedOut(timeout=10)

    def outcome(self, spec):
        went_on = self.request(spec)
        (alert,) = self.alerts.of('201')
        self.assertEqual('allowed' if went_on else 'refused',
                         alert['outcome'])
        return alert['outcome']

    def test_resize_and_cold_migration_are_refused(self):
        self.assertEqual('refused', self.outcome(marked()))

    def test_unshelve_is_refused(self):
        self.assertEqual('refused', self.outcome(builders.spec()))

    def test_what_may_be_an_evacuation_is_allowed(self):
        self.assertEqual('allowed', self.outcome(
            builders.spec(ignore_hosts=['amd1'])))

    def test_what_may_be_one_is_refused_if_the_operator_wrote_it(self):
        self.configure(operation_modes={'evacuate': 'enforce'})
        self.assertEqual('refused', self.outcome(
            builders.spec(ignore_hosts=['amd1'])))

    def test_all_are_allowed_if_the_operator_wrote_it(self):
        self.configure(on_unverifiable='allow')
        self.assertEqual('allowed', self.outcome(marked()))

    def test_boot_is_not_even_tried(self):
        self.assertTrue(self.request(
            builders.spec(requested_destination=None)))
        self.assertFalse(self.read.called)
        self.assertEqual([], self.alerts.incidents)

    def test_rebuild_is_never_refused(self):
        self.assertEqual(self.hosts, self.filtered(builders.spec(**REBUILD)))
        (alert,) = self.alerts.of('201')
        self.assertEqual('allowed', alert['outcome'])

    def test_server_without_flavor(self):
        self.server_is(task_states.UNSHELVING, flavor=None)
        self.assertEqual('refused', self.outcome(builders.spec()))


class HostFilterTest(SchedulerTestCase):
    """Where nova runs no request filter: rebuilds, poisoned requests."""

    def test_it_runs_on_rebuilds_and_once_per_request(self):
        self.assertTrue(self.filter.RUN_ON_REBUILD)
        self.assertTrue(self.filter.run_filter_once_per_request)

    def test_consistent_request_passes_every_host(self):
        self.assertEqual(self.hosts, self.filtered(
            builders.spec(ignore_hosts=['amd1'])))

    def test_refused_request_passes_none(self):
        self.assertEqual([], self.filtered(self.drifted()))
        (alert,) = self.alerts.incidents
        self.assertEqual('SPECGUARD-102', alert['code'])

    def test_it_is_too_late_to_correct(self):
        # placement was asked with what is stale.
        spec = self.drifted()
        self.filtered(spec)
        self.assertEqual(831, spec.flavor.id)

    def test_rebuild_is_alerted_and_never_refused(self):
        self.server_is(task_states.REBUILDING)
        self.assertEqual(
            self.hosts, self.filtered(self.drifted(**REBUILD)))
        (alert,) = self.alerts.incidents
        self.assertEqual('SPECGUARD-103', alert['code'])
        self.assertEqual('rebuild', alert['operation'])

    def test_evacuation_is_not_refused(self):
        self.server_is(task_states.REBUILDING)
        self.assertEqual(self.hosts, self.filtered(self.drifted()))
        self.assertEqual('evacuate', self.alerts.incidents[0]['operation'])

    def test_left_over_rebuild_hint_does_not_hide_drift(self):
        # nova takes it for a rebuild and claims nothing in placement.
        self.assertEqual([], self.filtered(self.drifted(
            scheduler_hints=REBUILD['scheduler_hints'])))

    def test_single_host(self):
        self.assertFalse(self.filter.host_passes(
            self.hosts[0], self.drifted()))
        self.assertTrue(self.filter.host_passes(
            self.hosts[0], builders.spec()))

    def test_no_host_is_looked_at(self):
        # at most 0.2 microseconds per host
        hosts = [mock.NonCallableMock(spec=[]) for _host in range(3)]
        self.assertEqual(hosts, list(self.filter.filter_all(
            hosts, builders.spec())))

    def test_reads_go_on_with_the_context_of_the_request(self):
        spec = builders.spec()
        spec._context = self.context
        self.filtered(spec)
        self.assertIs(self.context, self.read.call_args[0][0])

    def test_request_without_context(self):
        # also where nova's own tests and tools call the filter
        self.assertEqual(self.hosts, self.filtered(builders.spec()))
        self.assertTrue(self.read.call_args[0][0].is_admin)


class OncePerRequestTest(SchedulerTestCase):

    def test_host_filter_does_not_examine_again(self):
        spec = builders.spec(ignore_hosts=['amd1'])
        self.request(spec)
        self.assertEqual(self.hosts, self.filtered(spec))
        self.assertEqual(1, self.read.call_count)

    def test_corrected_request_passes_the_host_filter(self):
        spec = self.drifted()
        self.request(spec)
        self.assertEqual(self.hosts, self.filtered(spec))
        self.assertEqual(1, self.read.call_count)
        self.assertEqual(1, len(self.alerts.incidents))

    def test_drift_that_is_allowed_is_alerted_once(self):
        self.configure(mode='warn')
        spec = self.drifted()
        self.request(spec)
        self.filtered(spec)
        self.assertEqual(1, self.read.call_count)
        self.assertEqual(1, len(self.alerts.incidents))

    def test_unverifiable_request_is_alerted_once(self):
        self.read.side_effect = exception.LookupTimedOut(timeout=10)
        spec = builders.spec(ignore_hosts=['amd1'])
        self.request(spec)
        self.assertEqual(self.hosts, self.filtered(spec))
        self.assertEqual(1, self.read.call_count)

    def test_mark_is_still_believed_after_the_host_manager(self):
        # which sets the attribute that marks a resize on every request.
        self.server_is(None)
        spec = marked(flavor=builders.e2_medium())
        self.request(spec)
        self.assertTrue(
            spec.requested_destination.allow_cross_cell_move is False)
        self.assertEqual(self.hosts, self.filtered(spec))

    def test_next_request_is_examined_again(self):
        # RPC makes an object of its own for each.
        for _time in range(2):
            self.request(builders.spec())
        self.assertEqual(2, self.read.call_count)

    def test_examined_request_can_still_be_sent(self):
        spec = self.drifted()
        self.request(spec)
        received = objects.RequestSpec.obj_from_primitive(
            builders.stored(spec))
        self.request(received)
        self.assertEqual(2, self.read.call_count)

    def test_requests_are_counted_once(self):
        spec = builders.spec()
        self.request(spec)
        self.filtered(spec)
        self.use(alerts.reporter('nova-scheduler'), summary_interval=0)
        self.assertEqual('2', self.alerts.of('001')[0]['checked'])


class BootTest(SchedulerTestCase):

    def boot(self, **values):
        return builders.spec(**{
            'requested_destination': None, 'flavor': builders.e2_medium(),
            **values})

    def test_boot_costs_no_read(self):
        spec = self.boot()
        self.assertTrue(self.request(spec))
        self.assertEqual(self.hosts, self.filtered(spec))
        self.assertFalse(self.read.called)

    def test_multi_create_costs_no_read(self):
        # one request spec for all, and the filters once for each
        spec = self.boot(num_instances=3)
        self.assertTrue(self.request(spec))
        for index in range(3):
            self.assertEqual(self.hosts, self.filtered(spec, index))
        self.assertFalse(self.read.called)

    def test_boot_on_a_host_that_was_asked_for_costs_no_read(self):
        spec = self.boot(requested_destination=objects.Destination(
            host='amd1'))
        self.assertTrue(self.request(spec))
        self.assertFalse(self.read.called)

    def test_boot_is_counted_and_not_alerted(self):
        self.request(self.boot())
        self.assertEqual(['002'], self.alerts.codes)


class FaultTest(SchedulerTestCase):
    """What goes wrong in the guard never reaches nova."""

    def assert_goes_on(self, broken):
        with mock.patch('nova_specguard.' + broken,
                        side_effect=ZeroDivisionError):
            self.assertTrue(self.request(self.drifted()))
            self.assertEqual(self.hosts, self.filtered(
                self.drifted(instance_uuid=builders.OTHER_UUID)))

    def test_fault_is_alerted_and_the_request_goes_on(self):
        for broken in ('guard.examine', 'guard.enforce', 'instances.read',
                       'fields.differences', 'operation.is_boot',
                       'operation.from_request'):
            alerts.reporter.cache_clear()
            self.alerts.records.clear()
            self.assert_goes_on(broken)
            self.assertEqual(2, len(self.alerts.of('202')), broken)

    def test_fault_while_correcting(self):
        with mock.patch('nova_specguard.fields.apply',
                        side_effect=ZeroDivisionError):
            self.assertTrue(self.request(self.drifted()))
        self.assertIn('202', self.alerts.codes)

    def test_fault_of_the_mark(self):
        with mock.patch('nova_specguard.operation.is_marked_as_resize',
                        side_effect=ZeroDivisionError):
            self.assertTrue(self.request(self.drifted()))
        self.assertIn('202', self.alerts.codes)

    def test_fault_of_the_options(self):
        self.assert_goes_on('conf.options')

    def test_fault_of_the_alert_itself(self):
        self.assert_goes_on('alerts.Reporter.drift')

    def test_fault_of_the_alert_of_a_fault(self):
        with mock.patch('nova_specguard.guard.examine',
                        side_effect=ZeroDivisionError):
            self.assert_goes_on('alerts.Reporter.fault')

    def test_fault_of_the_life_signs_and_the_counting(self):
        self.assert_goes_on('alerts.Reporter.begin')
        self.assert_goes_on('alerts.Reporter.end')

    def test_fault_of_the_alert_line(self):
        self.assert_goes_on('alerts.line')

    def test_request_without_uuid(self):
        with mock.patch('nova_specguard.operation.is_boot',
                        side_effect=ZeroDivisionError):
            self.assertTrue(self.request(objects.RequestSpec()))

    def test_empty_request(self):
        spec = objects.RequestSpec(
            requested_destination=builders.destination())
        self.assertTrue(self.request(spec))
