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

"""Correct the request spec when a move enters nova-conductor.

Nothing is raised here: an exception at the door of a conductor method skips
nova's clean-up and leaves the server in its task state for ever. The one
refusal the conductor makes itself comes from inside the scheduling call,
after which nova cleans up as after any other NoValidHost.
"""

import dataclasses

from nova.compute import vm_states
from nova import exception as nova_exception
from nova import objects

from nova_specguard import alerts
from nova_specguard import fields
from nova_specguard import guard
from nova_specguard import hooks
from nova_specguard.operation import Operation
from nova_specguard import protection
from nova_specguard import reader

SERVICE = 'nova-conductor'

# On the request spec object that nova-conductor will hand to the scheduler.
_REFUSED = '_specguard_refused'


@dataclasses.dataclass(frozen=True)
class Move:
    """A move that enters the conductor.

    :ivar is_scheduled: False if the host is chosen already. Then nothing is
        corrected: nova no longer asks the request spec where the server may
        run, and a reschedule finds its allocation by the request ids that
        are in it.
    """

    operation: Operation
    is_scheduled: bool = True


def _before(move_of):
    """Make a wrapper that guards a call before it lets it through.

    :param move_of: function that is given the call's arguments by name and
        says which Move this is, or None if there is nothing to guard
    """
    def wrapper(wrapped, manager, args, kwargs):
        protection.run(SERVICE, protection.Request(), _guard,
                       move_of, wrapped, args, kwargs)
        return wrapped(*args, **kwargs)
    wrapper.__name__, wrapper.__doc__ = move_of.__name__, move_of.__doc__
    return wrapper


@_before
def live_migrate(call):
    """Around ``_live_migrate``, in which both RPC methods end.

    A forced one (below microversion 2.68) has its host: the scheduler is not
    asked and the request spec not used.
    """
    is_scheduled = not (call['scheduler_hint'] or {}).get('host')
    return Move(Operation.LIVE_MIGRATION, is_scheduled)


@_before
def cold_migrate(call):
    """Around ``_cold_migrate``, which reschedules enter with their hosts."""
    instance = call['instance']
    # As MigrationTask._preallocate_migration does, but without a read.
    current_id = (instance.flavor.id if 'flavor' in instance
                  else instance.instance_type_id)
    operation = (Operation.MIGRATE if call['flavor'].id == current_id
                 else Operation.RESIZE)
    return Move(operation, call.get('host_list') is None)


@_before
def rebuild_instance(call):
    """Around ``rebuild_instance``: evacuations, and rebuilds to a new image.

    A rebuild that names its host stays there and is not scheduled.
    """
    is_scheduled = not call.get('host')
    if call['recreate']:
        return Move(Operation.EVACUATE, is_scheduled)
    return Move(Operation.REBUILD) if is_scheduled else None


@_before
def unshelve_instance(call):
    """Around ``unshelve_instance``; a server that kept its host just starts.
    """
    if call['instance'].vm_state != vm_states.SHELVED_OFFLOADED:
        return None
    return Move(Operation.UNSHELVE)


def select_destinations(wrapped, client, args, kwargs):
    """Around the scheduler client, where a refusal is cleaned up after."""
    spec = kwargs.get('spec_obj', args[1] if len(args) > 1 else None)
    reason = getattr(spec, _REFUSED, None)
    if reason:
        raise nova_exception.NoValidHost(reason=reason)
    return wrapped(*args, **kwargs)


_TASK_MANAGER = ('nova.conductor.manager', 'ComputeTaskManager')
HOOKS = (
    (*_TASK_MANAGER, '_live_migrate',
     ('context', 'instance', 'scheduler_hint', 'request_spec'), live_migrate),
    (*_TASK_MANAGER, '_cold_migrate',
     ('context', 'instance', 'flavor', 'request_spec', 'host_list'),
     cold_migrate),
    (*_TASK_MANAGER, 'rebuild_instance',
     ('context', 'instance', 'recreate', 'host', 'request_spec'),
     rebuild_instance),
    (*_TASK_MANAGER, 'unshelve_instance',
     ('context', 'instance', 'request_spec'), unshelve_instance),
    ('nova.scheduler.client.query', 'SchedulerQueryClient',
     'select_destinations', ('context', 'spec_obj'), select_destinations),
)


def _guard(request, options, reporter, move_of, wrapped, args, kwargs):
    call = hooks.arguments(wrapped, args, kwargs)
    request.context = call['context']
    request.spec = call.get('request_spec')
    move = move_of(call)
    if move and _is_whole(request.spec, move):
        request.operation = move.operation
        _correct(request.context, call['instance'], request.spec, move,
                 options, reporter)


def _is_whole(spec, move):
    """Whether this is a request spec as it was loaded.

    Computes older than Stein, and those whose RPC is pinned below 5.1,
    reschedule with a dict or with what nova makes of it, which has lost the
    id, is_bfv and more.
    """
    return isinstance(spec, objects.RequestSpec) and (
        move.is_scheduled or 'id' in spec)


def _correct(context, instance, spec, move, options, reporter):
    finding = guard.examine(
        context, spec, lambda current: {move.operation}, options)
    if finding is None:
        return
    if not finding.unverifiable and _is_behind(finding.current, instance):
        finding = guard.Finding(
            move.operation, finding.current, cell=finding.cell,
            candidates=frozenset({move.operation}),
            unverifiable='request and cell database disagree about the '
                         'flavor or the image of the server')
    enforcement = guard.enforce(
        finding, options, may_correct=lambda difference: move.is_scheduled)
    if enforcement.unverifiable:
        _unverifiable(context, spec, move, finding, enforcement, reporter)
    if enforcement.correct:
        fields.apply([d.field for d in enforcement.correct], spec,
                     finding.current, options)
        reporter.drift(alerts.CORRECTED, 'corrected', context, finding,
                       enforcement.correct)
    # nova-scheduler alerts what it gets to see.
    unseen = [d for d in enforcement.refuse + enforcement.allow
              if d.is_unseen or not move.is_scheduled]
    if unseen:
        reporter.drift(alerts.ALLOWED, 'allowed', context, finding, unseen)


def _is_behind(current, instance):
    """Whether the row read is older than the one that nova-api read.

    Both were read within the same request, so a database node that lags
    behind is the likely reason, and correcting by it would do harm.
    """
    system_metadata = reader.as_dict(reader.get(instance, 'system_metadata'))
    return any(None not in pair and pair[0] != pair[1] for pair in (
        (reader.get(reader.get(instance, 'flavor'), 'id'),
         reader.get(current.flavor, 'id')),
        (reader.get(instance, 'image_ref'), current.image_ref),
        (system_metadata.get('image_base_image_ref'),
         current.base_image_ref)))


def _unverifiable(context, spec, move, finding, enforcement, reporter):
    if not move.is_scheduled:
        reporter.unverifiable('allowed', context, spec, finding,
                              move.operation)
    elif (enforcement.unverifiable == 'refused' and
            finding.current is None):
        # The scheduler would have to guess which operation it is.
        setattr(spec, _REFUSED, 'SpecGuardFilter could not verify server %s: '
                '%s' % (spec.instance_uuid, finding.unverifiable))
        reporter.unverifiable('refused', context, spec, finding,
                              move.operation)
