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

"""What the field modules share."""

import dataclasses

from nova_specguard.operation import Operation
from nova_specguard import reader

ALL_OPERATIONS = frozenset(Operation)

SEVERITIES = ('critical', 'warning', 'info')


@dataclasses.dataclass(frozen=True)
class DriftClass:
    """What can be observed of a field.

    :ivar name: permanent name in alerts and reports
    :ivar severity: one of SEVERITIES: ``critical`` (isolation or data at risk
        now), ``warning`` (a later operation will go wrong), ``info``
    :ivar cause: how nova gets there
    :ivar upstream: the bug in nova's tracker and where it is fixed, or that
        none is known
    """

    name: str
    severity: str
    cause: str
    upstream: str = 'No bug report found.'


@dataclasses.dataclass(frozen=True)
class Difference:
    """How one field of a request spec differs from what it should be.

    :ivar field: NAME of the field
    :ivar drift_class: DriftClass
    :ivar spec_value: short form of what the request spec says
    :ivar current_value: short form of what it should say
    :ivar is_correctable: whether ``apply`` can put it right
    :ivar is_refusable: whether a move may be refused for it; not if that
        could stop a move that nova alone does right
    :ivar shapes_others: whether other fields are derived from what differs
        here
    :ivar is_derived: whether the field is derived from flavor and image
    :ivar is_unseen: whether nova-scheduler never gets to see it, because nova
        fails by it or heals it before
    """

    field: str
    drift_class: DriftClass
    spec_value: str
    current_value: str
    is_correctable: bool = True
    is_refusable: bool = True
    shapes_others: bool = False
    is_derived: bool = False
    is_unseen: bool = False


def needs_nothing(spec, current):
    """For fields that are compared with what is always read."""
    return frozenset()


def short_pairs(pairs):
    """Both sides of some differing values, as text.

    :param pairs: dict of name to (value in the spec, value of the server)
    :returns: (short form of the spec's values, of the server's values)
    """
    return tuple(
        reader.short(' '.join(
            '%s=%s' % (name, reader.short(pair[side], 60))
            for name, pair in pairs.items()))
        for side in (0, 1))
