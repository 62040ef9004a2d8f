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

"""The hint that makes nova take a request for a rebuild.

nova-api puts ``_nova_check_type`` and the server's own host into the request
of a rebuild to a new image. Stored, they turn each later move into a check of
its host: no placement query, no claim, filters that do not run on rebuilds are
skipped, and afterwards the server has no allocation.

:Truth: such a hint belongs to a running rebuild and is never right at rest.
:Expected: none in every operation but ``rebuild``, where it cannot be told
    from nova-api's own.
:Compared: whether the hint is there. Other hints are what the user asked for.
:Corrected: by nova-conductor, together with the forced host. nova-scheduler
    can only refuse: nova skips request filters for what looks like a rebuild.
:Healed: yes, together with ``force_hosts`` and ``force_nodes``.
:Read by: ``scheduler.utils.request_is_rebuild``, and by it
    ``SchedulerManager.select_destinations``, ``HostManager`` and every filter
    with ``RUN_ON_REBUILD = False``.
"""

from nova_specguard.fields import base
from nova_specguard.operation import Operation
from nova_specguard import reader

NAME = 'scheduler_hints'
OPERATIONS = base.ALL_OPERATIONS - {Operation.REBUILD}
REBUILD_HINT = base.DriftClass(
    'rebuild-hint', 'critical',
    'A rebuild to a new image of a server whose spec lacks ``is_bfv``: nova '
    'adds the flag and saves the hint with it. An earlier move may have left '
    'the server without an allocation.')
CLASSES = (REBUILD_HINT,)

_CHECK_TYPE = '_nova_check_type'

needs = base.needs_nothing


def difference(spec, current, options):
    hints = reader.as_dict(reader.get(spec, NAME))
    if _CHECK_TYPE not in hints:
        return None
    forced = reader.as_list(reader.get(spec, 'force_hosts'))
    return base.Difference(
        NAME, REBUILD_HINT,
        *base.short_pairs({
            _CHECK_TYPE: (_text(reader.as_list(hints[_CHECK_TYPE])), None),
            'force_hosts': (_text(forced), None)}))


def _text(values):
    return ','.join(map(str, values)) or None


def apply(spec, current, options):
    spec.scheduler_hints = {
        name: value for name, value in spec.scheduler_hints.items()
        if name != _CHECK_TYPE}
    spec.reset_forced_destinations()
