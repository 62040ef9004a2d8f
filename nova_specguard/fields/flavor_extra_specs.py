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

"""The extra specs of a flavor that is otherwise the server's.

A field of its own, because operators rewrite the extra specs of stored copies
on purpose to make new ones effective, hence the default ``warn``.

:Truth: ``extra_specs`` of ``instance_extra.flavor.cur``.
:Expected: as ``flavor``.
:Compared: keys and values, without those that ``ignored_extra_specs``
    matches. Where the whole flavor is another, ``flavor`` reports and
    corrects them.
:Corrected: as ``flavor``. What is ignored keeps the spec's value.
:Healed: yes.
:Read by: as ``flavor``.
"""

from nova_specguard.fields import base
from nova_specguard.fields import flavor
from nova_specguard import reader

NAME = 'flavor_extra_specs'
OPERATIONS = flavor.OPERATIONS
EXTRA_SPECS = base.DriftClass(
    'flavor-extra-specs', 'info',
    'Operators edit stored copies; no code of nova does.',
    'Not a bug of nova.')
CLASSES = (EXTRA_SPECS,)

# What hardware.numa_get_constraints and pci.request read.
_SHAPING = ('hw:', 'pci_passthrough:', 'resources', 'trait')

needs = base.needs_nothing


def difference(spec, current, options):
    if flavor.is_other(spec, current):
        return None
    pairs = flavor.differing_extra_specs(spec, current, options)
    if not pairs:
        return None
    return base.Difference(
        NAME, EXTRA_SPECS, *base.short_pairs(pairs),
        shapes_others=any(key.startswith(_SHAPING) for key in pairs))


def apply(spec, current, options):
    old = reader.as_dict(reader.get(spec.flavor, 'extra_specs'))
    new = reader.as_dict(reader.get(current.flavor, 'extra_specs'))
    extra_specs = {
        key: value for key, value in new.items()
        if not flavor.is_ignored_extra_spec(key, options)}
    extra_specs.update(
        (key, value) for key, value in old.items()
        if flavor.is_ignored_extra_spec(key, options))
    spec.flavor = spec.flavor.obj_clone()
    spec.flavor.extra_specs = extra_specs
