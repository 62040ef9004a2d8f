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

import dataclasses

from nova import objects

from nova_specguard.fields import image
from nova_specguard.operation import Operation
from nova_specguard import reader
from tests.unit import base
from tests.unit import builders

OLD = builders.OTHER_UUID
NEW = '0b1f5a0c-4a5e-4e0f-8a0e-6f5c2f0d9b11'
# As nova-compute puts them into system_metadata of servers without them.
REGISTERED = {
    'hw_cdrom_bus': 'sata', 'hw_disk_bus': 'virtio', 'hw_input_bus': 'usb',
    'hw_machine_type': 'pc-q35-6.2', 'hw_pointer_model': 'usbtablet',
    'hw_video_model': 'virtio', 'hw_vif_model': 'virtio'}


def server(image_id=OLD, base=OLD, /, **properties):
    """A server whose copies of the image's id are these two."""
    return builders.current(
        image_ref=image_id, base_image_ref=base,
        image_meta=builders.image_meta(image_id, **properties))


def volume_backed(**properties):
    meta = builders.image_meta(**properties)
    delattr(meta, objects.base.get_attrname('id'))
    return builders.current(image_ref='', base_image_ref='', image_meta=meta)


def spec(image_id=OLD, /, **properties):
    return builders.spec(image=builders.image_meta(image_id, **properties))


class ImageTestCase(base.FieldTestCase):

    def difference(self, spec, current):
        """What this field alone says."""
        found = image.difference(spec, current, self.options())
        self.assertEqual(found, image.difference(
            builders.stored(spec), current, self.options()))
        return found

    def assert_image(self, drift_class, spec, current, **kwargs):
        return self.assert_drift('image', drift_class, spec, current,
                                 **kwargs)


class NoDifferenceTest(ImageTestCase):

    def test_equal_image(self):
        self.assert_consistent(spec(), server())
        self.assert_consistent(spec(os_distro='debian'),
                               server(os_distro='debian'))

    def test_image_as_nova_keeps_it_at_the_boot(self):
        for properties in (
                {}, {'os_distro': 'debian', 'hw_boot_menu': 'yes'},
                {'architecture': 'amd64', 'hypervisor_type': 'kvm'},
                {'vmware_adaptertype': 'lsiLogic', 'vmware_ostype': 'x'},
                {'trait:HW_CPU_X86_VMX': 'required',
                 'trait:HW_CPU_X86_AVX': 'required',
                 'trait:CUSTOM_X': 'forbidden'},
                {'hw_serial_port_count': '2', 'os_secure_boot': 'required'},
                {'nobody_knows': 'x', 'hw_rng_model': 'virtio'},
                {'img_config_drive': 'mandatory', 'img_hv_type': 'KVM',
                 'img_hv_requested_version': '>=2.0'}):
            self.assert_consistent(*builders.as_booted(**properties))

    def test_numa_of_the_image_as_nova_keeps_it(self):
        booted, current = builders.as_booted(**{
            'hw_numa_nodes': '2', 'hw_numa_cpus.0': '0',
            'hw_numa_cpus.1': '1-3', 'hw_numa_mem.0': '1024',
            'hw_numa_mem.1': '7168'})
        self.assertEqual([{0}, {1, 2, 3}],
                         booted.image.properties.hw_numa_cpus)
        self.assertIsNone(self.difference(booted, current))

    def test_what_nova_compute_registers(self):
        self.assert_consistent(spec(), server(**REGISTERED))
        for name, value in REGISTERED.items():
            self.assert_consistent(spec(), server(**{name: value}))

    def test_what_only_the_image_has(self):
        of_the_image = {
            'img_signature': 'x', 'img_signature_hash_method': 'SHA-256',
            'img_signature_certificate_uuid': builders.UUID,
            'img_signature_key_type': 'RSA-PSS', 'img_owner_id': 'x',
            'img_version': 1, 'img_bdm_v2': True, 'img_cache_in_nova': True,
            'img_bittorrent': True, 'img_root_device_name': 'vda',
            'img_mappings': [{'device': 'vda'}],
            'img_block_device_mapping': [{'device_name': 'vda'}]}
        self.assert_consistent(spec(**of_the_image), server())
        self.assert_consistent(spec(), server(**of_the_image))

    def test_the_rest_of_the_image(self):
        # system_metadata keeps no more than four of these.
        found = spec()
        found.image = objects.ImageMeta(
            id=OLD, name='an-image', status='active', checksum='x',
            owner='x', size=1, min_ram=0, min_disk=0, disk_format='qcow2',
            container_format='ovf', properties=objects.ImageMetaProps())
        self.assert_consistent(found, server())

    def test_text_that_system_metadata_cuts_off(self):
        # at 255 bytes, not characters
        for text in ('x' * 300, '\xe9' * 200, 'x' + '\xe9' * 200,
                     '\U0001f4bf' * 100):
            booted, current = builders.as_booted(os_command_line=text)
            self.assertNotEqual(
                text, current.image_meta.properties.os_command_line)
            self.assert_consistent(booted, current)

    def test_order_of_traits(self):
        self.assert_consistent(
            spec(traits_required=['HW_CPU_X86_AVX', 'HW_CPU_X86_VMX']),
            server(traits_required=['HW_CPU_X86_VMX', 'HW_CPU_X86_AVX']))

    def test_volume_backed_server_has_no_image_id(self):
        # The spec has one if the volume was made of an image.
        for image_id in (OLD, NEW):
            self.assert_consistent(
                builders.spec(image=builders.image_meta(image_id),
                              is_bfv=True), volume_backed())

    def test_request_spec_without_image(self):
        stored = builders.stored(spec())
        for none in (None, {}, [], 'x', 1, {'nova_object.data': None},
                     {'nova_object.data': {'id': None}}):
            stored['nova_object.data']['image'] = none
            self.assert_consistent(stored, server())
        del stored['nova_object.data']['image']
        self.assert_consistent(stored, server())
        self.assert_consistent(builders.spec(image=None), server())

    def test_image_of_a_newer_nova(self):
        stored = builders.stored(spec(os_distro='debian'))
        of_image = stored['nova_object.data']['image']
        of_image['nova_object.version'] = '9.9'
        of_image['nova_object.data']['hw_future'] = 'yes'
        properties = of_image['nova_object.data']['properties']
        properties['nova_object.version'] = '9.9'
        properties['nova_object.data']['hw_future'] = ['yes']
        self.assert_consistent(stored, server(os_distro='debian'))

    def test_volume_backed_server_keeps_the_id_of_the_boot(self):
        # After a rebuild to NEW that ended, or none at all.
        for is_rebuilt in (True, None):
            self.assert_consistent(
                builders.spec(image=builders.image_meta(NEW), is_bfv=True),
                dataclasses.replace(
                    server(OLD, NEW), is_volume_backed=True,
                    is_rebuilt=is_rebuilt))

    def test_metadata_that_was_not_read(self):
        self.assert_consistent(spec(NEW, os_distro='debian'),
                               builders.current(base_image_ref=OLD))


class IdTest(ImageTestCase):
    """The instance's own copies agree, the spec has another id."""

    def test_another_image_in_every_operation(self):
        for operation in Operation:
            found = self.assert_image(
                'image-id', spec(OLD, os_type='linux'), server(NEW, NEW),
                operation=operation)
            self.assertEqual(('id=%s os_type=linux' % OLD,
                              'id=%s os_type=-' % NEW),
                             (found.spec_value, found.current_value))

    def test_properties_are_part_of_it(self):
        found = self.assert_image(
            'image-id', spec(OLD, os_distro='debian'),
            server(NEW, NEW, os_distro='fedora'))
        self.assertEqual('id=%s os_distro=debian' % OLD, found.spec_value)
        self.assertEqual('id=%s os_distro=fedora' % NEW, found.current_value)

    def test_what_may_be_done_about_it(self):
        found = self.assert_image(
            'image-id', spec(OLD, os_type='linux'), server(NEW, NEW))
        self.assertTrue(found.is_correctable)
        self.assertTrue(found.is_refusable)
        self.assertFalse(found.shapes_others)
        self.assertFalse(found.is_derived)
        self.assertFalse(found.is_unseen)

    def test_row_with_something_else(self):
        stored = builders.stored(spec())
        for value in (1, ['x'], {'x': 1}, True, 'x' * 500):
            stored['nova_object.data']['image']['nova_object.data'][
                'id'] = value
            found = self.assert_image('image-ambiguous', stored, server())
            self.assertLess(len(found.spec_value), 300)


class AmbiguousTest(ImageTestCase):
    """The instance's own copies contradict each other."""

    # A rebuild from OLD to NEW found no host: nova rolls back image_ref only.
    after_rebuild = server(OLD, NEW)
    # LP#1934094: a failed unshelve left the snapshot NEW in image_ref.
    after_unshelve = server(NEW, OLD)

    def assert_ambiguous(self, spec, current, **kwargs):
        found = self.assert_image('image-ambiguous', spec, current, **kwargs)
        self.assertFalse(found.is_correctable)
        self.assertFalse(found.is_refusable)
        self.assertFalse(found.is_unseen)
        return found

    def test_rebuild_that_found_no_host(self):
        for operation in Operation:
            found = self.assert_ambiguous(
                spec(NEW), self.after_rebuild, operation=operation)
        self.assertEqual('id=' + NEW, found.spec_value)
        self.assertEqual(
            'image_ref=%s image_base_image_ref=%s' % (OLD, NEW),
            found.current_value)

    def test_unshelve_that_failed(self):
        for operation in Operation:
            found = self.assert_ambiguous(
                spec(OLD), self.after_unshelve, operation=operation)
        self.assertEqual(
            'image_ref=%s image_base_image_ref=%s' % (NEW, OLD),
            found.current_value)

    def test_after_nova_api_has_overwritten_the_base(self):
        # By resize, cold migration and shelve. The properties are the spec's.
        self.assert_ambiguous(spec(NEW, os_type='linux'),
                              server(OLD, OLD, os_type='linux'))

    def test_third_image(self):
        self.assert_ambiguous(spec(builders.UUID), self.after_rebuild)

    def test_base_that_was_never_stored(self):
        self.assert_ambiguous(spec(NEW), server(OLD, None))

    def test_rebuild_that_was_not_ended(self):
        # nova-api saved the server and gave up, or the compute failed.
        for is_rebuilt in (False, None):
            found = self.assert_ambiguous(
                spec(OLD, os_type='linux'), dataclasses.replace(
                    server(NEW, NEW, os_type='windows'),
                    is_rebuilt=is_rebuilt))
            self.assertEqual(
                'image_ref=%s image_base_image_ref=%s' % (NEW, NEW),
                found.current_value)

    def test_volume_backed_server_whose_rebuild_was_not_ended(self):
        for base_image in (OLD, NEW):
            self.assert_ambiguous(
                builders.spec(image=builders.image_meta(
                    NEW, os_type='linux'), is_bfv=True),
                dataclasses.replace(
                    server(OLD, base_image), is_volume_backed=True,
                    is_rebuilt=False))

    def test_properties_alone_do_not_make_it(self):
        # A server booted from a snapshot has the snapshot's base there.
        self.assert_consistent(spec(OLD), self.after_rebuild)
        self.assert_image('image-properties', spec(OLD, os_distro='debian'),
                          self.after_rebuild)

    def test_differing_properties_are_part_of_it(self):
        self.assert_ambiguous(spec(NEW, os_distro='debian'),
                              server(OLD, NEW, os_distro='fedora'))

    def test_what_shapes_others_still_does(self):
        found = self.difference(spec(NEW, hw_numa_nodes=2),
                                self.after_rebuild)
        self.assertTrue(found.shapes_others)
        self.assertFalse(self.difference(
            spec(NEW), self.after_rebuild).shapes_others)


class PropertiesTest(ImageTestCase):

    def assert_properties(self, of_spec, of_server, spec_value,
                          current_value):
        found = self.difference(spec(**of_spec), server(**of_server))
        self.assertEqual('image-properties', found.drift_class.name)
        self.assertEqual((spec_value, current_value),
                         (found.spec_value, found.current_value))
        self.assertTrue(found.is_correctable)
        self.assertTrue(found.is_refusable)
        self.assertFalse(found.is_derived)
        self.assertFalse(found.is_unseen)
        return found

    def test_other_value(self):
        self.assert_properties(
            {'os_distro': 'debian'}, {'os_distro': 'fedora'},
            'os_distro=debian', 'os_distro=fedora')
        self.assert_properties(
            {'hw_boot_menu': True}, {'hw_boot_menu': False},
            'hw_boot_menu=True', 'hw_boot_menu=False')

    def test_value_of_one_side(self):
        self.assert_properties(
            {'os_distro': 'debian'}, {}, 'os_distro=debian', 'os_distro=-')

    def test_value_of_the_server_alone(self):
        # The nova that wrote the row may not have known it.
        self.assert_consistent(spec(), server(os_secure_boot='required'))

    def test_all_are_named(self):
        self.assert_properties(
            {'os_distro': 'debian', 'hw_firmware_type': 'uefi'},
            {'hw_firmware_type': 'bios'},
            'hw_firmware_type=uefi os_distro=debian',
            'hw_firmware_type=bios os_distro=-')

    def test_registered_one_that_the_spec_has_too(self):
        self.assert_properties(
            {'hw_disk_bus': 'scsi'}, {'hw_disk_bus': 'virtio'},
            'hw_disk_bus=scsi', 'hw_disk_bus=virtio')

    def test_machine_type_that_nova_manage_has_updated(self):
        self.assert_consistent(spec(hw_machine_type='pc'),
                               server(hw_machine_type='pc-q35-6.2'))

    def test_traits(self):
        self.assert_properties(
            {'traits_required': ['HW_CPU_X86_VMX']},
            {'traits_required': ['HW_CPU_X86_VMX', 'CUSTOM_X']},
            'traits_required=HW_CPU_X86_VMX',
            'traits_required=CUSTOM_X,HW_CPU_X86_VMX')

    def test_memory_of_numa_nodes_has_an_order(self):
        self.assert_properties(
            {'hw_numa_mem': [1024, 7168]}, {'hw_numa_mem': [7168, 1024]},
            'hw_numa_mem=1024,7168', 'hw_numa_mem=7168,1024')

    def test_cpus_of_numa_nodes_have_an_order(self):
        self.assert_properties(
            {'hw_numa_cpus': [{0}, {8, 1}]}, {'hw_numa_cpus': [{1, 8}, {0}]},
            'hw_numa_cpus=[0],[1,8]', 'hw_numa_cpus=[1,8],[0]')
        self.assertIsNone(self.difference(
            spec(hw_numa_cpus=[{0}, {2, 1}]),
            server(hw_numa_cpus=[{0}, {1, 2}])))

    def test_list_whose_text_was_cut_off(self):
        booted, current = spec(hw_numa_cpus=[{0, 1, 2}]), server(
            hw_numa_cpus=[{0, 1}])
        self.assert_image('image-properties', booted, current)
        self.assert_consistent(booted, dataclasses.replace(
            current, cut_off=frozenset({'hw_numa_cpus'})))

    def test_text_that_differs_before_it_is_cut_off(self):
        found = self.difference(spec(os_command_line='a' + 'x' * 300),
                                server(os_command_line='b' + 'x' * 254))
        self.assertLess(len(found.spec_value), 300)

    def test_volume_backed_server(self):
        found = self.difference(spec(NEW, os_distro='debian'),
                                volume_backed(os_distro='fedora'))
        self.assertEqual('image-properties', found.drift_class.name)

    def test_row_with_something_else(self):
        stored = builders.stored(spec(os_distro='debian'))
        properties = stored['nova_object.data']['image'][
            'nova_object.data']['properties']['nova_object.data']
        for value in (1, [], ['x'], {'debian': [1]}, [[['x']]], True,
                      '9' * 5000):
            properties['os_distro'] = value
            self.assert_image('image-properties', stored,
                              server(os_distro='debian'))

    def test_what_numa_constraints_are_made_of_shapes_others(self):
        for properties in (
                {'hw_numa_nodes': 2}, {'hw_numa_cpus': [{0}]},
                {'hw_numa_mem': [1]}, {'hw_cpu_policy': 'dedicated'},
                {'hw_cpu_thread_policy': 'require'},
                {'hw_cpu_realtime_mask': '^0'}, {'hw_mem_page_size': '2M'},
                {'traits_required': ['HW_CPU_HYPERTHREADING']}):
            self.assertTrue(self.difference(
                spec(**properties), server()).shapes_others, properties)
        self.assertFalse(self.difference(
            spec(os_distro='debian', traits_required=['CUSTOM_X']),
            server()).shapes_others)


class NeedsTest(base.TestCase):

    def test_metadata_always_and_once(self):
        for found in (spec(), builders.spec(image=None)):
            for form in (found, builders.stored(found)):
                self.assertEqual({'image_meta'},
                                 image.needs(form, builders.current()))
                self.assertEqual(frozenset(), image.needs(form, server()))

    def test_what_the_image_is_on_where_the_ids_differ(self):
        current = builders.current(is_rebuilt=None)
        for form in (spec(NEW), builders.stored(spec(NEW))):
            self.assertEqual(
                {'image_meta', 'is_volume_backed', 'is_rebuilt'},
                image.needs(form, current))
            self.assertEqual(frozenset(), image.needs(
                form, dataclasses.replace(
                    server(), is_volume_backed=False, is_rebuilt=False)))
        self.assertEqual({'image_meta'}, image.needs(spec(), current))


class ApplyTest(ImageTestCase):

    def test_another_image_is_replaced(self):
        found = spec(OLD, os_distro='debian')
        self.assert_corrected(
            'image', found, server(NEW, NEW, os_distro='fedora'), 'image')
        self.assertEqual(NEW, found.image.id)
        self.assertEqual('raw', found.image.disk_format)

    def test_only_the_properties_that_differ_are_changed(self):
        found = spec(os_distro='debian', os_admin_user='x',
                     os_type='linux', img_signature='x', hw_disk_bus='scsi')
        found.image.name = 'an-image'
        self.assert_corrected('image', found, server(
            os_distro='fedora', hw_disk_bus='scsi', os_type='linux',
            hw_machine_type='pc-q35-6.2', hw_firmware_type='uefi'), 'image')
        self.assertEqual('an-image', found.image.name)
        self.assertEqual(
            {'os_distro': 'fedora', 'img_signature': 'x', 'os_type': 'linux',
             'hw_disk_bus': 'scsi'},
            reader.values(found.image.properties))

    def test_text_that_is_cut_off_is_kept(self):
        found, current = builders.as_booted(
            os_command_line='x' * 300, os_distro='debian')
        found.image.properties.os_distro = 'fedora'
        self.assert_corrected('image', found, current, 'image')
        self.assertEqual(300, len(found.image.properties.os_command_line))

    def test_lists_and_sets(self):
        found = spec(traits_required=['CUSTOM_X'])
        self.assert_corrected(
            'image', found, server(traits_required=['CUSTOM_Y']), 'image')
        self.assertEqual(['CUSTOM_Y'], found.image.properties.traits_required)

    def test_image_of_the_caller_is_left_alone(self):
        # nova-api's object may be used elsewhere, too.
        found = spec(os_distro='debian')
        before = found.image
        image.apply(found, server(os_distro='fedora'), self.options())
        self.assertEqual('debian', before.properties.os_distro)

    def test_volume_backed_server_keeps_the_id_of_the_spec(self):
        found = builders.spec(
            is_bfv=True, image=builders.image_meta(NEW, os_distro='debian'))
        self.assert_corrected(
            'image', found, volume_backed(os_distro='fedora'), 'image')
        self.assertEqual(NEW, found.image.id)
