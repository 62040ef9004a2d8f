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

"""Servers that are like one with which nothing was wrong.

A cloud has many servers of few flavors and images. A server is parsed and
compared unless all that is stored of it, but for its own ids, is what was
stored of another server, and nothing was found then: it would be found again
that there is nothing.
"""

import functools
import operator
import re

_MAX = 2048

# What differs from server to server, or from one process of nova to the next,
# and is nothing to compare. Only what nova writes: a text that is not JSON
# stays different from one that is.
_ID = re.compile(r'(\{[^{}]*\{)"id": \d+, ')
_CHANGES = '"nova_object.changes": ['
_NAME = re.compile(r'"\w+"')
# JSON has no such character
_OWN = '\0'

_columns = operator.attrgetter(
    'vm_state', 'image_ref', 'instance_type_id', 'vcpus', 'memory_mb',
    'root_gb', 'ephemeral_gb', 'flavor', 'numa_topology', 'pci_requests',
    'image_metadata')


class Clean:
    """What servers were like with which nothing was wrong."""

    def __init__(self):
        self._seen = set()

    def has(self, server):
        """Whether nothing is wrong with an idle server.

        :param server: Server
        :returns: False also if it is not known
        """
        return _likeness(server) in self._seen

    def add(self, server):
        """Note that nothing is wrong with an idle server.

        :param server: Server that is read
        """
        current = server.current
        likeness = _likeness(server)
        if likeness is None or any(value is not None for value in (
                current.is_volume_backed, current.is_rebuilt,
                current.server_group)):
            # not all that was compared is in the likeness
            return
        if len(self._seen) >= _MAX:
            self._seen.clear()
        self._seen.add(likeness)


def _likeness(server):
    """All that decides what is wrong with an idle server.

    :returns: something hashable, or None
    """
    row, text = server.row, server.mapped.spec
    if text is None or _OWN in text:
        return None
    text = _without_changes(_without_id(text))
    for name, value in (('instance_uuid', row.uuid),
                        ('project_id', row.project_id),
                        ('user_id', row.user_id)):
        name = '"%s": ' % name
        text = text.replace('%s"%s"' % (name, value), name + _OWN)
    return (text, server.mapped.groups, server.zone,
            row.host is None, _columns(row))


def _without_id(text):
    match = _ID.match(text)
    return match[1] + text[match.end():] if match else text


def _without_changes(text):
    first, *others = text.split(_CHANGES)
    parts = [first]
    for other in others:
        names, bracket, after = other.partition(']')
        if bracket and (
                not names or all(map(_is_name, names.split(', ')))):
            parts += _CHANGES, _OWN, after
        else:
            parts += _CHANGES, other
    return ''.join(parts)


@functools.lru_cache(maxsize=1024)
def _is_name(text):
    return _NAME.fullmatch(text) is not None
