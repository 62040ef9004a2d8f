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

"""The project and the user that own the server.

:Truth: ``instances.project_id`` and ``instances.user_id``.
:Expected: the same, in every operation.
:Compared: both ids. One that the spec has never stored is no difference:
    ``RequestSpec.ensure_project_and_user_id`` fills it before nova schedules.
:Corrected: by nova-conductor; by nova-scheduler before it asks placement.
:Healed: yes.
:Read by: ``AggregateMultiTenancyIsolation``; the request filter
    ``require_tenant_aggregate``; the claim in placement, whose consumer is
    booked on this project and user.
"""

from nova_specguard.fields import base
from nova_specguard import reader

NAME = 'project'
OPERATIONS = base.ALL_OPERATIONS
PROJECT = base.DriftClass(
    'project', 'warning',
    'A reschedule below nova 18 stored the project of the administrator who '
    'had asked for the move. Nothing repairs such rows.',
    'LP#1774205, fixed in 18.0.0; old rows stay.')
USER = base.DriftClass(
    'user', 'warning', 'As ``project``, the user alone.',
    'LP#1774205, fixed in 18.0.0; old rows stay.')
CLASSES = (PROJECT, USER)

needs = base.needs_nothing


def _differing(spec, current):
    values = {name: (reader.get(spec, name), getattr(current, name))
              for name in ('project_id', 'user_id')}
    return {name: pair for name, pair in values.items()
            if None not in pair and pair[0] != pair[1]}


def difference(spec, current, options):
    pairs = _differing(spec, current)
    if not pairs:
        return None
    return base.Difference(NAME, PROJECT if 'project_id' in pairs else USER,
                           *base.short_pairs(pairs))


def apply(spec, current, options):
    for name in _differing(spec, current):
        setattr(spec, name, getattr(current, name))
