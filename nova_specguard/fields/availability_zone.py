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

"""The availability zone that the server is pinned to.

A pin is what the user asked for, so the spec is the truth and the server is
what can be wrong. Never changed, never a reason to refuse.

:Truth: the pin in the spec, and the zones that aggregates have now.
:Expected: a zone that exists and, where the server has a host, the zone of
    that host's aggregates; ``instances.availability_zone`` keeps the zone of
    the destination after a move that failed.
:Compared: the name. A host in no aggregate with a zone is in
    ``[DEFAULT] default_availability_zone``. A pin to that one restricts
    nothing while no aggregate has it, and is no difference.
:Corrected: never.
:Healed: never.
:Read by: the request filter ``map_az_to_placement_aggregate``, which lets a
    zone that no aggregate has go by in silence; ``AvailabilityZoneFilter``
    (below nova 28).
"""

import nova.conf

from nova_specguard.fields import base
from nova_specguard import reader

NAME = 'availability_zone'
OPERATIONS = base.ALL_OPERATIONS
VIOLATED = base.DriftClass(
    'zone-pin-violated', 'warning',
    'A forced move out of the zone, or an unshelve that failed after it had '
    'stored another zone.',
    'Failed unshelve: LP#1978573, open; from nova 34 on the user can unpin '
    'the server.')
UNKNOWN = base.DriftClass(
    'zone-pin-unknown', 'warning',
    'The zone was taken away from its aggregates. From nova 28 on the pin is '
    'ignored, before that no move finds a host.')
CLASSES = (VIOLATED, UNKNOWN)


def needs(spec, current):
    if reader.get(spec, NAME) and current.surroundings is None:
        return frozenset({'surroundings'})
    return frozenset()


def difference(spec, current, options):
    pin = reader.get(spec, NAME)
    surroundings = current.surroundings
    if not pin or surroundings is None:
        return None
    default = nova.conf.CONF.default_availability_zone
    zone = None
    if current.host is not None:
        zone = surroundings.zone or default
    if not surroundings.is_pin_known:
        if pin == default:
            return None
        drift_class = UNKNOWN
    elif zone not in (None, pin):
        drift_class = VIOLATED
    else:
        return None
    return base.Difference(
        NAME, drift_class, reader.short(pin), reader.short(zone),
        is_correctable=False, is_refusable=False)


def apply(spec, current, options):
    """Nothing: a pin is never changed."""
