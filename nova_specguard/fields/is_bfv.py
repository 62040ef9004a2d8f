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

"""Whether the server is volume-backed.

nova adds a missing flag itself, but saves the spec as it is in memory at that
moment: a resize's new flavor before a host was found, a rebuild's hint. Set
before nova looks, nothing is saved.

:Truth: the server's root block device (``is_volume_backed_instance``).
:Expected: the same, in every operation.
:Compared: the flag. Block devices are read only where it is missing or does
    not fit ``instances.image_ref``, which is empty for most volume-backed
    servers and only for these.
:Corrected: by nova-conductor; by nova-scheduler before it asks placement, if
    the request is not marked as a resize.
:Healed: yes.
:Read by: the placement query (disk); the request filters
    ``require_image_type_support`` and ``ephemeral_encryption_filter``; the
    quota check of a reverted resize; cross-cell resize.
"""

from nova_specguard.fields import base
from nova_specguard import reader

NAME = 'is_bfv'
OPERATIONS = base.ALL_OPERATIONS
IS_BFV = base.DriftClass(
    'is-bfv', 'info',
    'The row was last written before nova 18.',
    'Nova heals it by design (``heal_reqspec_is_bfv``); what else it saves '
    'with it has no bug report.')
CLASSES = (IS_BFV,)


def needs(spec, current):
    if current.is_volume_backed is None and (
            reader.get(spec, NAME) is not (not current.image_ref)):
        return frozenset({'is_volume_backed'})
    return frozenset()


def difference(spec, current, options):
    value = reader.get(spec, NAME)
    if current.is_volume_backed in (None, value):
        return None
    return base.Difference(
        NAME, IS_BFV, reader.short(value),
        reader.short(current.is_volume_backed),
        # nova sets a missing flag right itself
        is_refusable=value is not None, is_unseen=value is None)


def apply(spec, current, options):
    spec.is_bfv = current.is_volume_backed
