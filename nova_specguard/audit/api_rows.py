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

"""Reading the API database in bulk."""

import collections

from nova.db.api import api as api_db
from nova.db.api import models
from nova import exception as nova_exception
from nova import objects
import sqlalchemy as sa

from nova_specguard.audit import reading
from nova_specguard import instances

NAME = 'API database'

_MAPPINGS = models.InstanceMapping.__table__
_SPECS = models.RequestSpec.__table__
_GROUPS = models.InstanceGroup.__table__
_MEMBERS = models.InstanceGroupMember.__table__
_METADATA = models.AggregateMetadata.__table__
_HOSTS = models.AggregateHost.__table__

_ZONE = 'availability_zone'

# As found: a boot that is not scheduled has a spec and a mapping already.
_IS_LIVE = sa.or_(_MAPPINGS.c.queued_for_delete.is_(None),
                  _MAPPINGS.c.queued_for_delete.is_(False))


class Mapped(collections.namedtuple(
        'Mapped', 'id uuid project_id spec groups')):
    """A server as the API database has it.

    :ivar id: of its instance mapping, by which is paged
    :ivar spec: text of its request spec, or None
    :ivar groups: tuple of UUIDs of its server groups
    """


def cells(context):
    """The cells in which servers are.

    :param context: RequestContext
    :returns: list of nova.objects.CellMapping; their URLs carry passwords
    :raises DatabaseUnreadable: if the API database cannot be read
    """
    return [cell for cell in reading.answer(
        NAME, objects.CellMappingList.get_all, context)
            if not cell.is_cell0()]


def mapping(context, uuid):
    """The cell of a server.

    :param context: RequestContext
    :param uuid: UUID of the server
    :returns: nova.objects.CellMapping, or None if it is in no cell (yet)
    :raises DatabaseUnreadable: if the API database cannot be read
    """
    return reading.answer(NAME, _mapping, context, uuid)


def _mapping(context, uuid):
    try:
        return instances.cell_mapping(context, uuid)
    except nova_exception.InstanceMappingNotFound:
        return None


def count(cell_ids, selection):
    """How many servers there are to look at.

    :param cell_ids: ids of cell mappings
    :param selection: Selection
    :raises DatabaseUnreadable: if the API database cannot be read
    """
    query = _selected(
        sa.select(sa.func.count()).select_from(_MAPPINGS)
        .where(_MAPPINGS.c.cell_id.in_(cell_ids)), selection)
    return execute(query)[0][0]


def known(uuids):
    """Those of some servers that have a mapping.

    :raises DatabaseUnreadable: if the API database cannot be read
    """
    rows = execute(sa.select(_MAPPINGS.c.instance_uuid)
                   .where(_MAPPINGS.c.instance_uuid.in_(uuids)))
    return {row[0] for row in rows}


def page(cell_id, selection, after, limit):
    """The next servers of a cell.

    :param cell_id: id of the cell mapping
    :param selection: Selection
    :param after: id of the last mapping of the page before, or 0
    :param limit: how many servers at most
    :returns: list of Mapped
    :raises DatabaseUnreadable: if the API database cannot be read
    """
    return _mapped(
        _selected(_query(), selection)
        .where(_MAPPINGS.c.cell_id == cell_id, _MAPPINGS.c.id > after)
        .limit(limit))


def again(cell_id, uuids):
    """Some servers of a cell once more, as they are now.

    :returns: list of Mapped
    :raises DatabaseUnreadable: if the API database cannot be read
    """
    return _mapped(
        _query().where(_MAPPINGS.c.cell_id == cell_id, _IS_LIVE,
                       _MAPPINGS.c.instance_uuid.in_(uuids)))


def specs_without_mapping(after, limit):
    """Request specs of which there is no mapping.

    :param after: the last UUID of the page before, or an empty text
    :param limit: how many at most
    :returns: list of UUIDs of servers
    :raises DatabaseUnreadable: if the API database cannot be read
    """
    # In the order of the indexes of both tables: rows are not touched.
    return [row[0] for row in execute(
        sa.select(_SPECS.c.instance_uuid)
        .select_from(_SPECS.outerjoin(
            _MAPPINGS,
            _MAPPINGS.c.instance_uuid == _SPECS.c.instance_uuid))
        .where(_SPECS.c.instance_uuid > after, _MAPPINGS.c.id.is_(None))
        .order_by(_SPECS.c.instance_uuid).limit(limit))]


def has_spec_without_mapping(uuid):
    """Whether a server has a request spec and no mapping, now.

    :raises DatabaseUnreadable: if the API database cannot be read
    """
    return bool(execute(
        sa.select(_SPECS.c.id).where(
            _SPECS.c.instance_uuid == uuid,
            ~sa.exists().where(_MAPPINGS.c.instance_uuid == uuid))))


def zones():
    """The availability zones.

    :returns: (dict of host to zone, set of the zones that aggregates have)
    :raises DatabaseUnreadable: if the API database cannot be read
    """
    rows = execute(
        sa.select(_METADATA.c.value, _HOSTS.c.host)
        .select_from(_METADATA.outerjoin(
            _HOSTS, _HOSTS.c.aggregate_id == _METADATA.c.aggregate_id))
        .where(_METADATA.c.key == _ZONE)
        # of several the first, as the guard takes it
        .order_by(_METADATA.c.value.desc()))
    return ({host: zone for zone, host in rows if host is not None},
            {zone for zone, _host in rows})


def _query():
    return sa.select(
        _MAPPINGS.c.id, _MAPPINGS.c.instance_uuid, _MAPPINGS.c.project_id,
        _SPECS.c.spec).select_from(_MAPPINGS.outerjoin(
            _SPECS, _SPECS.c.instance_uuid == _MAPPINGS.c.instance_uuid)
        ).order_by(_MAPPINGS.c.id)


def _selected(query, selection):
    query = query.where(_IS_LIVE)
    if selection.instances:
        query = query.where(
            _MAPPINGS.c.instance_uuid.in_(sorted(selection.instances)))
    if selection.projects:
        query = query.where(
            _MAPPINGS.c.project_id.in_(sorted(selection.projects)))
    return query


def _mapped(query):
    rows = execute(query)
    groups = {}
    for uuid, group in execute(
            sa.select(_MEMBERS.c.instance_uuid, _GROUPS.c.uuid)
            .select_from(_MEMBERS.join(
                _GROUPS, _GROUPS.c.id == _MEMBERS.c.group_id))
            .where(_MEMBERS.c.instance_uuid.in_([row[1] for row in rows]))
            .order_by(_MEMBERS.c.id)):
        groups[uuid] = groups.get(uuid, ()) + (group,)
    return [Mapped(*row, groups.get(row[1], ())) for row in rows]


def execute(query):
    """Read rows.

    :param query: SQLAlchemy's select
    :returns: list of rows
    :raises DatabaseUnreadable: if the API database cannot be read
    """
    return reading.answer(NAME, _execute, query)


def _execute(query):
    with api_db.get_engine().connect() as connection:
        return connection.execute(query).all()
