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

from nova import objects

from nova_specguard.fields import is_bfv
from nova_specguard.operation import Operation
from tests.unit import base
from tests.unit import builders


def without_flag(**values):
    """As nova wrote it before Rocky."""
    spec = builders.stored(builders.spec(**values))
    del spec['nova_object.data']['is_bfv']
    return objects.RequestSpec.obj_from_primitive(spec)


def volume_backed(**values):
    return builders.current(**{
        'image_ref': '', 'is_volume_backed': True, **values})


def image_backed(**values):
    return builders.current(is_volume_backed=False, **values)


class IsBfvTest(base.FieldTestCase):

    def assert_is_bfv(self, spec, current, **kwargs):
        return self.assert_drift('is_bfv', 'is-bfv', spec, current, **kwargs)

    def test_equal_flag(self):
        self.assert_consistent(builders.spec(is_bfv=False), image_backed())
        self.assert_consistent(builders.spec(is_bfv=True), volume_backed())

    def test_other_flag_in_every_operation(self):
        for operation in Operation:
            for spec, current, of_spec, of_server in (
                    (builders.spec(is_bfv=True), image_backed(),
                     'True', 'False'),
                    (builders.spec(is_bfv=False), volume_backed(),
                     'False', 'True')):
                found = self.assert_is_bfv(
                    spec, current, operation=operation)
                self.assertEqual((of_spec, of_server), (
                    found.spec_value, found.current_value))
                self.assertTrue(found.is_correctable)
                self.assertTrue(found.is_refusable)

    def test_missing_flag_is_never_a_reason_to_refuse(self):
        # nova adds it itself.
        for current in (image_backed(), volume_backed()):
            found = self.assert_is_bfv(without_flag(), current)
            self.assertEqual('-', found.spec_value)
            self.assertTrue(found.is_correctable)
            self.assertFalse(found.is_refusable)

    def test_row_with_something_else(self):
        spec = builders.stored(builders.spec())
        for value in ('False', '', [], {}, 2):
            spec['nova_object.data']['is_bfv'] = value
            self.assert_is_bfv(spec, image_backed())

    def test_nothing_follows_from_it(self):
        found = self.assert_is_bfv(without_flag(), image_backed())
        self.assertFalse(found.shapes_others)
        self.assertFalse(found.is_derived)
        self.assertTrue(found.is_unseen)

    def test_block_devices_are_not_read_where_the_flag_fits_the_image(self):
        for flag, image_ref in ((False, builders.OTHER_UUID), (True, ''),
                                (True, None)):
            spec = builders.spec(is_bfv=flag)
            current = builders.current(image_ref=image_ref)
            for form in (spec, builders.stored(spec)):
                self.assertEqual(frozenset(), is_bfv.needs(form, current))
            self.assert_consistent(spec, current)

    def test_block_devices_are_read_where_it_does_not(self):
        for spec, image_ref in (
                (builders.spec(is_bfv=True), builders.OTHER_UUID),
                (builders.spec(is_bfv=False), ''),
                (builders.spec(is_bfv=False), None),
                (without_flag(), ''), (without_flag(), builders.OTHER_UUID)):
            current = builders.current(image_ref=image_ref)
            for form in (spec, builders.stored(spec)):
                self.assertEqual({'is_volume_backed'},
                                 is_bfv.needs(form, current))

    def test_block_devices_are_read_once(self):
        for read in (True, False):
            self.assertEqual(frozenset(), is_bfv.needs(
                without_flag(), builders.current(is_volume_backed=read)))

    def test_block_device_is_believed_more_than_the_image(self):
        self.assert_consistent(
            builders.spec(is_bfv=True),
            builders.current(is_volume_backed=True))
        self.assert_consistent(
            builders.spec(is_bfv=False),
            builders.current(image_ref='', is_volume_backed=False))

    def test_correct(self):
        self.assert_corrected('is_bfv', builders.spec(is_bfv=True),
                              image_backed(), 'is_bfv')
        for current in (image_backed(), volume_backed()):
            spec = without_flag()
            self.assert_corrected('is_bfv', spec, current, 'is_bfv')
            # nova's own heal_reqspec_is_bfv would save it otherwise.
            self.assertIn('is_bfv', spec)
