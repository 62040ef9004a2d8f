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

import contextlib
import copy
import json
from unittest import mock

import fixtures
import nova.conf
from nova import context as nova_context
from nova import exception
from nova import objects
from nova.scheduler import weights
from nova.tests.functional import integrated_helpers
from nova import utils

from tests.functional import fixtures as specguard_fixtures
from tests.functional import world

CONF = nova.conf.CONF

IMAGE = '155d900f-4e14-4e4c-a73d-069cbf4541e6'
OTHER_IMAGE = '70a599e0-31e7-49b7-b260-868f441e862b'

# The last four isolate nothing until a test makes aggregates or groups for
# them.
NOVA_FILTERS = [
    'ComputeFilter', 'AggregateInstanceExtraSpecsFilter',
    'NUMATopologyFilter', 'PciPassthroughFilter',
    'AggregateImagePropertiesIsolation', 'AggregateMultiTenancyIsolation',
    'ServerGroupAntiAffinityFilter', 'ServerGroupAffinityFilter']

UNFINISHED = (
    'queued', 'accepted', 'pre-migrating', 'preparing', 'running',
    'migrating', 'post-migrating', 'confirming', 'reverting')


class PreferenceWeigher(weights.BaseHostWeigher):
    """Takes the first host of the world that passed the filters."""

    def _weigh_object(self, host_state, weight_properties):
        return -list(world.VENDORS).index(host_state.host)


class TestCase(integrated_helpers.ProviderUsageBaseTestCase):
    """Real nova services with the guard, on the cloud of tests.world."""

    compute_driver = 'fake.WorldDriver'
    # The newest of nova 26, so that a test means the same everywhere: from
    # 2.95 on an evacuated server is left stopped.
    microversion = '2.93'
    hosts = tuple(world.VENDORS)
    cell_name = None
    conductor_is_guarded = True

    def setUp(self):
        self._configure_nova()
        self.useFixture(specguard_fixtures.SpecGuard(
            conductor=self.conductor_is_guarded))
        self.alerts = self.useFixture(specguard_fixtures.Alerts())
        super().setUp()
        for host in self.hosts:
            self._start_compute(host, cell_name=self.cell_name)
        self._create_aggregates()
        self._create_flavors()

    # The cloud

    def _configure_nova(self):
        self.useFixture(fixtures.MonkeyPatch(
            'nova.virt.fake.WorldDriver', world.WorldDriver))
        self.flags(group='pci', **world.PCI_CONFIG)
        self.flags(group='quota', cores=-1, ram=-1)
        self.flags(
            group='filter_scheduler', enabled_filters=NOVA_FILTERS,
            weight_classes=[__name__ + '.PreferenceWeigher'])
        if specguard_fixtures.GUARDED:
            self.flags(
                group='filter_scheduler',
                available_filters=['nova_specguard.scheduler.all_filters'],
                enabled_filters=['SpecGuardFilter'] + NOVA_FILTERS)

    def _create_aggregates(self):
        for vendor in (world.AMD, world.INTEL):
            hosts = [h for h in self.hosts if world.VENDORS[h] == vendor]
            self._aggregate(vendor, hosts, cpu_vendor=vendor)

    def create_zone(self, name, hosts):
        return self._aggregate(name, hosts, availability_zone=name)

    def _aggregate(self, name, hosts, **metadata):
        aggregate = self._create_aggregate(name)
        for host in hosts:
            self.admin_api.post_aggregate_action(
                aggregate, {'add_host': {'host': host}})
        self.admin_api.post_aggregate_action(
            aggregate, {'set_metadata': {'metadata': metadata}})
        return aggregate

    def _create_flavors(self):
        for flavor in world.FLAVORS:
            objects.Flavor(context=self.context, **flavor.fields).create()

    def set_guard(self, **options):
        if specguard_fixtures.GUARDED:
            self.flags(group='specguard', **options)

    # What the databases hold

    @property
    def context(self):
        return nova_context.get_admin_context()

    def spec_row(self, server):
        """The row as it is: loading the object would mend it."""
        row = objects.RequestSpec._get_by_instance_uuid_from_db(
            self.context, server['id'])
        return json.loads(row['spec'])

    def spec_of(self, server):
        return self.spec_row(server)['nova_object.data']

    def edit_spec(self, server, edit):
        row = self.spec_row(server)
        edit(row['nova_object.data'])
        objects.RequestSpec._save_in_db(
            self.context, server['id'], {'spec': json.dumps(row)})

    def spec_flavor(self, server):
        return self.spec_of(server)['flavor']['nova_object.data']['name']

    def spec_has_numa(self, server):
        return self.spec_of(server)['numa_topology'] is not None

    def spec_pci_aliases(self, server):
        requests = self.spec_of(server)['pci_requests']
        if requests is None:
            return []
        return [r['nova_object.data']['alias_name']
                for r in requests['nova_object.data']['requests']]

    @contextlib.contextmanager
    def cell_of(self, server):
        mapping = objects.InstanceMapping.get_by_instance_uuid(
            self.context, server['id'])
        with nova_context.target_cell(
                self.context, mapping.cell_mapping) as cell_context:
            yield cell_context

    def instance_of(self, server):
        with self.cell_of(server) as cell_context:
            return objects.Instance.get_by_uuid(
                cell_context, server['id'],
                expected_attrs=['flavor', 'numa_topology', 'pci_requests',
                                'system_metadata'])

    def allocation(self, server, host):
        provider = self._get_provider_uuid_by_name(host)
        allocations = self._get_allocations_by_server_uuid(server['id'])
        return allocations.get(provider, {}).get('resources', {})

    def show(self, server):
        return self.admin_api.get_server(server['id'])

    def host_of(self, server):
        return self.show(server)['OS-EXT-SRV-ATTR:host']

    # What is expected

    def eventually(self, check):
        return self._wait_for_assert(check, max_retries=300, sleep=0.1)

    def assert_allocation(self, server, host, resources):
        self.eventually(lambda: self.assertEqual(
            resources, self.allocation(server, host)))

    def assert_runs(self, server, host, flavor, status='ACTIVE'):
        """The server is where it should be, with the size it has."""
        shown = self.show(server)
        self.assertEqual(host, shown['OS-EXT-SRV-ATTR:host'])
        self.assertEqual(status, shown['status'])
        self.assertIsNone(shown['OS-EXT-STS:task_state'])
        self.assertEqual(flavor.name, self.instance_of(server).flavor.name)
        self.assert_allocation(server, host, flavor.resources)

    def assert_drifted(self, server, spec_flavor, flavor):
        self.assertEqual(spec_flavor.name, self.spec_flavor(server))
        self.assertEqual(flavor.name, self.instance_of(server).flavor.name)

    def assert_alert(self, code, server, operation, fields, **more):
        """Exactly one incident, and this one."""
        self.assert_alerts(server, operation, (code, fields))
        self.assertEqual(
            more, {key: self.alerts.incidents[0].get(key) for key in more})

    def assert_alerts(self, server, operation, *codes_and_fields):
        """Exactly these incidents, all of one server and operation."""
        self.assertEqual(
            [(code, server['id'], operation, fields)
             for code, fields in codes_and_fields],
            [tuple(map(alert.get, ('code', 'instance', 'operation', 'fields')))
             for alert in self.alerts.incidents],
            self.alerts.incidents)

    def assert_no_alert(self):
        self.assertEqual([], self.alerts.incidents)

    def events_of(self, server):
        """The guard's events of all actions, as nova's API shows them."""
        api = self.admin_api
        with utils.temporary_mutation(api, microversion='2.84'):
            path = '/servers/%s/os-instance-actions' % server['id']
            actions = api.api_get(path).body['instanceActions']
            events = [
                dict(event, request_id=action['request_id'])
                for action in actions
                for event in api.api_get('%s/%s' % (
                    path, action['request_id'])).body[
                        'instanceAction']['events']]
        return [event for event in events
                if event['event'].startswith('specguard_')]

    def assert_events(self, server, *names):
        """Exactly these, with the text of the alerts, which name the request.

        Written after the move goes on, so maybe after it has ended.
        """
        expected = sorted(
            (name, alert['request_id'], alert['text'])
            for name, alert in zip(names, self.alerts.incidents))
        self.assertEqual(len(names), len(self.alerts.incidents))
        self.eventually(lambda: self.assertEqual(expected, sorted(
            (event['event'], event['request_id'], event['details'])
            for event in self.events_of(server))))

    # Operations: each returns when nova has ended it

    def boot(self, flavor=world.A2_MEDIUM, host=None, **request):
        body = self._build_server(
            image_uuid=IMAGE, flavor_id=flavor.flavorid, networks='none',
            host=host)
        server = self.admin_api.post_server({'server': {**body, **request}})
        self.eventually(lambda: self.assertEqual(
            'ACTIVE', self.show(server)['status']))
        return self.show(server)

    def boot_reported_case(self):
        """a2.medium on amd1, booted as e2.medium like the reported server.

        nova refuses a resize to a disk smaller than the one of the boot, so
        without this history no later resize to e2.medium would begin.
        """
        server = self.boot(world.E2_MEDIUM, host='intel1')
        self.resize(server, world.A2_MEDIUM)
        return self.confirm(server)

    def act(self, server, action, microversion=None):
        """Have the API do something and wait until nova is at rest."""
        with utils.temporary_mutation(
                self.admin_api,
                microversion=microversion or self.microversion):
            self.admin_api.post_server_action(server['id'], action)
        return self.settle(server)

    def settle(self, server):
        # By the database: asking the API so often takes nova's time.
        def assert_at_rest():
            with self.cell_of(server) as cell_context:
                instance = objects.Instance.get_by_uuid(
                    cell_context, server['id'], expected_attrs=[])
                migrations = objects.MigrationList.get_by_filters(
                    cell_context, {'instance_uuid': server['id']})
            self.assertIsNone(instance.task_state)
            newest = max(migrations, key=lambda m: m.id, default=None)
            self.assertNotIn(newest and newest.status, UNFINISHED)
        self.eventually(assert_at_rest)
        return self.show(server)

    def live_migrate(self, server, host=None):
        return self.act(server, {'os-migrateLive': {
            'host': host, 'block_migration': 'auto'}})

    def force_live_migrate(self, server, host):
        return self.act(server, {'os-migrateLive': {
            'host': host, 'block_migration': 'auto', 'force': True}},
            microversion='2.30')

    def live_migrate_by_old_api(self, server, host=None):
        """Below 2.34 conductor is called through migrate_server."""
        return self.act(server, {'os-migrateLive': {
            'host': host, 'block_migration': False,
            'disk_over_commit': False}}, microversion='2.1')

    def migrate(self, server, host=None):
        return self.act(server, {'migrate': {'host': host} if host else None})

    def resize(self, server, flavor):
        return self.act(server, {'resize': {'flavorRef': flavor.flavorid}})

    def confirm(self, server):
        self.act(server, {'confirmResize': None})
        # The migration is confirmed before the server is ACTIVE.
        self.eventually(lambda: self.assertNotEqual(
            'VERIFY_RESIZE', self.show(server)['status']))
        return self.settle(server)

    def revert(self, server):
        return self.act(server, {'revertResize': None})

    def evacuate(self, server, host=None):
        self.fence(self.host_of(server))
        return self.act(
            server, {'evacuate': {'host': host} if host else {}})

    def fence(self, host):
        self.computes[host].stop()
        service = self.admin_api.get_services(
            host=host, binary='nova-compute')[0]
        self.admin_api.put_service(service['id'], {'forced_down': True})

    def shelve(self, server):
        self.act(server, {'shelve': None})
        self.eventually(lambda: self.assertEqual(
            'SHELVED_OFFLOADED', self.show(server)['status']))
        return self.settle(server)

    def unshelve(self, server, **target):
        """target: host=… or availability_zone=…"""
        return self.act(server, {'unshelve': target or None})

    def rebuild(self, server, image=OTHER_IMAGE):
        return self.act(server, {'rebuild': {'imageRef': image}})

    def stop(self, server):
        return self.act(server, {'os-stop': None})

    def start(self, server):
        return self.act(server, {'os-start': None})

    def reset_state(self, server):
        self.admin_api.post_server_action(
            server['id'], {'os-resetState': {'state': 'active'}})
        return self.show(server)

    def hard_reboot(self, server):
        return self.act(server, {'reboot': {'type': 'HARD'}})

    # How operations fail, by nova's own code

    def fail_resize(self, server, flavor):
        """The source's driver refuses, and nova hides it: ACTIVE, no fault.

        libvirt does this for 'Unable to resize disk down'.
        """
        error = exception.InstanceFaultRollback(
            inner_exception=exception.ResizeError(
                reason='Unable to resize disk down.'))
        with self.driver_fails('migrate_disk_and_power_off', error):
            self.resize(server, flavor)
        self.eventually(lambda: self.assertEqual(
            {}, self._other_allocations(server)))
        return self.show(server)

    def _other_allocations(self, server):
        """nova gives the target's back some time after the failure."""
        here = self._get_provider_uuid_by_name(self.host_of(server))
        allocations = self._get_allocations_by_server_uuid(server['id'])
        return {rp: a for rp, a in allocations.items() if rp != here}

    def driver_fails(self, method, error):
        return mock.patch.object(
            world.WorldDriver, method, side_effect=copy.copy(error))

    def exceed_all_hosts(self, server):
        """The spec holds a flavor that placement has no candidate for.

        nova gets there if the flavor fitted when its resize failed; here it
        never did.
        """
        flavor = objects.Flavor.get_by_flavor_id(
            self.context, world.TOO_BIG.flavorid).obj_to_primitive()
        self.edit_spec(server, lambda spec: spec.update(flavor=flavor))

    def edit_extra_specs(self, server):
        """As operators do on purpose."""
        def edit(spec):
            flavor = spec['flavor']['nova_object.data']
            flavor['extra_specs'][world.ISOLATION] = world.INTEL
        self.edit_spec(server, edit)

    def leave_numa_behind(self, server):
        """Only numa_topology is left over, the flavor is right again.

        nova's own cold migrate does that after a failed resize.
        """
        self.set_guard(mode='off')
        self.fail_resize(server, world.E2_NUMA)
        self.migrate(server, host='amd3-numa')
        self.confirm(server)
        self.set_guard(mode='enforce')

    def leave_pci_behind(self, server):
        """Only pci_requests are left over: nova reverts all but them."""
        self.resize(server, world.E2_GPU)
        self.revert(server)
