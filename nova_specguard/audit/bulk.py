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

"""Reading servers in bulk, as far as their fields need it."""

import dataclasses
import functools
import json

from nova import exception as nova_exception
from nova import objects

from nova_specguard.audit import api_rows
from nova_specguard.audit import classes
from nova_specguard.audit import reading
from nova_specguard.audit import server as audit_server
from nova_specguard import fields
from nova_specguard import instances


class Reader:
    """Reads servers of a cell.

    :ivar cell: Cell of cell_rows
    """

    def __init__(self, context, cell, zones, options, needs=frozenset()):
        """Begin to read servers.

        :param context: RequestContext for the API database
        :param cell: Cell of cell_rows
        :param zones: what api_rows.zones() gave
        :param options: nova_specguard.conf.Options
        :param needs: names of attributes of CurrentInstance to read in any
            case
        """
        self.cell = cell
        self._context = context
        self._zone_of_host, self._zones = zones
        self._options = options
        self._always = needs

    def servers(self, mapped):
        """Find servers in the cell.

        :param mapped: Mapped of api_rows
        :returns: (list of Server, list of Mapped that are not in the cell)
        :raises DatabaseUnreadable: if the cell cannot be read
        """
        uuids = [server.uuid for server in mapped]
        rows = self.cell.instances(uuids)
        found = [audit_server.Server(
            server, row, self.cell.name, self._zone_of_host.get(row.host))
            for server in mapped
            if (row := rows.get(server.uuid)) is not None]
        # A deleted server keeps its spec until it is archived.
        return ([server for server in found if not server.row.deleted],
                [server for server in mapped if server.uuid not in rows])

    def read(self, servers, clean=None):
        """Parse servers and read what their fields need.

        :param servers: list of Server
        :param clean: Clean; servers that are like these are left out
        :returns: list of the Servers that were read
        :raises DatabaseUnreadable: if a database cannot be read
        """
        left = [server for server in servers
                if clean is None or not clean.has(server)]
        for server in left:
            server.parse(self._zones)
        self._read(left)
        return left

    def _read(self, servers):
        pending = {server: frozenset() for server in servers
                   if server.current is not None}
        while pending:
            wanted = {}
            for server, asked in list(pending.items()):
                needed = self._needs(server) - asked
                if not needed:
                    del pending[server]
                    continue
                pending[server] = asked | needed
                for name in needed:
                    wanted.setdefault(name, []).append(server)
            for name, those in wanted.items():
                getattr(self, '_read_' + name)(those)

    def _needs(self, server):
        return self._always | fields.needs(
            server.spec, self._options, server.current)

    def _read_image_meta(self, servers):
        for server in servers:
            if server.row.image_metadata is None:
                # nova stores image_base_image_ref for every server: this one
                # was purged of it by hand. The rest can be compared.
                continue
            try:
                values = _image_values(
                    server.row.image_ref, server.row.image_metadata)
            except Exception as exc:
                # whatever nova's own parsing of the values runs into
                server.faults.append(classes.finding(
                    classes.INSTANCE, classes.INSTANCE_UNREADABLE, None,
                    'system_metadata: %s' % type(exc).__name__))
                continue
            server.current = dataclasses.replace(server.current, **values)

    def _read_is_volume_backed(self, servers):
        # As compute_utils.is_volume_backed_instance does for one server.
        found = self.cell.root_destinations([s.row.uuid for s in servers])
        for server in servers:
            if server.row.uuid in found:
                is_volume_backed = found[server.row.uuid] == 'volume'
            else:
                is_volume_backed = not server.row.image_ref
            server.current = dataclasses.replace(
                server.current, is_volume_backed=is_volume_backed)

    def _read_is_rebuilt(self, servers):
        for server in servers:
            server.current = dataclasses.replace(
                server.current,
                is_rebuilt=self.cell.is_rebuilt(server.row.uuid))

    def _read_server_group(self, servers):
        for server in servers:
            if len(server.mapped.groups) != 1:
                continue
            server.current = dataclasses.replace(
                server.current, server_group=reading.answer(
                    api_rows.NAME, self._group, *server.mapped.groups))

    def _group(self, uuid):
        try:
            return objects.InstanceGroup.get_by_uuid(self._context, uuid)
        except nova_exception.InstanceGroupNotFound:
            # deleted in between
            return None


@functools.lru_cache(maxsize=1024)
def _image_values(image_ref, text):
    """The image as nova makes it of system_metadata; do not change it."""
    return instances.image_values(objects.Instance(
        image_ref=image_ref, system_metadata=json.loads(text)))
