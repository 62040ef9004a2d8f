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

"""What the API database knows of a server's surroundings, in one SELECT.

nova's own objects take one SELECT for the member, one for the group, one for
the zone of a host and one for the zone's aggregates; a guard of every move
cannot afford that.
"""

import dataclasses
import typing

from nova.db.api import api as api_db
from nova.db.api import models
import sqlalchemy as sa

_ZONE = 'availability_zone'


@dataclasses.dataclass(frozen=True)
class Surroundings:
    """Where a server belongs.

    :ivar groups: tuple of UUIDs of the server groups it is a member of; nova
        allows one
    :ivar zone: availability zone of its host; None if no aggregate of the
        host has one
    :ivar is_pin_known: whether an aggregate has the zone that was asked for
    """

    groups: tuple
    zone: typing.Optional[str]
    is_pin_known: bool


@api_db.context_manager.reader
def read(context, instance_uuid, host, availability_zone):
    """Read a server's surroundings.

    :param context: RequestContext
    :param instance_uuid: UUID of a server that has a mapping
    :param host: name of its compute service, or None
    :param availability_zone: a zone whose existence is in question, or None
    :returns: Surroundings
    """
    group = models.InstanceGroup
    member = models.InstanceGroupMember
    metadata = models.AggregateMetadata
    in_aggregate = models.AggregateHost
    mapping = models.InstanceMapping
    zone_of_host = (
        sa.select(sa.func.min(metadata.value))
        .join(in_aggregate,
              in_aggregate.aggregate_id == metadata.aggregate_id)
        .where(metadata.key == _ZONE, in_aggregate.host == host)
        .scalar_subquery())
    aggregates_of_pin = (
        sa.select(sa.func.count(metadata.id))
        .where(metadata.key == _ZONE, metadata.value == availability_zone)
        .scalar_subquery())
    # From the mapping, which exists, so that there is a row in any case.
    rows = context.session.execute(
        sa.select(group.uuid, zone_of_host, aggregates_of_pin)
        .select_from(mapping)
        .outerjoin(member, member.instance_uuid == mapping.instance_uuid)
        .outerjoin(group, group.id == member.group_id)
        .where(mapping.instance_uuid == instance_uuid)
        .order_by(member.id)).all()
    if not rows:
        return Surroundings((), None, False)
    return Surroundings(
        groups=tuple(row[0] for row in rows if row[0]),
        zone=rows[0][1], is_pin_known=bool(rows[0][2]))
