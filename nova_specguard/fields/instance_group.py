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

"""The server group.

:Truth: ``instance_group_member`` in the API database.
:Expected: the group that the server is a member of, in every operation.
:Compared: the group's uuid. A group that was deleted is gone from the spec as
    soon as nova loads it, so that a move never sees it.
:Corrected: by nova-conductor, if the server is a member of one group. Not by
    nova-scheduler: nova-conductor has collected the hosts of the group. Never
    a reason to refuse: nova fails by it, or goes by the membership itself.
    A group that the server is no member of is left alone: its policy only
    keeps hosts away.
:Healed: ``server-group-missing`` only, together with the hint ``group``.
:Read by: ``conductor``'s ``scheduler.utils.setup_instance_group``;
    ``ServerGroupAffinityFilter``, ``ServerGroupAntiAffinityFilter``,
    ``ServerGroupSoftAffinityWeigher``,
    ``ServerGroupSoftAntiAffinityWeigher``.
"""

from nova_specguard.fields import base
from nova_specguard import reader

NAME = 'instance_group'
OPERATIONS = base.ALL_OPERATIONS
MISSING = base.DriftClass(
    'server-group-missing', 'warning',
    'A membership that was added in the database. nova raises '
    'AttributeError on each move; a live migration leaves the server in '
    'ERROR.')
GONE = base.DriftClass(
    'server-group-gone', 'warning',
    'A membership that was removed in the database, or, in the row only, a '
    'group that was deleted.',
    'Deleted groups: LP#1890244, fixed in 22.0.0.')
CLASSES = (MISSING, GONE)


def _group(spec):
    return reader.get(reader.get(spec, NAME), 'uuid')


def _is_missing(spec, current):
    groups = current.surroundings.groups
    return bool(groups) and _group(spec) not in groups


def needs(spec, current):
    if current.surroundings is None:
        return frozenset({'surroundings'})
    if _is_missing(spec, current) and current.server_group is None:
        return frozenset({'server_group'})
    return frozenset()


def difference(spec, current, options):
    if current.surroundings is None:
        return None
    group = _group(spec)
    if _is_missing(spec, current):
        return base.Difference(
            NAME, MISSING, reader.short(group),
            reader.short(','.join(current.surroundings.groups)),
            is_correctable=current.server_group is not None,
            # nova fails by it, or goes by the membership itself
            is_refusable=False,
            is_unseen=group is None)
    if group is not None and not current.surroundings.groups:
        return base.Difference(
            NAME, GONE, reader.short(group), reader.short(None),
            is_correctable=False, is_refusable=False)
    return None


def apply(spec, current, options):
    spec.instance_group = current.server_group
    spec.scheduler_hints = dict(
        reader.as_dict(reader.get(spec, 'scheduler_hints')),
        group=[current.server_group.uuid])
