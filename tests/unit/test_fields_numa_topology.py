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

from nova import exception as nova_exception
from nova import objects

from nova_specguard import fields
from nova_specguard.fields import numa_topology
from nova_specguard.operation import Operation
from tests.unit import base
from tests.unit import builders

TWO_NODES = {'hw:numa_nodes': '2'}
PINNED = {'hw:cpu_policy': 'dedicated'}
HUGE_PAGES = {'hw:numa_nodes': '2', 'hw:mem_page_size': 'large'}
# 4 vCPUs do not divide by 3: nova has no constraints for it, but has servers
# that it booted before it checked.
UNDERIVABLE = {'hw:numa_nodes': '3'}


class NumaTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.two_nodes = builders.flavor(extra_specs=TWO_NODES)
        self.pinned = builders.flavor(extra_specs=PINNED)

    def server(self, flavor, topology=None, image=None, **values):
        """A server whose image was read, fitted to a host.

        :param topology: of the server; by default what its flavor asks for
        """
        topology = topology or builders.constraints(flavor, image)
        return builders.current(
            flavor=flavor, image_meta=image or builders.image_meta(),
            numa_topology=topology and builders.fitted(topology), **values)

    def spec(self, flavor, topology, **values):
        return builders.spec(flavor=flavor, numa_topology=topology, **values)

    def assert_numa_topology(self, spec, current, **kwargs):
        return self.assert_drift(
            'numa_topology', 'numa-topology', spec, current, **kwargs)


class NoDifferenceTest(NumaTestCase):

    def test_no_topology_on_either_side(self):
        self.assert_consistent(builders.spec(), builders.current())
        self.assert_consistent(
            builders.spec(),
            builders.current(image_meta=builders.image_meta()))

    def test_constraints_equal_what_was_fitted_to_a_host(self):
        # other cell ids, pages, pins, CPU topology
        for extra_specs in (
                TWO_NODES, PINNED, HUGE_PAGES, {**TWO_NODES, **PINNED},
                {**PINNED, 'hw:cpu_thread_policy': 'require'},
                {**PINNED, 'hw:emulator_threads_policy': 'isolate'},
                {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0-1'},
                {'hw:numa_nodes': '2', 'hw:numa_cpus.0': '0',
                 'hw:numa_mem.0': '1024', 'hw:numa_cpus.1': '1-3',
                 'hw:numa_mem.1': '7168'}):
            flavor = builders.flavor(extra_specs=extra_specs)
            self.assert_consistent(
                self.spec(flavor, builders.constraints(flavor)),
                self.server(flavor))

    def test_fitted_topology_alone_is_enough(self):
        # Where the server's image was not read, layout decides.
        for flavor in (self.two_nodes, self.pinned):
            topology = builders.constraints(flavor)
            self.assert_consistent(
                self.spec(flavor, topology),
                builders.current(flavor=flavor,
                                 numa_topology=builders.fitted(topology)))

    def test_order_of_cells(self):
        flavor = builders.flavor(extra_specs={
            'hw:numa_nodes': '2', 'hw:numa_cpus.0': '0',
            'hw:numa_mem.0': '1024', 'hw:numa_cpus.1': '1-3',
            'hw:numa_mem.1': '7168'})
        topology = builders.constraints(flavor)
        topology.cells = list(reversed(topology.cells))
        self.assert_consistent(self.spec(flavor, topology),
                               self.server(flavor))

    def test_topology_that_the_image_asks_for(self):
        image = builders.image_meta(hw_numa_nodes=2)
        flavor = builders.flavor()
        self.assert_consistent(
            self.spec(flavor, builders.constraints(flavor, image),
                      image=image),
            self.server(flavor, image=image))

    def test_request_spec_of_before_victoria(self):
        # LP#1952941: pinned CPUs were in cpuset, there was no pcpuset. A raw
        # row still says so; loading it as an object mends it.
        spec = builders.stored(self.spec(
            self.pinned, builders.constraints(self.pinned)))
        cells = (spec['nova_object.data']['numa_topology']
                 ['nova_object.data']['cells'])
        for cell in cells:
            data = cell['nova_object.data']
            data['cpuset'] = data.pop('pcpuset')
            cell['nova_object.version'] = '1.4'
        self.assert_consistent(spec, self.server(self.pinned))

    def test_shared_request_spec_of_before_victoria(self):
        spec = builders.stored(self.spec(
            self.two_nodes, builders.constraints(self.two_nodes)))
        for cell in (spec['nova_object.data']['numa_topology']
                     ['nova_object.data']['cells']):
            del cell['nova_object.data']['pcpuset']
            cell['nova_object.data']['cpu_policy'] = None
        self.assert_consistent(spec, self.server(self.two_nodes))

    def test_server_of_before_victoria(self):
        topology = builders.stored(builders.fitted(
            builders.constraints(self.pinned)))
        for cell in topology['nova_object.data']['cells']:
            data = cell['nova_object.data']
            data['cpuset'] = data.pop('pcpuset')
        self.assert_consistent(
            self.spec(self.pinned, builders.constraints(self.pinned)),
            builders.current(flavor=self.pinned, numa_topology=topology))

    def test_stored_topologies(self):
        spec = self.spec(self.two_nodes, builders.constraints(self.two_nodes))
        server = self.server(self.two_nodes)
        self.assert_consistent(
            builders.stored(spec), builders.current(
                flavor=self.two_nodes, image_meta=builders.image_meta(),
                numa_topology=builders.stored(server.numa_topology)))

    def test_resize_carries_the_topology_that_was_asked_for(self):
        self.assert_consistent(
            self.spec(self.two_nodes, builders.constraints(self.two_nodes)),
            self.server(builders.flavor()), Operation.RESIZE)


class DifferenceTest(NumaTestCase):

    def test_topology_left_over_from_another_flavor(self):
        for operation in (
                Operation.LIVE_MIGRATION, Operation.MIGRATE,
                Operation.EVACUATE, Operation.UNSHELVE, Operation.REBUILD,
                Operation.UNKNOWN):
            difference = self.assert_numa_topology(
                self.spec(builders.flavor(),
                          builders.constraints(self.two_nodes)),
                self.server(builders.flavor()), operation=operation)
            self.assertIn('2 cell(s)', difference.spec_value)
            self.assertEqual('-', difference.current_value)
            self.assertTrue(difference.is_correctable)

    def test_topology_missing_in_the_request_spec(self):
        difference = self.assert_numa_topology(
            self.spec(self.two_nodes, None), self.server(self.two_nodes))
        self.assertEqual('-', difference.spec_value)
        self.assertIn('2 cell(s)', difference.current_value)
        self.assertTrue(difference.is_correctable)

    def test_everything_that_was_asked_for_counts(self):
        for other in (
                {'hw:numa_nodes': '4'},
                {**TWO_NODES, **PINNED},
                {'hw:numa_nodes': '2', 'hw:mem_page_size': '2048'},
                {'hw:numa_nodes': '2', 'hw:numa_cpus.0': '0',
                 'hw:numa_mem.0': '4096', 'hw:numa_cpus.1': '1-3',
                 'hw:numa_mem.1': '4096'},
                {'hw:numa_nodes': '2', 'hw:numa_cpus.0': '0-1',
                 'hw:numa_mem.0': '1024', 'hw:numa_cpus.1': '2-3',
                 'hw:numa_mem.1': '7168'}):
            topology = builders.constraints(
                builders.flavor(extra_specs=other))
            self.assert_numa_topology(
                self.spec(self.two_nodes, topology),
                self.server(self.two_nodes))

    def test_thread_policies_count(self):
        for policy in ({'hw:cpu_thread_policy': 'isolate'},
                       {'hw:emulator_threads_policy': 'isolate'}):
            topology = builders.constraints(
                builders.flavor(extra_specs={**PINNED, **policy}))
            self.assert_numa_topology(
                self.spec(self.pinned, topology), self.server(self.pinned))

    def test_expected_is_derived_from_the_flavor_not_from_the_host(self):
        # After a failed finish_resize the server has its old flavor and the
        # topology of the new one.
        self.assert_consistent(
            self.spec(builders.flavor(), None),
            self.server(builders.flavor(),
                        topology=builders.constraints(self.two_nodes)))
        self.assert_numa_topology(
            self.spec(builders.flavor(),
                      builders.constraints(self.two_nodes)),
            self.server(builders.flavor(),
                        topology=builders.constraints(self.two_nodes)))

    def test_both_sides_are_named_in_short_form(self):
        difference = self.assert_numa_topology(
            self.spec(self.pinned, builders.constraints(self.two_nodes)),
            self.server(self.pinned))
        self.assertIn('cpus=0,1', difference.spec_value)
        self.assertIn('memory=4096', difference.spec_value)
        self.assertIn('pcpus=0,1,2,3', difference.current_value)
        self.assertIn('dedicated', difference.current_value)

    def test_many_cells_are_shortened(self):
        flavor = builders.flavor(
            vcpus=64, memory_mb=65536, extra_specs={'hw:numa_nodes': '32'})
        difference = self.assert_numa_topology(
            self.spec(builders.flavor(), builders.constraints(flavor)),
            self.server(builders.flavor()))
        self.assertLess(len(difference.spec_value), 1000)

    def test_empty_topology_is_not_none(self):
        self.assert_numa_topology(
            self.spec(builders.flavor(),
                      objects.InstanceNUMATopology(cells=[])),
            self.server(builders.flavor()))


class UnderivableTest(NumaTestCase):
    """Flavors for which nova has no constraints any more."""

    def setUp(self):
        super().setUp()
        self.flavor = builders.flavor(extra_specs=UNDERIVABLE)
        self.topology = builders.constraints(self.two_nodes)
        self.current = self.server(self.flavor, topology=self.topology)

    def test_nova_cannot_derive_them(self):
        self.assertRaises(nova_exception.NovaException,
                          builders.constraints, self.flavor)

    def test_server_s_own_layout_is_no_difference(self):
        self.assert_consistent(
            self.spec(self.flavor, self.topology), self.current)

    def test_another_layout_cannot_be_corrected(self):
        # What the server has also holds pins, which no request may carry.
        for topology in (None, builders.constraints(self.pinned)):
            difference = self.assert_numa_topology(
                self.spec(self.flavor, topology), self.current)
            self.assertFalse(difference.is_correctable)

    def test_layout_is_what_counts_of_the_server_s_topology(self):
        topology = self.topology.obj_clone()
        for cell in topology.cells:
            cell.pagesize = -2
        self.assert_consistent(self.spec(self.flavor, topology), self.current)

    def test_server_without_topology(self):
        self.assert_consistent(
            self.spec(self.flavor, None), builders.current(
                flavor=self.flavor, image_meta=builders.image_meta()))

    def test_nonsense_in_extra_specs(self):
        for extra_specs in (
                {'hw:numa_nodes': 'two'},
                {'hw:mem_page_size': 'enormous', 'hw:numa_nodes': '1'},
                {'hw:cpu_policy': 'exclusive'},
                {'hw:cpu_policy': 'dedicated', 'hw:cpu_realtime': 'yes',
                 'hw:cpu_realtime_mask': 'x'},
                {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '9-'},
                {'hw:numa_nodes': '1', 'hw:numa_cpus.0': 'a-b',
                 'hw:numa_mem.0': 'c'}):
            flavor = builders.flavor(extra_specs=extra_specs)
            self.assert_consistent(
                self.spec(flavor, self.topology),
                self.server(flavor, topology=self.topology))


class ApplyTest(NumaTestCase):

    def apply(self, spec, current):
        fields.apply(['numa_topology'], spec, current, self.options())
        self.assert_consistent(spec, current)
        return objects.RequestSpec.obj_from_primitive(
            builders.stored(spec)).numa_topology

    def test_left_over_topology_goes(self):
        self.assertIsNone(self.apply(
            self.spec(builders.flavor(),
                      builders.constraints(self.two_nodes)),
            self.server(builders.flavor())))

    def test_missing_topology_comes_as_constraints_without_pins(self):
        applied = self.apply(self.spec(self.pinned, None),
                             self.server(self.pinned))
        (cell,) = applied.cells
        self.assertEqual({0, 1, 2, 3}, cell.pcpuset)
        self.assertFalse(cell.cpu_pinning_raw)
        self.assertIsNone(cell.pagesize)
        self.assertEqual(0, cell.id)

    def test_it_is_what_nova_would_write(self):
        applied = self.apply(
            self.spec(self.two_nodes, builders.constraints(self.pinned)),
            self.server(self.two_nodes))
        self.assertEqual(
            [self.attributes(cell)
             for cell in builders.constraints(self.two_nodes).cells],
            [self.attributes(cell) for cell in applied.cells])

    def attributes(self, cell):
        return {name: getattr(cell, name) for name in cell.fields
                if cell.obj_attr_is_set(name)}

    def test_topology_of_the_image(self):
        image = builders.image_meta(hw_numa_nodes=2)
        applied = self.apply(
            self.spec(builders.flavor(), None, image=image),
            self.server(builders.flavor(), image=image))
        self.assertEqual(2, len(applied.cells))


class NeedsImageMetaTest(NumaTestCase):
    """When the second cell SELECT has to be made."""

    def needs_image_meta(self, spec, current):
        return 'image_meta' in numa_topology.needs(spec, current)

    def test_nothing_asks_for_numa(self):
        self.assertFalse(self.needs_image_meta(
            builders.spec(), builders.current()))

    def test_request_spec_has_a_topology(self):
        self.assertTrue(self.needs_image_meta(
            self.spec(builders.flavor(),
                      builders.constraints(self.two_nodes)),
            builders.current()))

    def test_server_has_a_topology(self):
        self.assertTrue(self.needs_image_meta(
            builders.spec(), builders.current(numa_topology=builders.fitted(
                builders.constraints(self.two_nodes)))))

    def test_flavor_asks_for_one(self):
        self.assertTrue(self.needs_image_meta(
            builders.spec(), builders.current(flavor=self.two_nodes)))

    def test_image_asks_for_one(self):
        self.assertTrue(self.needs_image_meta(
            builders.spec(image=builders.image_meta(hw_numa_nodes=2)),
            builders.current()))

    def test_constraints_cannot_be_derived(self):
        self.assertTrue(self.needs_image_meta(
            builders.spec(), builders.current(
                flavor=builders.flavor(extra_specs=UNDERIVABLE))))

    def test_request_spec_without_image(self):
        for spec in (builders.spec(image=None), objects.RequestSpec(),
                     builders.spec(image=objects.ImageMeta())):
            self.assertFalse(self.needs_image_meta(spec, builders.current()))
