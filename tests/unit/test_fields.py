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

import inspect

from nova_specguard import conf
from nova_specguard import fields
from nova_specguard.fields import base as fields_base
from nova_specguard.fields import flavor
from nova_specguard.operation import Operation
from tests.unit import base
from tests.unit import builders

LABELS = ('Truth', 'Expected', 'Compared', 'Corrected', 'Healed', 'Read by')

# Of the design; permanent.
CLASSES = {
    'flavor': {'flavor-other': 'warning'},
    'flavor_extra_specs': {'flavor-extra-specs': 'info'},
    'numa_topology': {'numa-topology': 'warning'},
    'pci_requests': {'pci-requests': 'warning'},
    'image': {'image-id': 'warning', 'image-properties': 'warning',
              'image-ambiguous': 'warning'},
    'project': {'project': 'warning', 'user': 'warning'},
    'scheduler_hints': {'rebuild-hint': 'critical'},
    'instance_group': {'server-group-missing': 'warning',
                       'server-group-gone': 'warning'},
    'availability_zone': {'zone-pin-violated': 'warning',
                          'zone-pin-unknown': 'warning'},
    'is_bfv': {'is-bfv': 'info'},
}
EVERYWHERE = frozenset(Operation)
AS_FLAVOR = EVERYWHERE - {Operation.MIGRATE, Operation.RESIZE}
OPERATIONS = {
    'flavor': AS_FLAVOR, 'flavor_extra_specs': AS_FLAVOR,
    'numa_topology': EVERYWHERE - {Operation.RESIZE},
    'pci_requests': EVERYWHERE - {Operation.RESIZE},
    'image': EVERYWHERE, 'project': EVERYWHERE,
    'scheduler_hints': EVERYWHERE - {Operation.REBUILD},
    'instance_group': EVERYWHERE, 'availability_zone': EVERYWHERE,
    'is_bfv': EVERYWHERE,
}


def sections(docstring):
    """The labels of a docstring, each with its text."""
    found = {}
    label = None
    for line in inspect.cleandoc(docstring).splitlines():
        if line.startswith(':'):
            label, _colon, line = line[1:].partition(':')
            found[label] = ''
        if label:
            found[label] += line.strip() + ' '
    return found


class ContractTest(base.TestCase):

    def test_names_are_those_of_the_option(self):
        names = [field.NAME for field in fields.FIELDS]
        self.assertEqual(sorted(set(names)), sorted(names))
        self.assertLessEqual(set(names), set(conf.FIELDS))

    def test_drift_classes_and_their_severity(self):
        self.assertEqual(CLASSES, {
            field.NAME: {found.name: found.severity
                         for found in field.CLASSES}
            for field in fields.FIELDS})

    def test_severities_are_known(self):
        for classes in CLASSES.values():
            self.assertLessEqual(set(classes.values()),
                                 set(fields_base.SEVERITIES))

    def test_operations_that_have_an_expected_value(self):
        self.assertEqual(OPERATIONS, {
            field.NAME: field.OPERATIONS for field in fields.FIELDS})

    def test_docstring_is_the_section_of_the_reference(self):
        for field in fields.FIELDS:
            found = sections(field.__doc__)
            self.assertEqual(LABELS, tuple(found), field.NAME)
            for label, text in found.items():
                self.assertTrue(text.strip().endswith('.'),
                                (field.NAME, label))

    def test_cause_and_upstream_are_sentences(self):
        for field in fields.FIELDS:
            for found in field.CLASSES:
                self.assertTrue(found.cause.endswith('.'), found)
                self.assertTrue(found.upstream.endswith('.'), found)


class NeedsTest(base.TestCase):

    def needs(self, spec=None, current=None, **options):
        return fields.needs(
            spec or builders.spec(), self.options(**options),
            current or builders.current())

    def test_default(self):
        self.assertEqual({'image_meta', 'surroundings'}, self.needs())

    def test_nothing_where_all_is_read(self):
        self.assertEqual(frozenset(), self.needs(current=builders.current(
            image_meta=builders.image_meta(),
            surroundings=builders.surroundings())))

    def test_field_that_is_off_needs_nothing(self):
        self.assertEqual({'surroundings'},
                         self.needs(field_modes={'image': 'off'}))
        self.assertEqual({'image_meta'},
                         self.needs(field_modes={'instance_group': 'off'}))
        self.assertEqual(frozenset(), self.needs(
            builders.spec(availability_zone='az1'),
            field_modes=dict.fromkeys(
                ('image', 'instance_group', 'availability_zone'), 'off')))

    def test_field_that_warns_needs_as_much(self):
        self.assertEqual({'image_meta', 'surroundings'}, self.needs(
            field_modes={'image': 'warn', 'instance_group': 'warn'}))

    def test_what_was_not_read_is_not_compared(self):
        spec = builders.spec(
            image=builders.image_meta(builders.UUID, os_distro='debian'),
            is_bfv=True, instance_group=builders.server_group(),
            availability_zone='az1')
        self.assertEqual((), fields.differences(
            spec, builders.current(), Operation.LIVE_MIGRATION,
            self.options()))


class DifferencesTest(base.TestCase):

    def test_each_field_is_compared_in_its_operations_only(self):
        spec = builders.spec(
            flavor=builders.flavor(extra_specs={}),
            numa_topology=builders.constraints(
                builders.flavor(extra_specs={'hw:numa_nodes': '2'})),
            pci_requests=builders.pci_requests(builders.pci_request()),
            image=builders.image_meta(builders.UUID), project_id='other',
            scheduler_hints={'_nova_check_type': ['rebuild']},
            availability_zone='az1', is_bfv=True)
        current = builders.current(
            image_meta=builders.image_meta(), is_volume_backed=False,
            base_image_ref=builders.OTHER_UUID,
            surroundings=builders.surroundings(builders.GROUP))
        for operation in Operation:
            self.assertEqual(
                {name for name, found in OPERATIONS.items()
                 if operation in found} - {flavor.NAME},
                set(self.differences(spec, current, operation)), operation)
