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

"""The image: its id, and the properties that scheduling can read.

There are three copies: the spec's, ``instances.image_ref``, and the server's
system_metadata with the image's properties and ``image_base_image_ref``.

:Truth: the instance, where the spec has id and properties of another image,
    and nova-compute ended the last rebuild, as the event
    ``compute_rebuild_instance`` of its instance action says; for properties
    alone, the instance. The instance is not always right: a failed rebuild
    leaves ``image_ref`` right and the two others with the new image, or the
    spec right and the two others with the new one; a failed unshelve
    (LP#1934094) left the id of a deleted snapshot in ``image_ref``. These
    cannot be told apart; the alert says what each copy holds.
:Expected: id and properties of the instance, in every operation.
:Compared: the id, but of a volume-backed server, whose ``image_ref`` is empty
    or that of the boot, only after a rebuild that nova-compute did not end;
    the properties that the spec has. No difference:
    properties that only the server has, since nova-compute registers seven of
    them on libvirt, and the nova that wrote the spec need not have known the
    others; ``hw_machine_type``, which ``nova-manage libvirt
    update_machine_type`` changes in the server only; what only the image has
    (signature, block device mapping, owner, version); text beyond 255 bytes,
    which system_metadata cuts off; a list whose text was cut off there.
:Corrected: by nova-conductor, which hands the spec's image to the compute of
    a cold migration or resize; by nova-scheduler before it asks placement, if
    the request is not marked as a resize. Never ``image-ambiguous``, which is
    no reason to refuse either.
:Healed: ``image-id`` and ``image-properties``.
:Read by: ``IsolatedHostsFilter`` (id); ``ImagePropertiesFilter``,
    ``AggregateImagePropertiesIsolation``, ``NUMATopologyFilter``,
    ``ImagePropertiesWeigher``; the request filters
    ``require_image_type_support``, ``isolate_aggregates``,
    ``transform_image_metadata``; the placement query (traits, secure boot,
    vTPM, memory encryption, pinning); ``prep_resize`` on the compute.
"""

from nova import objects

from nova_specguard.fields import base
from nova_specguard import reader

NAME = 'image'
OPERATIONS = base.ALL_OPERATIONS
ID = base.DriftClass(
    'image-id', 'warning',
    'A rebuild to a new image that found no host, or whose save of the spec '
    'failed in nova-api, then a rebuild to the image that the server has by '
    'then: nova does not save the spec again.')
PROPERTIES = base.DriftClass(
    'image-properties', 'warning',
    'A rebuild to the same image, whose properties were changed in glance: '
    'nova-api stores them in the server only. ``nova-manage image_property '
    'set``, of a nova that does not change the spec, or interrupted between '
    'its two saves.',
    'Rebuild: none found, open. image_property: LP#2078999, '
    'fixed in 30.0.0, 29.2.1 and 28.3.1; LP#2096341 (traits), fixed in '
    '31.0.0.')
AMBIGUOUS = base.DriftClass(
    'image-ambiguous', 'warning',
    'A rebuild to a new image that found no host, or that nova-api gave up '
    'half-way; below nova 25, an unshelve that failed on the compute.',
    'Rebuild: none found, open. Unshelve: LP#1934094, fixed in 25.0.0 and '
    '24.2.0; old rows stay.')
CLASSES = (ID, PROPERTIES, AMBIGUOUS)

# Set in the server alone by nova-manage; not kept in system_metadata
# (utils.SM_SKIP_KEYS), not inherited by servers and snapshots
# (NON_INHERITABLE_IMAGE_PROPERTIES), or about the image itself.
_NOT_COMPARED = frozenset((
    'hw_machine_type', 'img_bdm_v2', 'img_bittorrent',
    'img_block_device_mapping', 'img_cache_in_nova', 'img_mappings',
    'img_owner_id', 'img_root_device_name', 'img_signature',
    'img_signature_certificate_uuid', 'img_signature_hash_method',
    'img_signature_key_type', 'img_version'))
# What hardware.numa_get_constraints reads.
_SHAPING = ('hw_numa_', 'hw_cpu_', 'hw_mem_', 'hw_locked_')
_SHAPING_TRAIT = 'HW_CPU_HYPERTHREADING'
# That of a value in system_metadata, in bytes.
_MAX_LENGTH = 255


def needs(spec, current):
    names = set()
    if current.image_meta is None:
        names.add('image_meta')
    if _differing_id(reader.get(spec, NAME), current):
        names.update(name for name in ('is_volume_backed', 'is_rebuilt')
                     if getattr(current, name) is None)
    return frozenset(names)


def _normal(value):
    """A value's text, the same from an object and from JSON."""
    if isinstance(value, dict):
        return ','.join(sorted('%s:%s' % item for item in value.items()))
    if isinstance(value, list):
        # Traits have no order, what is listed by NUMA node has one.
        items = list(map(_normal_set, value))
        return ','.join(sorted(items) if all(isinstance(item, str)
                                             for item in value) else items)
    # as nova.utils.safe_truncate, but for any text that JSON can hold
    return _normal_set(value).encode(errors='surrogatepass')[
        :_MAX_LENGTH].decode(errors='ignore')


def _normal_set(value):
    # a list, once it has been stored
    if isinstance(value, (set, frozenset, list, tuple)):
        return '[%s]' % ','.join(sorted(map(str, value)))
    return _normal(value) if isinstance(value, dict) else str(value)


def _shown(value):
    return _normal(value) if isinstance(value, list) else value


def _properties(image):
    values = reader.values(reader.get(image, 'properties'))
    return {name: value for name, value in values.items()
            if value is not None and name not in _NOT_COMPARED and
            name in objects.ImageMetaProps.fields}


def _differing_properties(spec_image, current):
    """The properties that differ.

    :returns: dict of name to (value in the spec, value of the server or None)
    """
    current_properties = reader.get(current.image_meta, 'properties')
    pairs = ((name, (value, reader.get(current_properties, name)))
             for name, value in sorted(_properties(spec_image).items()))
    return {
        name: pair for name, pair in pairs
        if pair[0] != pair[1] and _normal(pair[0]) != _normal(pair[1]) and
        # nova has parsed half of the text
        not (name in current.cut_off and isinstance(pair[0], list))}


def _differing_id(spec_image, current):
    spec_id = reader.get(spec_image, 'id')
    if not current.image_ref or spec_id in (None, current.image_ref):
        return None
    if current.is_volume_backed and current.is_rebuilt is not False:
        return None
    return spec_id


def _shapes_others(properties):
    traits = properties.get('traits_required', ())
    return any(name.startswith(_SHAPING) for name in properties) or any(
        _SHAPING_TRAIT in reader.as_list(value) for value in traits)


def difference(spec, current, options):
    if current.image_meta is None:
        return None
    spec_image = reader.get(spec, NAME)
    spec_id = _differing_id(spec_image, current)
    properties = _differing_properties(spec_image, current)
    shapes_others = _shapes_others(properties)
    # nova-api's resize and shelve write image_ref over the base image, so that
    # this copy proves nothing; the properties must be another image's, too.
    # And nova-api saves both before anything has been done with the disk.
    if spec_id and not (
            properties and current.image_ref == current.base_image_ref and
            current.is_rebuilt and not current.is_volume_backed):
        return base.Difference(
            NAME, AMBIGUOUS, 'id=%s' % reader.short(spec_id),
            'image_ref=%s image_base_image_ref=%s' % (
                reader.short(current.image_ref),
                reader.short(current.base_image_ref)),
            is_correctable=False, is_refusable=False,
            shapes_others=shapes_others)
    pairs = {'id': (spec_id, current.image_ref)} if spec_id else {}
    pairs.update((name, tuple(map(_shown, pair)))
                 for name, pair in properties.items())
    if not pairs:
        return None
    return base.Difference(
        NAME, ID if spec_id else PROPERTIES, *base.short_pairs(pairs),
        shapes_others=shapes_others)


def apply(spec, current, options):
    spec_image = reader.get(spec, NAME)
    if _differing_id(spec_image, current):
        spec.image = current.image_meta
        return
    values = reader.values(reader.get(spec_image, 'properties'))
    for name, (_old, new) in _differing_properties(
            spec_image, current).items():
        values[name] = new
    spec.image = spec_image.obj_clone()
    spec.image.properties = objects.ImageMetaProps(
        **{name: value for name, value in values.items()
           if value is not None})
