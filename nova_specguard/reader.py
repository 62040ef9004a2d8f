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

"""Read a versioned object and its stored primitive alike.

Names are looked up, versions are not: an object that a newer nova wrote is
compared by the names it shares with this one.
"""

import json

from nova.objects import base


def get(source, name, default=None):
    """The value of a field that may be unset, missing or of the wrong type.

    :param source: versioned object, its primitive, a plain dict, or anything
    :param name: name of the field
    :param default: given for a field that is not there
    """
    # First what an audit asks a hundred times a server.
    if isinstance(source, dict):
        data = source.get('nova_object.data', source)
        if isinstance(data, dict):
            return data.get(name, default)
    elif isinstance(source, base.NovaObject):
        if name in source.fields and source.obj_attr_is_set(name):
            return getattr(source, name)
    return default


def values(source):
    """All fields that are set.

    :param source: as for :func:`get`
    :returns: dict of name to value
    """
    if isinstance(source, base.NovaObject):
        names = source.fields
    elif isinstance(source, dict):
        names = as_dict(source.get('nova_object.data', source))
    else:
        names = ()
    unset = object()
    found = ((name, get(source, name, unset)) for name in names)
    return {name: value for name, value in found if value is not unset}


def as_list(value):
    """A list of items, whatever was stored.

    :param value: list, tuple, set, a list object or its primitive, or anything
    :returns: list
    """
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    return []


def as_dict(value):
    """A dict, whatever was stored."""
    return value if isinstance(value, dict) else {}


def short(value, limit=200):
    """A value's short form for a log line or a table cell."""
    text = '-' if value is None else str(value)
    return text if len(text) <= limit else text[:limit - 3] + '...'


def printable(text):
    """A text that stays on its line and does nothing to a terminal.

    Whatever is no letter, sign or space (line ends, control characters, marks
    of the direction of writing) is escaped as alerts escape it.

    :param text: str
    :returns: str
    """
    return ''.join(char if char.isprintable() else json.dumps(char)[1:-1]
                   for char in text)
