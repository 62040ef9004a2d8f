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
"""After which event the copies parted.

nova keeps no record of it. What is known is when the request spec was last
saved, which migrations and actions failed, and which of nova's failures leave
which drift.
"""

from nova.compute import instance_actions

from nova_specguard.audit import classes
from nova_specguard.audit import history as server_history
from nova_specguard import fields

_FROM_FLAVOR = frozenset(field.NAME for field in (
    fields.flavor, fields.flavor_extra_specs, fields.numa_topology,
    fields.pci_requests)) | {classes.STASHED, classes.COLUMNS}
_REBUILDS = (instance_actions.REBUILD,)
# By which action each of the others comes about.
_ACTIONS = {
    fields.image.NAME: _REBUILDS + (instance_actions.UNSHELVE,),
    fields.scheduler_hints.NAME: _REBUILDS + (instance_actions.EVACUATE,),
    fields.availability_zone.NAME: (
        instance_actions.EVACUATE, instance_actions.LIVE_MIGRATION,
        instance_actions.MIGRATE, instance_actions.RESIZE,
        instance_actions.UNSHELVE),
}
# What a migration says when it ended as it should.
_DONE = ('confirmed', 'completed', 'done')
_VERBS = {'error': 'failed', 'failed': 'failed', 'confirmed': 'was confirmed',
          'reverted': 'was reverted', 'Error': 'failed',
          'Success': 'ended', 'unfinished': 'began and did not end'}
# Seconds that are worth to be counted.
_NEAR = 120


def event(difference, flavor_ids, history, flavor_names):
    """The event after which a copy parted from the others, most probably.

    :param difference: Difference that an audit found
    :param flavor_ids: ids of the flavors that the server does not have, but
        its request spec, or what is left beside its flavor
    :param history: History
    :param flavor_names: dict of id to name
    :returns: (datetime or None, text)
    """
    if difference.field in _FROM_FLAVOR:
        migration = _resize(
            flavor_ids, history,
            None if difference.field in (classes.STASHED, classes.COLUMNS)
            else history.spec_saved_at)
        if migration:
            return migration.time, _sentence(
                server_history.named(migration, flavor_names),
                migration.status, migration.time, history)
    action = _action(_ACTIONS.get(difference.field, ()), history)
    if action:
        return action.time, _sentence(
            '%s %s' % (action.action, action.request_id), action.result,
            action.time, history)
    return history.spec_saved_at, 'nothing on record fits; usual cause: %s' % (
        difference.drift_class.cause)


def _resize(flavor_ids, history, before):
    """The last resize to or from such a flavor, or else that failed.

    :param before: datetime after which it cannot have begun, or None
    """
    resizes = [migration for migration in history.migrations
               if migration.migration_type == 'resize' and (
                   None in (before, migration.created_at) or
                   migration.created_at <= before)]
    fitting = [migration for migration in resizes if flavor_ids & {
        migration.old_instance_type_id, migration.new_instance_type_id}]
    failed = [migration for migration in resizes
              if migration.status not in _DONE]
    found = fitting or failed
    return found[-1] if found else None


def _action(names, history):
    """The last of these actions that failed, or else the last of them."""
    found = [action for action in history.actions if action.action in names]
    failed = [action for action in found if action.result != 'Success']
    found = failed or found
    return found[-1] if found else None


def _sentence(name, result, time, history):
    return '%s %s%s; %s' % (
        name, _VERBS.get(result, 'stands at %s' % result),
        ' on %s' % server_history.shown(time) if time else '',
        _saved(time, history.spec_saved_at))


def _saved(time, saved_at):
    if saved_at is None or time is None:
        return 'when the request spec was saved is not known'
    seconds = int((saved_at - time).total_seconds())
    if not seconds:
        return 'the request spec was saved in the same second'
    if abs(seconds) > _NEAR:
        return 'the request spec was last saved on %s' % (
            server_history.shown(saved_at))
    return 'the request spec was last saved %d s %s' % (
        abs(seconds), 'later' if seconds > 0 else 'before')
