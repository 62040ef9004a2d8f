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

from nova import objects

from nova_specguard import fields
from nova_specguard.operation import Operation
from tests.unit import base
from tests.unit import builders

REQUEST_ID = builders.pci_request().request_id
OTHER_REQUEST_ID = '0d1a2b3c-4d5e-4f60-8a7b-9c0d1e2f3a4b'
RP_UUID = '6c1f3a4e-2b7d-4f0e-9b57-2f5b2e7c1d10'


class PciTestCase(base.TestCase):

    def spec(self, *requests, flavor=None):
        return builders.spec(flavor=flavor or builders.gpu_flavor(),
                             pci_requests=builders.pci_requests(*requests))

    def server(self, *requests, flavor=None):
        return builders.current(
            flavor=flavor or builders.gpu_flavor(),
            pci_requests=builders.pci_requests(*requests))

    def assert_pci_requests(self, spec, current, **kwargs):
        return self.assert_drift(
            'pci_requests', 'pci-requests', spec, current, **kwargs)


class NoDifferenceTest(PciTestCase):

    def test_none_on_either_side(self):
        for of_server in (None, [], builders.pci_requests()):
            self.assert_consistent(
                builders.spec(), builders.current(pci_requests=of_server))

    def test_request_spec_that_never_had_any(self):
        spec = builders.stored(builders.spec())
        for none in (None, {}, {'nova_object.data': {}}):
            spec['nova_object.data']['pci_requests'] = none
            self.assert_consistent(spec, builders.current())
        del spec['nova_object.data']['pci_requests']
        self.assert_consistent(spec, builders.current())

    def test_equal_requests(self):
        self.assert_consistent(self.spec(builders.pci_request()),
                               self.server(builders.pci_request()))

    def test_request_ids_are_fresh_after_every_move(self):
        self.assert_consistent(
            self.spec(builders.pci_request(request_id=OTHER_REQUEST_ID)),
            self.server(builders.pci_request()))
        self.assert_consistent(
            self.spec(builders.pci_request(request_id=None)),
            self.server(builders.pci_request()))

    def test_numa_policy_depends_on_who_wrote_it(self):
        for of_spec, of_server in ((None, 'legacy'), ('required', None),
                                   ('socket', 'preferred')):
            self.assert_consistent(
                self.spec(builders.pci_request(numa_policy=of_spec)),
                self.server(builders.pci_request(numa_policy=of_server)))

    def test_decoration_by_the_host(self):
        decorated = builders.pci_request(spec=[
            {**builders.pci_request().spec[0], 'rp_uuids': RP_UUID,
             'parent_ifname': 'enp129s0f0'}])
        self.assert_consistent(
            self.spec(builders.pci_request()), self.server(decorated))
        # An evacuation can hand it back to the request spec.
        self.assert_consistent(
            self.spec(decorated), self.server(builders.pci_request()))

    def test_requester_id_unset_against_none(self):
        request = objects.InstancePCIRequest(
            count=1, alias_name='gpu', spec=builders.pci_request().spec,
            request_id=REQUEST_ID)
        self.assert_consistent(
            self.spec(request), self.server(builders.pci_request()))

    def test_is_new_and_version(self):
        spec = builders.stored(self.spec(
            builders.pci_request(is_new=True)))
        stored = spec['nova_object.data']['pci_requests']
        stored['nova_object.version'] = '1.9'
        self.assert_consistent(spec, self.server(builders.pci_request()))

    def test_order_of_requests(self):
        flavor = builders.gpu_flavor('gpu:1,nic:2')
        gpu = builders.pci_request()
        nic = builders.pci_request(
            alias_name='nic', count=2, spec=[{'vendor_id': '8086'}])
        self.assert_consistent(
            self.spec(nic, builders.port_request(), gpu, flavor=flavor),
            self.server(gpu, nic, builders.port_request(), flavor=flavor))

    def test_order_of_device_specifications_and_their_keys(self):
        one = {'vendor_id': '10de', 'product_id': '1db4'}
        two = {'vendor_id': '10de', 'product_id': '1db5'}
        self.assert_consistent(
            self.spec(builders.pci_request(spec=[two, one])),
            self.server(builders.pci_request(
                spec=[dict(reversed(one.items())), two])))

    def test_row_as_instance_extra_holds_it(self):
        # a plain list of dicts, not a versioned object
        server = self.server(builders.pci_request(), builders.port_request())
        row = json.loads(server.pci_requests.to_json())
        self.assertIsInstance(row, list)
        current = builders.current(flavor=builders.gpu_flavor(),
                                   pci_requests=row)
        spec = self.spec(builders.pci_request(), builders.port_request())
        self.assert_consistent(spec, current)
        self.assert_consistent(builders.stored(spec), current)

    def test_port_that_is_attached_on_both_sides(self):
        self.assert_consistent(
            self.spec(builders.port_request(), flavor=builders.flavor()),
            self.server(
                builders.port_request(
                    request_id=OTHER_REQUEST_ID, numa_policy='legacy',
                    spec=[{'physical_network': 'physnet1',
                           'rp_uuids': RP_UUID,
                           'parent_ifname': 'enp129s0f0'}]),
                flavor=builders.flavor()))

    def test_resize_carries_the_requests_that_were_asked_for(self):
        self.assert_consistent(
            self.spec(builders.pci_request()),
            self.server(flavor=builders.flavor()), Operation.RESIZE)


class AliasConfigurationTest(PciTestCase):
    """``[pci] alias`` need not be configured in conductor and scheduler."""

    def assert_all_as_without(self):
        self.assert_consistent(self.spec(builders.pci_request()),
                               self.server(builders.pci_request()))
        left_over = self.assert_pci_requests(
            self.spec(builders.pci_request(), flavor=builders.flavor()),
            self.server(flavor=builders.flavor()))
        self.assertTrue(left_over.is_correctable)
        spec = self.spec()
        current = self.server(builders.pci_request())
        self.assertTrue(self.assert_pci_requests(spec, current).is_correctable)
        fields.apply(['pci_requests'], spec, current, self.options())
        self.assertEqual(builders.pci_request().spec,
                         spec.pci_requests.requests[0].spec)

    def test_alias_that_is_not_configured_here(self):
        self.conf.config(group='pci', alias=[])
        self.assert_all_as_without()

    def test_alias_that_was_changed_after_the_server_was_booted(self):
        self.conf.config(group='pci', alias=[json.dumps({
            'name': 'gpu', 'vendor_id': '1002', 'product_id': '73bf',
            'device_type': 'type-PF', 'numa_policy': 'required'})])
        self.assert_all_as_without()

    def test_broken_alias_configuration(self):
        self.conf.config(group='pci', alias=['{not json'])
        self.assert_all_as_without()


class DifferenceTest(PciTestCase):

    def test_requests_left_over_from_another_flavor(self):
        # revert_resize puts back flavor and NUMA topology only.
        for operation in (
                Operation.LIVE_MIGRATION, Operation.MIGRATE,
                Operation.EVACUATE, Operation.UNSHELVE, Operation.REBUILD,
                Operation.UNKNOWN):
            difference = self.assert_pci_requests(
                self.spec(builders.pci_request(), flavor=builders.flavor()),
                self.server(flavor=builders.flavor()), operation=operation)
            self.assertIn('gpu', difference.spec_value)
            self.assertEqual('-', difference.current_value)
            self.assertTrue(difference.is_correctable)

    def test_requests_missing_in_the_request_spec(self):
        difference = self.assert_pci_requests(
            self.spec(), self.server(builders.pci_request()))
        self.assertEqual('-', difference.spec_value)
        self.assertIn('gpu', difference.current_value)

    def test_everything_that_was_asked_for_counts(self):
        flavor = builders.gpu_flavor('gpu:2')
        server = self.server(builders.pci_request(count=2), flavor=flavor)
        for other in (
                builders.pci_request(count=1),
                builders.pci_request(count=2, alias_name='gpu2')):
            self.assert_pci_requests(self.spec(other, flavor=flavor), server)

    def test_alias_that_nova_compute_resolves_otherwise_by_now(self):
        flavor = builders.gpu_flavor('gpu:2')
        server = self.server(builders.pci_request(count=2), flavor=flavor)
        asked_for = builders.pci_request().spec[0]
        for spec in ([], [asked_for, asked_for],
                     [{**asked_for, 'product_id': '1db5'}],
                     [{**asked_for, 'live_migratable': 'true'}]):
            self.assert_consistent(self.spec(
                builders.pci_request(count=2, spec=spec), flavor=flavor),
                server)

    def test_requests_that_agree_and_fit_no_flavor_are_harmless(self):
        flavor = builders.gpu_flavor('gpu:2')
        for request in ((), (builders.pci_request(count=1),)):
            difference = self.assert_pci_requests(
                self.spec(*request, flavor=flavor),
                self.server(*request, flavor=flavor))
            self.assertFalse(difference.is_refusable)
            self.assertFalse(difference.is_correctable)

    def test_request_that_is_there_once_more(self):
        self.assert_pci_requests(
            self.spec(builders.pci_request(), builders.pci_request(
                request_id=OTHER_REQUEST_ID)),
            self.server(builders.pci_request()))

    def test_port_that_was_attached_after_the_boot(self):
        difference = self.assert_pci_requests(
            self.spec(flavor=builders.flavor()),
            self.server(builders.port_request(), flavor=builders.flavor()))
        self.assertIn(builders.OTHER_UUID, difference.current_value)
        self.assertTrue(difference.is_correctable)

    def test_port_that_was_detached_after_the_boot(self):
        difference = self.assert_pci_requests(
            self.spec(builders.port_request(), flavor=builders.flavor()),
            self.server(flavor=builders.flavor()))
        self.assertIn(builders.OTHER_UUID, difference.spec_value)
        self.assertEqual('-', difference.current_value)

    def test_another_port(self):
        self.assert_pci_requests(
            self.spec(builders.port_request('one'),
                      flavor=builders.flavor()),
            self.server(builders.port_request('two'),
                        flavor=builders.flavor()))

    def test_many_requests_are_shortened(self):
        many = [builders.port_request('port-%d' % i) for i in range(500)]
        difference = self.assert_pci_requests(
            self.spec(*many, flavor=builders.flavor()),
            self.server(flavor=builders.flavor()))
        self.assertLess(len(difference.spec_value), 1000)


class FitsTheFlavorTest(PciTestCase):
    """Requests of the server that its own flavor does not ask for."""

    def assert_fits(self, alias, *requests):
        flavor = builders.gpu_flavor(alias)
        self.assert_consistent(self.spec(*requests, flavor=flavor),
                               self.server(*requests, flavor=flavor))

    def assert_does_not_fit(self, flavor, *requests):
        difference = self.assert_pci_requests(
            self.spec(*requests, flavor=flavor),
            self.server(*requests, flavor=flavor))
        self.assertFalse(difference.is_correctable)
        return difference

    def test_counts_and_names_as_the_flavor_says(self):
        gpu = builders.pci_request
        self.assert_fits('gpu:1', gpu())
        self.assert_fits('gpu:2', gpu(count=2))
        self.assert_fits(' gpu : 2 ', gpu(count=2))
        self.assert_fits('gpu:1, nic:2', gpu(),
                         gpu(alias_name='nic', count=2))
        self.assert_fits('gpu:1,gpu:1', gpu(), gpu())

    def test_ports_are_not_asked_for_by_a_flavor(self):
        self.assert_fits('gpu:1', builders.pci_request(),
                         builders.port_request())

    def test_devices_of_another_flavor(self):
        # After a failed finish_resize: old flavor, new requests.
        difference = self.assert_does_not_fit(
            builders.flavor(), builders.pci_request())
        self.assertIn('gpu', difference.current_value)

    def test_flavor_that_asks_for_more(self):
        difference = self.assert_does_not_fit(
            builders.gpu_flavor('gpu:2'), builders.pci_request())
        self.assertIn('gpu:2', difference.current_value)
        self.assert_does_not_fit(
            builders.gpu_flavor('gpu:1,nic:1'), builders.pci_request())
        self.assert_does_not_fit(builders.gpu_flavor('gpu:1'))

    def test_flavor_whose_alias_cannot_be_read(self):
        for alias in ('gpu', 'gpu:', 'gpu:one', ':1', 'gpu:-1', 'gpu:1:1'):
            self.assert_does_not_fit(
                builders.gpu_flavor(alias), builders.pci_request())

    def test_difference_to_the_request_spec_cannot_be_corrected_then(self):
        difference = self.assert_pci_requests(
            self.spec(flavor=builders.flavor()),
            self.server(builders.pci_request(), flavor=builders.flavor()))
        self.assertFalse(difference.is_correctable)


class ApplyTest(PciTestCase):

    def apply(self, spec, current):
        fields.apply(['pci_requests'], spec, current, self.options())
        self.assert_consistent(spec, current)
        received = objects.RequestSpec.obj_from_primitive(
            builders.stored(spec))
        self.assertEqual(builders.UUID, received.pci_requests.instance_uuid)
        return received.pci_requests.requests

    def test_left_over_requests_go(self):
        self.assertEqual([], self.apply(
            self.spec(builders.pci_request(), flavor=builders.flavor()),
            self.server(flavor=builders.flavor())))

    def test_server_without_requests(self):
        spec = self.spec(builders.pci_request(), flavor=builders.flavor())
        self.assertEqual([], self.apply(
            spec, builders.current(pci_requests=None,
                                   flavor=builders.flavor())))

    def test_request_ids_are_the_server_s(self):
        # With pci_in_placement request groups are named after them.
        requests = self.apply(
            self.spec(builders.pci_request(
                count=2, request_id=OTHER_REQUEST_ID)),
            self.server(builders.pci_request()))
        self.assertEqual([REQUEST_ID], [r.request_id for r in requests])

    def test_requests_are_the_server_s_without_what_the_host_added(self):
        decorated = builders.pci_request(
            numa_policy='required', spec=[
                {**builders.pci_request().spec[0], 'rp_uuids': RP_UUID,
                 'parent_ifname': 'enp129s0f0'}])
        (request,) = self.apply(self.spec(), self.server(decorated))
        self.assertEqual('gpu', request.alias_name)
        self.assertEqual(1, request.count)
        self.assertEqual('required', request.numa_policy)
        self.assertEqual(builders.pci_request().spec, request.spec)

    def test_requests_of_the_server_stay_decorated(self):
        # nova-conductor goes on with the same instance object.
        decorated = builders.pci_request(
            spec=[{'vendor_id': '10de', 'rp_uuids': RP_UUID}])
        current = self.server(decorated)
        spec = self.spec()
        fields.apply(['pci_requests'], spec, current, self.options())
        self.assertEqual(
            RP_UUID, current.pci_requests.requests[0].spec[0]['rp_uuids'])
        spec.pci_requests.requests[0].spec[0]['vendor_id'] = 'other'
        self.assertEqual(
            '10de', current.pci_requests.requests[0].spec[0]['vendor_id'])

    def test_ports(self):
        (request,) = self.apply(
            self.spec(flavor=builders.flavor()),
            self.server(builders.port_request(), flavor=builders.flavor()))
        self.assertIsNone(request.alias_name)
        self.assertEqual(builders.OTHER_UUID, request.requester_id)
