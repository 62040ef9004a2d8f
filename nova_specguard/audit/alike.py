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

A cloud has many servers of few flavors and images. A server is compared by the
fields unless all that they would be given is what they were given of another
server, and nothing was found then: they would find nothing again.
"""

import marshal
import operator

from nova_specguard import fields
from nova_specguard import reader

_DATA = 'nova_object.data'
# How many are kept.
_MAX = 2048

_OWNER = ('project_id', 'user_id')
_columns = operator.attrgetter(
    'vm_state', 'image_ref', 'instance_type_id', 'vcpus', 'memory_mb',
    'root_gb', 'ephemeral_gb', 'flavor', 'numa_topology', 'pci_requests')


def compared(spec):
    """What of a request spec there is to compare; the fields get no more.

    Left out is what differs from server to server, or from one process of
    nova to the next.

    :param spec: primitive of a RequestSpec
    :returns: dict that the fields read as they would the primitive
    """
    data = spec[_DATA]
    image = data.get('image')
    if isinstance(image, dict):
        image = {'id': reader.get(image, 'id'),
                 'properties': _without_changes(
                     reader.get(image, 'properties'))}
    requests = data.get('pci_requests')
    if isinstance(requests, dict):
        requests = {'requests': reader.get(requests, 'requests')}
    group = data.get('instance_group')
    if isinstance(group, dict):
        group = {'uuid': reader.get(group, 'uuid')}
    return {'flavor': data.get('flavor'),
            'numa_topology': data.get('numa_topology'),
            'pci_requests': requests,
            'image': image,
            'project_id': data.get('project_id'),
            'user_id': data.get('user_id'),
            'scheduler_hints': data.get('scheduler_hints'),
            'force_hosts': data.get('force_hosts'),
            'instance_group': group,
            'availability_zone': data.get('availability_zone'),
            'is_bfv': data.get('is_bfv')}


def _without_changes(primitive):
    if isinstance(primitive, dict) and _DATA in primitive:
        return {_DATA: primitive[_DATA]}
    return primitive


class Clean:
    """What servers were like with which nothing was wrong."""

    def __init__(self, options):
        """Begin with none.

        :param options: nova_specguard.conf.Options
        """
        self._options = options
        self._seen = set()

    def has(self, server):
        """Whether nothing is wrong with an idle server.

        :param server: Server that is parsed
        :returns: False also if it is not known
        """
        likeness = self._likeness(server)
        return likeness is not None and likeness in self._seen

    def add(self, server):
        """Note that nothing is wrong with an idle server.

        :param server: Server that is read
        """
        current = server.current
        likeness = self._likeness(server)
        if likeness is None or any(value is not None for value in (
                current.is_volume_backed, current.is_rebuilt,
                current.server_group)):
            # not all that was compared is in the likeness
            return
        if len(self._seen) >= _MAX:
            self._seen.clear()
        self._seen.add(likeness)

    def _likeness(self, server):
        """All that decides what is wrong with an idle server.

        :returns: something hashable, or None
        """
        row = server.row
        if (server.compared is None or server.faults or
                fields.project.difference(
                    server.compared, row, self._options) is not None):
            return None
        try:
            # To ==, and to a set, 1 and 1.0 and True are the same.
            spec = marshal.dumps([value for name, value
                                  in server.compared.items()
                                  if name not in _OWNER], 2)
        except ValueError:
            # nested too deeply
            return None
        return (spec, server.image_metadata, server.surroundings,
                row.host is None, _columns(row))
