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


@dataclasses.dataclass(frozen=True)
class Difference:
    """How one field of a request spec differs from what it should be.

    :ivar field: NAME of the field
    :ivar drift_class: name of what was observed
    :ivar spec_value: short form of what the request spec says
    :ivar current_value: short form of what it should say
    :ivar correctable: whether ``apply`` can put it right
    """

    field: str
    drift_class: str
    spec_value: str
    current_value: str
    correctable: bool = True


def short(value, limit=200):
    """A value's short form for a log line or a table cell."""
    text = '-' if value is None else str(value)
    return text if len(text) <= limit else text[:limit - 3] + '...'


def short_pairs(pairs):
    """Both sides of some differing values, as text.

    :param pairs: dict of name to (value in the spec, value of the server)
    :returns: (short form of the spec's values, of the server's values)
    """
    return tuple(
        short(' '.join('%s=%s' % (name, short(pair[side], 60))
                       for name, pair in pairs.items()))
        for side in (0, 1))
