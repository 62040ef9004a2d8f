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

"""The flavor, by identity and size.

:Truth: ``instance_extra.flavor.cur``.
:Expected: the same, in live-migration, evacuate, unshelve and rebuild. A
    resize carries the flavor that was asked for and a cold migration the one
    that nova-conductor has just put there
    (``ComputeTaskManager._get_request_spec_for_cold_migrate``).
:Compared: id, flavorid, name, vcpus, memory_mb, root_gb, ephemeral_gb, swap.
    If one of these differs, differing extra specs are shown with them. No
    difference: description, which ``Instance._save_flavor`` blanks, time
    stamps, and fields that no scheduling reads.
:Corrected: by nova-conductor; by nova-scheduler before it asks placement, if
    ``pci_requests`` do not differ and both flavors have the same
    ``accel:device_profile``. The whole flavor is replaced, extra specs
    included. ``numa_topology`` and ``pci_requests`` are corrected with it, or
    none of them is.
:Healed: yes.
:Read by: the placement query and the claim (sizes, ``resources``, ``trait``);
    ``AggregateInstanceExtraSpecsFilter``, ``ComputeCapabilitiesFilter``,
    ``AggregateTypeAffinityFilter`` (name), ``NUMATopologyFilter``; the request
    filters ``isolate_aggregates`` and ``accelerators_filter``;
    nova-conductor's device profile groups.
"""

import fnmatch

from nova_specguard.fields import base
from nova_specguard.operation import Operation
from nova_specguard import reader

NAME = 'flavor'
OTHER = base.DriftClass(
    'flavor-other', 'warning',
    'A resize that failed after nova-conductor had cast it: claim, driver, '
    'network, a lost cast. The other way round: a revert that failed, or a '
    'resize whose save failed.',
    'Failed resize: none found, open in 34.0.0. Revert: LP#1785339, fixed in '
    '19.0.0. Failed revert, failed save: none found, open.')
CLASSES = (OTHER,)
OPERATIONS = frozenset((
    Operation.LIVE_MIGRATION, Operation.EVACUATE, Operation.UNSHELVE,
    Operation.REBUILD, Operation.UNKNOWN))

_IDENTITY = ('id', 'flavorid')
_COMPARED = _IDENTITY + ('name', 'vcpus', 'memory_mb', 'root_gb',
                         'ephemeral_gb', 'swap')


needs = base.needs_nothing


def is_readable(flavor):
    """Whether a flavor says which one it is."""
    return any(reader.get(flavor, name) is not None for name in _IDENTITY)


def _normal(flavor):
    values = {name: reader.get(flavor, name) for name in _COMPARED}
    return {name: str(value)
            for name, value in values.items() if value is not None}


def _differing(spec, current):
    spec_flavor = reader.get(spec, NAME)
    if spec_flavor == current.flavor:
        return {}
    spec_form = _normal(spec_flavor)
    current_form = _normal(current.flavor)
    if not is_readable(spec_flavor):
        return {name: (None, value) for name, value in current_form.items()}
    # An attribute that one side never stored proves nothing.
    return {name: (spec_form[name], current_form[name])
            for name in _COMPARED
            if name in spec_form and name in current_form and
            spec_form[name] != current_form[name]}


def is_other(spec, current):
    """Whether the request spec holds another flavor than the server's.

    :param spec: nova.objects.RequestSpec, or its stored primitive
    :param current: nova_specguard.instances.CurrentInstance
    """
    return bool(_differing(spec, current))


def is_ignored_extra_spec(key, options):
    """Whether ``[specguard] ignored_extra_specs`` matches an extra spec."""
    return any(fnmatch.fnmatchcase(key, pattern)
               for pattern in options.ignored_extra_specs)


def differing_extra_specs(spec, current, options):
    """The extra specs that differ.

    :returns: dict of key to (value in the spec, value of the server), with
        None where there is none
    """
    if reader.get(spec, NAME) == current.flavor:
        return {}
    spec_form, current_form = (
        {str(key): str(value)
         for key, value in reader.as_dict(
             reader.get(flavor, 'extra_specs')).items()
         if not is_ignored_extra_spec(str(key), options)}
        for flavor in (reader.get(spec, NAME), current.flavor))
    return {key: (spec_form.get(key), current_form.get(key))
            for key in sorted(spec_form.keys() | current_form.keys())
            if spec_form.get(key) != current_form.get(key)}


def difference(spec, current, options):
    pairs = _differing(spec, current)
    if not pairs:
        return None
    pairs.update(differing_extra_specs(spec, current, options))
    return base.Difference(NAME, OTHER, *base.short_pairs(pairs),
                           shapes_others=True)


def apply(spec, current, options):
    spec.flavor = current.flavor
