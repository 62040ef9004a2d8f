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

from nova_specguard import reader


@dataclasses.dataclass(frozen=True)
class Difference:
    """How one field of a request spec differs from what it should be.

    :ivar field: NAME of the field
    :ivar drift_class: name of what was observed
    :ivar spec_value: short form of what the request spec says
    :ivar current_value: short form of what it should say
    :ivar correctable: whether ``apply`` can put it right
    :ivar shapes_others: whether the server's other fields are derived from
        what differs here
    :ivar is_derived: whether the field is derived from the flavor
    :ivar is_harmless: whether a move by this spec goes where the server may
        run; alerted, never enforced
    """

    field: str
    drift_class: str
    spec_value: str
    current_value: str
    correctable: bool = True
    shapes_others: bool = False
    is_derived: bool = False
    is_harmless: bool = False


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
