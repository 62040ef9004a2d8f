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

"""Which servers and which fields."""

import dataclasses
import typing

from nova_specguard.audit import classes
from nova_specguard import fields

FIELDS = tuple(field.NAME for field in fields.FIELDS) + classes.NAMES


@dataclasses.dataclass(frozen=True)
class Selection:
    """What an operator asked for; empty means all.

    :ivar cells: names or uuids of cells
    :ivar instances: UUIDs of servers
    :ivar projects: ids of projects
    :ivar hosts: names of compute services
    :ivar fields: some of FIELDS
    :ivar max_count: how many servers to look at, or None
    """

    cells: frozenset = frozenset()
    instances: frozenset = frozenset()
    projects: frozenset = frozenset()
    hosts: frozenset = frozenset()
    fields: frozenset = frozenset()
    max_count: typing.Optional[int] = None

    @property
    def is_whole_cloud(self):
        return not (self.cells or self.instances or self.projects or
                    self.hosts or self.max_count)

    def has_cell(self, cell):
        """Whether a nova.objects.CellMapping is one of the cells."""
        return not self.cells or not self.cells.isdisjoint(
            (cell.name, cell.uuid))

    def has_host(self, host):
        return not self.hosts or host in self.hosts

    def has_field(self, name):
        return not self.fields or name in self.fields
