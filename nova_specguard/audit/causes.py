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

"""What the histories of servers say of what an audit found."""

from nova_specguard.audit import history as server_history
from nova_specguard.audit import parting


def certain(cell, found):
    """Look up what made differences, where that is certain.

    :param cell: Cell of cell_rows
    :param found: list of (Server that is read, list of its Differences)
    :returns: dict of (UUID, field) to text
    :raises DatabaseUnreadable: if cell or API database cannot be read
    """
    asked = []
    for server, differences in found:
        embedded = parting.copies(server.flavors, server.spec)
        for difference in differences:
            flavor_ids = parting.foreign_flavors(difference, embedded)
            if parting.is_on_record(difference, flavor_ids):
                asked.append((server.row.uuid, difference, flavor_ids,
                              dict(embedded.values())))
    if not asked:
        return {}
    histories = server_history.read(cell, sorted({each[0] for each in asked}))
    names = server_history.flavor_names(histories.values())
    return {
        (uuid, difference.field): parting.certain(
            difference, flavor_ids, histories[uuid], {**embedded, **names})
        for uuid, difference, flavor_ids, embedded in asked}
