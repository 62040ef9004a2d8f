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

"""Properties that hold for any row a database can hold.

SPECGUARD_TESTS_EXAMPLES raises the number of examples of each test.
"""

import copy
import dataclasses
import json
import os

import hypothesis
from hypothesis import strategies
from nova import objects
from nova.objects import base as nova_base

from nova_specguard import alerts
from nova_specguard import exception
from nova_specguard import fields
from nova_specguard.fields import base as fields_base
from nova_specguard.operation import Operation
from tests.unit import base
from tests.unit import builders

EXAMPLES = int(os.environ.get('SPECGUARD_TESTS_EXAMPLES', 50))

hypothesis.settings.register_profile(
    'specguard', max_examples=EXAMPLES, derandomize=True, deadline=None,
    database=None, suppress_health_check=list(hypothesis.HealthCheck))
hypothesis.settings.load_profile('specguard')

NAMES = [field.NAME for field in fields.FIELDS]
SEED_SPEC = builders.load('request_spec.json')
SEED_FLAVOR = builders.load('instance_extra_flavor.json')['cur']

# What the parser of the json module can give, including numbers that no
# integer or fixed-point column holds.
_SCALARS = strategies.one_of(
    strategies.none(), strategies.booleans(), strategies.integers(),
    strategies.floats(), strategies.text(max_size=8),
    strategies.sampled_from([
        '', '0', '-1', 'gpu:1', 'dedicated', '9' * 5000, 1e400, float('nan'),
        -2, 2 ** 70, '1.14', 'nova_object.data']))
_KEYS = strategies.one_of(
    strategies.text(max_size=8),
    strategies.sampled_from([
        'nova_object.data', 'nova_object.name', 'nova_object.version',
        'flavor', 'id', 'flavorid', 'extra_specs', 'numa_topology', 'cells',
        'cpuset', 'pcpuset', 'cpu_policy', 'memory', 'pagesize',
        'pci_requests', 'requests', 'alias_name', 'count', 'spec',
        'requester_id', 'image', 'properties', 'pci_passthrough:alias',
        'hw:numa_nodes', 'os_distro', 'traits_required', 'hw_numa_cpus',
        'project_id', 'user_id', 'scheduler_hints', '_nova_check_type',
        'force_hosts', 'instance_group', 'uuid', 'availability_zone',
        'is_bfv']))
json_values = strategies.recursive(
    _SCALARS,
    lambda children: strategies.one_of(
        strategies.lists(children, max_size=4),
        strategies.dictionaries(_KEYS, children, max_size=5)),
    max_leaves=20)

operations = strategies.sampled_from(sorted(Operation))


def two_nodes():
    return builders.flavor(extra_specs={'hw:numa_nodes': '2'})


def rich_flavor():
    return builders.flavor(extra_specs={
        'hw:numa_nodes': '2', 'pci_passthrough:alias': 'gpu:1'})


def rich_spec():
    """A request spec with something in every guarded field."""
    return builders.spec(
        flavor=rich_flavor(), numa_topology=builders.constraints(two_nodes()),
        pci_requests=builders.pci_requests(
            builders.pci_request(), builders.port_request()),
        image=rich_image(), instance_group=builders.server_group(),
        scheduler_hints={'group': [builders.GROUP], 'other': ['a', 'b']},
        availability_zone='az1')


def rich_image():
    return builders.image_meta(
        os_distro='debian', hw_boot_menu=True, traits_required=['A', 'B'],
        hw_numa_nodes=2, hw_numa_cpus=[{0, 1}, {2, 3}],
        hw_numa_mem=[4096, 4096])


def rich_current(**values):
    return builders.current(**{
        'flavor': rich_flavor(),
        'image_meta': rich_image(), 'base_image_ref': builders.OTHER_UUID,
        'is_volume_backed': False, 'surroundings': builders.surroundings(
            builders.GROUP, zone='az1', is_pin_known=True),
        'numa_topology': builders.fitted(builders.constraints(two_nodes())),
        'pci_requests': builders.pci_requests(
            builders.pci_request(), builders.port_request()), **values})


def paths(value, path=()):
    """Where something can be put in the place of something else."""
    if path:
        yield path
    items = (value.items() if isinstance(value, dict) else
             enumerate(value) if isinstance(value, list) else ())
    for key, child in items:
        yield from paths(child, path + (key,))


@strategies.composite
def damaged(draw, stored):
    """A stored primitive of which up to three parts were replaced or lost."""
    value = copy.deepcopy(stored)
    for _time in range(draw(strategies.integers(1, 3))):
        *parents, key = draw(strategies.sampled_from(list(paths(value))))
        parent = value
        for name in parents:
            parent = parent[name]
        if draw(strategies.booleans()):
            parent[key] = draw(json_values)
        else:
            del parent[key]
        if not value:
            break
    return value


def nested(depth):
    value = 'deep'
    for level in range(depth):
        value = [value] if level % 2 else {'nova_object.data': value}
    return value


def any_row(*good):
    return strategies.one_of(
        json_values, *(damaged(builders.stored(value)) for value in good))


any_pci_requests = strategies.lists(
    strategies.dictionaries(
        strategies.sampled_from([
            'alias_name', 'count', 'spec', 'requester_id', 'request_id']),
        json_values),
    max_size=3)


class PropertyTestCase(base.TestCase):

    def compare(self, spec, current, operation=Operation.LIVE_MIGRATION):
        return fields.differences(spec, current, operation, self.options())

    def assert_differences(self, found):
        self.assertIsInstance(found, tuple)
        for difference in found:
            self.assertIsInstance(difference, fields_base.Difference)
            self.assertIn(difference.field, NAMES)
            self.assertIsInstance(difference.spec_value, str)
            self.assertIsInstance(difference.current_value, str)
        named = [difference.field for difference in found]
        self.assertEqual(len(set(named)), len(named))


class AlertLineTest(base.TestCase):

    @hypothesis.given(strategies.dictionaries(
        strategies.sampled_from(['a', 'b', 'c_spec']),
        # What looks like credentials (://...@) is masked.
        strategies.text(strategies.characters(exclude_characters='@'),
                        max_size=20)))
    def test_every_value_is_read_back_from_one_line(self, values):
        line = alerts.line('SPECGUARD-103', values)
        self.assertEqual([line], line.splitlines())
        self.assertEqual({'code': 'SPECGUARD-103', **values},
                         base.parse(line))


class AnyRequestSpecTest(PropertyTestCase):
    """Any request spec against a good server: differences or none."""

    @hypothesis.given(spec=json_values, operation=operations)
    def test_any_json(self, spec, operation):
        self.assert_differences(self.compare(
            spec, rich_current(), operation))

    @hypothesis.given(spec=damaged(builders.stored(rich_spec())),
                      operation=operations)
    def test_damaged_row(self, spec, operation):
        self.assert_differences(self.compare(
            spec, rich_current(), operation))

    @hypothesis.given(spec=damaged(SEED_SPEC))
    def test_damaged_row_of_the_reported_case(self, spec):
        self.assert_differences(self.compare(
            spec, builders.current(flavor=SEED_FLAVOR)))

    @hypothesis.given(json_values, json_values, json_values)
    def test_any_json_in_the_guarded_fields(self, flavor, numa, pci):
        spec = builders.stored(builders.spec())
        spec['nova_object.data'].update(
            flavor=flavor, numa_topology=numa, pci_requests=pci)
        self.assert_differences(self.compare(spec, rich_current()))

    @hypothesis.given(strategies.dictionaries(
        strategies.sampled_from([
            'image', 'project_id', 'user_id', 'scheduler_hints',
            'force_hosts', 'instance_group', 'availability_zone', 'is_bfv']),
        json_values), operations)
    def test_any_json_in_the_other_fields(self, values, operation):
        spec = builders.stored(rich_spec())
        spec['nova_object.data'].update(values)
        self.assert_differences(self.compare(
            spec, rich_current(), operation))

    @hypothesis.example({'os_distro': '\ud800' * 300})
    @hypothesis.given(strategies.dictionaries(
        strategies.sampled_from([
            'os_distro', 'hw_numa_cpus', 'hw_numa_mem', 'traits_required',
            'hw_boot_menu', 'hw_machine_type', 'img_mappings', 'unknown']),
        json_values))
    def test_any_json_in_the_properties_of_the_image(self, properties):
        spec = builders.stored(rich_spec())
        spec['nova_object.data']['image']['nova_object.data']['properties'][
            'nova_object.data'].update(properties)
        self.assert_differences(self.compare(spec, rich_current()))

    @hypothesis.given(json_values)
    def test_any_check_type_in_the_hints(self, value):
        spec = builders.stored(rich_spec())
        spec['nova_object.data']['scheduler_hints'] = {
            '_nova_check_type': value}
        (found,) = self.compare(spec, rich_current())
        self.assertEqual('scheduler_hints', found.field)

    @hypothesis.example({'image': {'properties': None}}, None)
    @hypothesis.example({'image': False}, None)
    @hypothesis.given(any_row(rich_spec()), any_row(builders.flavor()))
    def test_what_any_json_needs(self, spec, flavor):
        for current in (builders.current(), rich_current(),
                        builders.current(flavor=flavor)):
            needed = fields.needs(spec, self.options(), current)
            self.assertLessEqual(needed, {
                'image_meta', 'is_volume_backed', 'is_rebuilt',
                'surroundings', 'server_group'})

    @hypothesis.example([{}, {'cpu_policy': [None]}])
    @hypothesis.given(
        strategies.lists(strategies.dictionaries(
            strategies.sampled_from([
                'cpuset', 'pcpuset', 'cpu_policy', 'memory', 'pagesize',
                'cpu_thread_policy', 'id']), json_values), max_size=3))
    def test_any_json_in_the_cells_of_a_topology(self, cells):
        spec = builders.stored(rich_spec())
        spec['nova_object.data']['numa_topology'] = {
            'nova_object.data': {'cells': cells}}
        self.assert_differences(self.compare(spec, rich_current()))

    @hypothesis.given(any_pci_requests)
    def test_any_json_in_pci_requests(self, requests):
        spec = builders.stored(rich_spec())
        spec['nova_object.data']['pci_requests'] = {
            'nova_object.data': {'requests': requests}}
        self.assert_differences(self.compare(spec, rich_current()))

    def test_deeply_nested_json(self):
        for depth in (10, 100, 300):
            for spec in (nested(depth), {'nova_object.data': dict.fromkeys(
                    NAMES, nested(depth))}):
                self.assert_differences(self.compare(spec, rich_current()))

    @hypothesis.given(
        strategies.text('0123456789.', max_size=5) | json_values)
    def test_any_version_of_the_object(self, version):
        spec = builders.stored(rich_spec())
        spec['nova_object.version'] = version
        self.assertEqual((), self.compare(spec, rich_current()))


class AnyServerTest(PropertyTestCase):
    """Any server against a good request spec: a result or FlavorMissing."""

    def compare(self, spec, current, operation=Operation.LIVE_MIGRATION):
        try:
            found = super().compare(spec, current, operation)
        except exception.FlavorMissing:
            return ()
        self.assert_differences(found)
        return found

    def compare_all_ways(self, **values):
        """With and without the image, stored and as object."""
        for image_meta in (None, builders.image_meta()):
            current = rich_current(**{**values, 'image_meta': image_meta})
            for spec in (rich_spec(), builders.stored(rich_spec())):
                self.compare(spec, current)

    @hypothesis.given(any_row(builders.flavor(), builders.gpu_flavor()))
    def test_any_flavor(self, flavor):
        self.compare_all_ways(flavor=flavor)

    @hypothesis.example({}, None)
    @hypothesis.given(strategies.dictionaries(
        _KEYS, json_values, max_size=5), json_values)
    def test_any_attributes_of_a_flavor(self, attributes, extra_specs):
        self.compare_all_ways(flavor={'nova_object.data': {
            **attributes, 'id': 982, 'extra_specs': extra_specs}})

    @hypothesis.given(strategies.dictionaries(
        strategies.sampled_from([
            'pci_passthrough:alias', 'hw:numa_nodes', 'hw:cpu_policy',
            'hw:mem_page_size', 'hw:cpu_realtime', 'hw:cpu_realtime_mask',
            'hw:cpu_dedicated_mask', 'hw:numa_cpus.0', 'hw:numa_mem.0',
            'hw:cpu_thread_policy', 'hw:emulator_threads_policy',
            'trait:HW_CPU_HYPERTHREADING', 'resources:PCPU', 'hw:pmem',
            'hw:locked_memory']),
        strategies.text(max_size=4) | strategies.sampled_from([
            '1', '2', 'yes', 'dedicated', 'mixed', 'isolate', '^0', '0-1',
            'required', 'large', 'gpu:1', '', ',', ':', '-'])))
    def test_any_extra_specs_of_a_flavor_object(self, extra_specs):
        self.compare_all_ways(flavor=builders.flavor(extra_specs=extra_specs))

    @hypothesis.given(any_row(rich_current().numa_topology))
    def test_any_topology(self, numa_topology):
        self.compare_all_ways(numa_topology=numa_topology)

    @hypothesis.given(any_row(builders.pci_requests(
        builders.pci_request(), builders.port_request())))
    def test_any_pci_requests(self, pci_requests):
        self.compare_all_ways(pci_requests=pci_requests)

    @hypothesis.given(any_row(json.loads(builders.pci_requests(
        builders.pci_request(), builders.port_request()).to_json())))
    def test_any_pci_requests_of_instance_extra(self, pci_requests):
        self.compare_all_ways(pci_requests=pci_requests)

    # The parser of the json module reads 1e400 as infinite.
    @hypothesis.example([{'alias_name': 'gpu', 'count': 1e400}])
    @hypothesis.given(any_pci_requests)
    def test_any_json_in_pci_requests(self, requests):
        self.compare_all_ways(pci_requests=requests)
        self.compare_all_ways(pci_requests={
            'nova_object.data': {'requests': requests}})

    @hypothesis.given(json_values, json_values, json_values, json_values)
    def test_any_json_on_both_sides(self, spec, flavor, numa, pci):
        self.compare(spec, builders.current(
            flavor=flavor, numa_topology=numa, pci_requests=pci))

    def test_deeply_nested_json(self):
        for depth in (10, 100, 300):
            value = nested(depth)
            self.compare_all_ways(numa_topology=value)
            self.compare_all_ways(pci_requests=value)
            self.compare_all_ways(flavor={
                'id': 1, 'name': value, 'extra_specs': {'a': value}})


extra_specs = strategies.dictionaries(
    strategies.sampled_from([
        'hw:numa_nodes', 'hw:cpu_policy', 'hw:mem_page_size', 'vendor',
        'quota:cpu_shares', 'pci_passthrough:alias']),
    strategies.sampled_from([
        '1', '2', '3', 'shared', 'dedicated', 'large', 'gpu:1', 'gpu:1,nic:2',
        'amd']), max_size=4)
flavors = strategies.builds(
    builders.flavor,
    id=strategies.sampled_from([831, 982]),
    flavorid=strategies.sampled_from(['022050', '026050']),
    name=strategies.sampled_from(['e2.medium', 'a2.medium']),
    root_gb=strategies.sampled_from([25, 80]),
    description=strategies.sampled_from([None, 'for all']),
    extra_specs=extra_specs)
pci_requests = strategies.lists(
    strategies.one_of(
        strategies.builds(
            builders.pci_request,
            alias_name=strategies.sampled_from(['gpu', 'nic']),
            count=strategies.integers(1, 2),
            numa_policy=strategies.sampled_from([None, 'required']),
            spec=strategies.sampled_from([
                [{'vendor_id': '10de'}],
                [{'vendor_id': '10de', 'rp_uuids': 'a,b'}],
                [{'vendor_id': '8086'}, {'vendor_id': '10de'}]])),
        strategies.builds(
            builders.port_request,
            strategies.sampled_from(['one', 'two']))),
    max_size=3).map(lambda requests: builders.pci_requests(*requests))
any_text = strategies.text(
    strategies.characters(exclude_categories=['Cs']), max_size=300)
image_ids = strategies.sampled_from([builders.UUID, builders.OTHER_UUID])
image_metas = strategies.builds(
    lambda image_id, properties: builders.image_meta(image_id, **properties),
    image_ids, strategies.fixed_dictionaries({}, optional={
        'hw_numa_nodes': strategies.sampled_from([1, 2]),
        'hw_cpu_policy': strategies.sampled_from(['dedicated', 'shared']),
        'hw_numa_cpus': strategies.sampled_from([[{0}, {9, 1}], [{0, 1}]]),
        'hw_numa_mem': strategies.lists(strategies.integers(1, 2)),
        'traits_required': strategies.lists(
            strategies.sampled_from(['A', 'B', 'HW_CPU_HYPERTHREADING'])),
        'hw_machine_type': strategies.sampled_from(['pc', 'q35']),
        'hw_boot_menu': strategies.booleans(),
        'os_command_line': any_text,
        'img_version': strategies.integers(1, 2)}))
topologies = strategies.sampled_from([
    None,
    builders.constraints(two_nodes()),
    builders.constraints(builders.flavor(
        extra_specs={'hw:cpu_policy': 'dedicated'})),
    builders.constraints(builders.flavor(
        extra_specs={'hw:numa_nodes': '1', 'hw:mem_page_size': 'large'}))])
groups = strategies.sampled_from(
    [None, builders.GROUP, builders.OTHER_UUID])
zones = strategies.sampled_from([None, 'az1', 'az2', 'nova'])
hints = strategies.dictionaries(
    strategies.sampled_from(['_nova_check_type', 'group', 'other']),
    strategies.sampled_from([['rebuild'], [], ['a', 'b']]))


@strategies.composite
def request_specs(draw):
    spec = builders.spec(
        flavor=draw(flavors), numa_topology=draw(topologies),
        pci_requests=draw(pci_requests),
        image=draw(strategies.none() | image_metas),
        project_id=draw(strategies.sampled_from(
            [None, builders.PROJECT, 'admin'])),
        user_id=draw(strategies.sampled_from([builders.USER, 'root'])),
        scheduler_hints=draw(strategies.none() | hints),
        force_hosts=draw(strategies.sampled_from([None, ['amd1']])),
        instance_group=draw(groups.map(
            lambda uuid: uuid and builders.server_group(uuid))),
        availability_zone=draw(zones), is_bfv=draw(strategies.booleans()))
    if draw(strategies.booleans()):
        delattr(spec, nova_base.get_attrname('is_bfv'))
    return spec


@strategies.composite
def current_instances(draw):
    """Servers as nova can have them, with all or nothing more read."""
    image_meta = draw(image_metas)
    image_ref = image_meta.id
    if draw(strategies.booleans()):
        image_ref = ''
        delattr(image_meta, nova_base.get_attrname('id'))
    topology = draw(topologies)
    current = builders.current(
        flavor=draw(flavors), image_ref=image_ref,
        numa_topology=topology and builders.fitted(topology),
        pci_requests=draw(pci_requests | strategies.none()),
        user_id=draw(strategies.sampled_from([None, builders.USER])),
        host=draw(strategies.sampled_from([None, 'amd1'])))
    if draw(strategies.booleans()):
        return current
    member_of = draw(strategies.lists(
        strategies.sampled_from([builders.GROUP, builders.OTHER_UUID]),
        unique=True))
    return dataclasses.replace(
        current, image_meta=image_meta,
        base_image_ref=draw(strategies.none() | image_ids),
        is_volume_backed=draw(strategies.booleans()),
        is_rebuilt=draw(strategies.sampled_from([None, False, True])),
        surroundings=builders.surroundings(
            *member_of, zone=draw(zones),
            is_pin_known=draw(strategies.booleans())),
        server_group=builders.server_group(member_of[0])
        if len(member_of) == 1 else None)


specs = request_specs()
servers = current_instances()
ignored = strategies.lists(
    strategies.sampled_from(['quota:*', 'v*', 'hw:*', '*', '']), max_size=2)


def reversed_keys(value):
    if isinstance(value, dict):
        return {key: reversed_keys(child)
                for key, child in reversed(value.items())}
    if isinstance(value, list):
        return [reversed_keys(child) for child in value]
    return value


def with_unknown(value):
    """As a newer nova may write it: more fields in every object."""
    if isinstance(value, list):
        return [with_unknown(child) for child in value]
    if not isinstance(value, dict):
        return value
    value = {key: with_unknown(child) for key, child in value.items()}
    if isinstance(value.get('nova_object.data'), dict):
        value['nova_object.unknown'] = ['x']
        value['nova_object.data']['unknown'] = {'x': [1, None]}
    return value


def with_version(value, version):
    if isinstance(value, list):
        return [with_version(child, version) for child in value]
    if not isinstance(value, dict):
        return value
    value = {key: with_version(child, version)
             for key, child in value.items()}
    if 'nova_object.version' in value:
        value['nova_object.version'] = version
    return value


NOT_COMPARED = {
    'RequestSpec': (
        'id', 'num_instances', 'limits', 'security_groups', 'force_nodes',
        'ignore_hosts', 'retry', 'requested_destination',
        'network_metadata'),
    'ImageMeta': (
        'name', 'status', 'checksum', 'owner', 'size', 'container_format',
        'disk_format', 'min_ram', 'min_disk'),
    'ImageMetaProps': ('img_version',),
    'InstanceGroup': (
        'id', 'name', 'user_id', 'project_id', 'policy', 'rules', 'members',
        'hosts'),
    'Flavor': (
        'description', 'created_at', 'updated_at', 'deleted_at', 'deleted',
        'disabled', 'is_public', 'rxtx_factor', 'vcpu_weight', 'projects'),
    'InstanceNUMACell': (
        'id', 'cpu_topology', 'cpu_pinning_raw', 'cpuset_reserved'),
    'InstanceNUMATopology': ('instance_uuid',),
    'InstancePCIRequest': ('is_new', 'request_id', 'numa_policy'),
    'InstancePCIRequests': ('instance_uuid',),
}


def without_what_is_not_compared(value):
    if isinstance(value, list):
        return [without_what_is_not_compared(child) for child in value]
    if not isinstance(value, dict):
        return value
    value = {key: without_what_is_not_compared(child)
             for key, child in value.items()
             if key != 'nova_object.changes'}
    for name in NOT_COMPARED.get(value.get('nova_object.name'), ()):
        value['nova_object.data'].pop(name, None)
    return value


class InvarianceTest(PropertyTestCase):
    """What must not change the result."""

    def assert_same_after(self, change, spec, current):
        stored = builders.stored(spec)
        expected = self.compare(stored, current)
        self.assertEqual(expected, self.compare(change(stored), current))

    @hypothesis.given(specs, servers)
    def test_order_of_keys(self, spec, current):
        self.assert_same_after(reversed_keys, spec, current)

    @hypothesis.given(specs, servers)
    def test_unknown_keys(self, spec, current):
        self.assert_same_after(with_unknown, spec, current)

    @hypothesis.given(specs, servers, strategies.sampled_from(
        ['1.0', '1.99', '2.0', '']))
    def test_version_of_every_object(self, spec, current, version):
        self.assert_same_after(
            lambda stored: with_version(stored, version), spec, current)

    @hypothesis.given(specs, servers)
    def test_fields_that_are_not_compared(self, spec, current):
        self.assert_same_after(without_what_is_not_compared, spec, current)

    @hypothesis.given(specs, servers, operations)
    def test_object_and_stored_request_spec(self, spec, current, operation):
        self.assertEqual(
            self.compare(spec, current, operation),
            self.compare(builders.stored(spec), current, operation))

    @hypothesis.given(specs, servers)
    def test_stored_request_spec_needs_no_less(self, spec, current):
        self.assertLessEqual(
            fields.needs(spec, self.options(), current),
            fields.needs(builders.stored(spec), self.options(), current))

    @hypothesis.given(specs, servers)
    def test_request_spec_received_by_rpc(self, spec, current):
        received = objects.RequestSpec.obj_from_primitive(
            builders.stored(spec))
        self.assertEqual(self.compare(spec, current),
                         self.compare(received, current))

    @hypothesis.example(
        builders.spec(), builders.current(image_meta=builders.image_meta(
            hw_numa_nodes=2, hw_cpu_policy='shared')))
    @hypothesis.given(specs, servers)
    def test_object_and_stored_server(self, spec, current):
        stored_requests = current.pci_requests and json.loads(
            current.pci_requests.to_json())
        stored_current = dataclasses.replace(
            current, flavor=builders.stored(current.flavor),
            numa_topology=builders.stored(current.numa_topology),
            pci_requests=stored_requests)
        self.assertEqual(self.compare(spec, current),
                         self.compare(spec, stored_current))

    @hypothesis.given(specs, servers)
    def test_comparing_changes_neither_side(self, spec, current):
        before = builders.stored(spec), builders.stored(current.flavor)
        self.compare(spec, current)
        self.assertEqual(
            before, (builders.stored(spec), builders.stored(current.flavor)))
        self.assertEqual(self.compare(spec, current),
                         self.compare(spec, current))


class HealthyServerTest(PropertyTestCase):
    """What nova itself writes into both copies is no drift."""

    @hypothesis.given(strategies.fixed_dictionaries({}, optional={
        'os_command_line': any_text, 'os_distro': any_text,
        'anything': any_text, 'hw_boot_menu': strategies.booleans(),
        'hw_ipxe_boot': strategies.sampled_from(['yes', '1', 'off']),
        'hw_serial_port_count': strategies.integers(0, 99).map(str),
        'architecture': strategies.sampled_from(['amd64', 'x86_64']),
        'trait:A': strategies.sampled_from(['required', 'forbidden']),
        'trait:B': strategies.just('required'),
        'hypervisor_type': strategies.sampled_from(['KVM', 'qemu']),
        'vmware_adaptertype': strategies.sampled_from(['ide', 'busLogic']),
        'owner_id': any_text, 'img_signature': any_text,
        'mappings': strategies.just([{'virtual': 'ami', 'device': 'vda'}]),
    }), operations)
    def test_properties_of_an_image(self, properties, operation):
        spec, current = builders.as_booted(**properties)
        self.assertEqual((), self.compare(spec, current, operation))
        self.assertEqual((), self.compare(
            builders.stored(spec), current, operation))


class ApplyTest(PropertyTestCase):

    @hypothesis.given(specs, servers, operations, ignored)
    def test_what_was_corrected_differs_no_more(
            self, spec, current, operation, ignored_extra_specs):
        options = self.options(ignored_extra_specs=ignored_extra_specs)
        found = fields.differences(spec, current, operation, options)
        correctable = [d.field for d in found if d.is_correctable]
        fields.apply(correctable, spec, current, options)
        self.assertEqual(
            [d for d in found if not d.is_correctable],
            list(fields.differences(spec, current, operation, options)))

    @hypothesis.given(specs, servers)
    def test_corrected_request_survives_rpc(self, spec, current):
        found = self.compare(spec, current)
        fields.apply([d.field for d in found if d.is_correctable], spec,
                     current, self.options())
        received = objects.RequestSpec.obj_from_primitive(
            builders.stored(spec))
        self.assertEqual([d for d in found if not d.is_correctable],
                         list(self.compare(received, current)))
