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
from nova_specguard import reader

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
# In which of these nova saves the field before it has ended, and does not put
# it back.
_SAVING = {
    fields.image.NAME: _REBUILDS,
    fields.availability_zone.NAME: (instance_actions.UNSHELVE,),
}
# What a migration says when it ended as it should.
_DONE = ('confirmed', 'completed', 'done')
_VERBS = {'error': 'failed', 'failed': 'failed', 'confirmed': 'was confirmed',
          'reverted': 'was reverted', 'Error': 'failed',
          'Success': 'ended', 'unfinished': 'began and did not end'}
# Seconds that are worth to be counted.
_NEAR = 120


def copies(flavors, spec):
    """The flavors of a server and of its request spec.

    :param flavors: dict of ``cur``, ``old`` and ``new`` to what is stored
    :param spec: primitive of the request spec, or anything
    :returns: dict of these and ``spec`` to (id, name), of what has an id
    """
    found = {which: (reader.get(flavor, 'id'), reader.get(flavor, 'name'))
             for which, flavor in {
                 **flavors, 'spec': reader.get(spec, 'flavor')}.items()}
    return {which: pair for which, pair in found.items()
            if isinstance(pair[0], int)}


def foreign_flavors(difference, embedded):
    """The flavors that the server does not have, but another copy.

    :param difference: Difference that an audit found
    :param embedded: what :func:`copies` gave
    :returns: set of ids
    """
    other = ('new', 'old') if difference.field == classes.STASHED else (
        'spec',)
    return {embedded[name][0] for name in other
            if name in embedded} - {embedded.get('cur', (None,))[0]}


def is_on_record(difference, flavor_ids):
    """Whether the history of a server can be certain about a difference.

    :param flavor_ids: what :func:`foreign_flavors` gave
    """
    return (difference.field in _SAVING or
            difference.field in _FROM_FLAVOR and bool(flavor_ids))


def certain(difference, flavor_ids, history, flavor_names):
    """The event that made a difference, if that is certain.

    A resize, to the flavor that the server does not have, which did not end
    as it should; or an action that did not, and around which nova saved the
    request spec for the last time.

    :param difference: Difference that an audit found
    :param flavor_ids: what :func:`foreign_flavors` gave
    :param history: History
    :param flavor_names: dict of id to name
    :returns: text, or None
    """
    if difference.field in _FROM_FLAVOR:
        migration = _resize(flavor_ids, history, _before(difference, history))
        if (migration and migration.status not in _DONE and
                migration.new_instance_type_id in flavor_ids):
            return _of_migration(migration, history, flavor_names)
        return None
    action = _action(_SAVING.get(difference.field, ()), history)
    if action and action.result != 'Success' and None not in (
            action.time, history.spec_saved_at):
        seconds = (history.spec_saved_at - action.time).total_seconds()
        if 0 <= seconds <= _NEAR:
            return _of_action(action, history)
    return None


def event(difference, flavor_ids, history, flavor_names):
    """The event after which a copy parted from the others, most probably.

    :param difference: Difference that an audit found
    :param flavor_ids: what :func:`foreign_flavors` gave
    :param history: History
    :param flavor_names: dict of id to name
    :returns: (datetime or None, text)
    """
    if difference.field in _FROM_FLAVOR:
        migration = _resize(flavor_ids, history, _before(difference, history))
        if migration:
            return migration.time, _of_migration(
                migration, history, flavor_names)
    action = _action(_ACTIONS.get(difference.field, ()), history)
    if action:
        return action.time, _of_action(action, history)
    return history.spec_saved_at, 'nothing on record fits; usual cause: %s' % (
        difference.drift_class.cause)


def _before(difference, history):
    """After which time a resize cannot have begun to be the one, or None."""
    if difference.field in (classes.STASHED, classes.COLUMNS):
        return None
    return history.spec_saved_at


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


def _of_migration(migration, history, flavor_names):
    return _sentence(server_history.named(migration, flavor_names),
                     migration.status, migration.time, history)


def _of_action(action, history):
    return _sentence('%s %s' % (action.action, action.request_id),
                     action.result, action.time, history)


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
