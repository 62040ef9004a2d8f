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

"""Verdict, enforcement, outcome.

:func:`examine` says whether a request spec agrees with its server,
:func:`enforce` what the operator's options make of that. Both services go
through here, and only what they do about it differs.
"""

import dataclasses
import functools
import typing

from nova_specguard import conf
from nova_specguard import exception
from nova_specguard import fields
from nova_specguard import instances
from nova_specguard.operation import Operation
from nova_specguard import reader

# nova keeps the state of a server whose move of this kind found no host.
# Refusing an evacuation leaves ERROR, refusing a rebuild makes drift as well.
_REFUSABLE = frozenset((Operation.LIVE_MIGRATION, Operation.MIGRATE,
                        Operation.RESIZE, Operation.UNSHELVE))


@dataclasses.dataclass(frozen=True)
class Finding:
    """What is known about one request.

    :ivar operation: Operation; UNKNOWN also while the server is unreadable
    :ivar current: CurrentInstance; None if the server could not be read
    :ivar differences: tuple of Difference; empty and no ``unverifiable``
        means consistent
    :ivar unverifiable: the reason why nothing could be compared, or None
    :ivar candidates: the operations it can be, where ``unverifiable``
    :ivar cell: name of the server's cell, as far as it is known
    """

    operation: Operation
    current: typing.Optional[instances.CurrentInstance] = None
    differences: tuple = ()
    unverifiable: typing.Optional[str] = None
    candidates: frozenset = frozenset()
    cell: typing.Optional[str] = None


@dataclasses.dataclass(frozen=True)
class Enforcement:
    """What to do about a finding.

    :ivar correct: tuple of Difference to be corrected in memory
    :ivar refuse: tuple of Difference for which the move is to be refused
    :ivar allow: tuple of Difference to be alerted only
    :ivar unverifiable: ``refused`` or ``allowed`` for what could not be
        verified, else None
    """

    correct: tuple = ()
    refuse: tuple = ()
    allow: tuple = ()
    unverifiable: typing.Optional[str] = None


def examine(context, spec, operation_of, options):
    """Compare a request spec with the server as it is now.

    :param context: RequestContext of the request
    :param spec: nova.objects.RequestSpec
    :param operation_of: callable that is given the CurrentInstance, or None
        if the server could not be read, and tells the Operation, or the
        operations that it can be
    :param options: nova_specguard.conf.Options
    :returns: Finding, or None if there is no server to compare with, which
        nova says itself
    """
    try:
        current = instances.read(
            context, spec.instance_uuid, options.lookup_timeout,
            functools.partial(fields.needs, spec, options),
            reader.get(spec, fields.availability_zone.NAME))
    except exception.InstanceGone:
        return None
    except exception.Unverifiable as exc:
        return Finding(Operation.UNKNOWN, unverifiable=exc.format_message(),
                       candidates=frozenset(operation_of(None)),
                       cell=exc.kwargs.get('cell'))
    operation, = operation_of(current)
    try:
        differences = fields.differences(spec, current, operation, options)
    except exception.Unverifiable as exc:
        return Finding(operation, current, unverifiable=exc.format_message(),
                       candidates=frozenset({operation}), cell=current.cell)
    return Finding(operation, current, differences, cell=current.cell)


def enforce(finding, options, may_correct, may_refuse=True):
    """Decide what to do.

    The one place where verdict, operation, modes and options meet.

    :param finding: Finding
    :param options: nova_specguard.conf.Options
    :param may_correct: callable that is given a Difference and tells whether
        the service may correct it in memory
    :param may_refuse: False if the row read may be older than the request
    :returns: Enforcement; what is in mode ``off`` is in none of it
    """
    if finding.unverifiable:
        return Enforcement(unverifiable=_unverifiable(finding, options))
    modes = _modes(finding, options)
    warned = tuple(d for d, mode in modes.items() if mode == 'warn')
    enforced = tuple(d for d, mode in modes.items() if mode == 'enforce')
    correct = ()
    # What cannot be told apart from a server that is just being changed, by a
    # database node that lags behind or by an operator, is left as it is.
    if options.correct and finding.operation != Operation.UNKNOWN:
        # Half a correction asks for a host that neither flavor has, and an
        # evacuation that finds none leaves ERROR.
        correct = fields.unmixed(
            [d for d in enforced if d.is_correctable and may_correct(d)],
            finding.differences)
    left = tuple(d for d in enforced if d not in correct)
    refuse = ()
    if may_refuse and _is_refusable(finding.operation, options):
        refuse = tuple(d for d in left if d.is_refusable)
    allow = tuple(d for d in left if d not in refuse) + warned
    return Enforcement(correct, refuse, allow)


def _unverifiable(finding, options):
    """Refused only if each of the operations that it can be would be."""
    modes = [_mode(options, operation) for operation in finding.candidates]
    if set(modes) == {'off'}:
        return None
    is_refused = (
        options.on_unverifiable == 'refuse' and set(modes) == {'enforce'} and
        all(_is_refusable(operation, options)
            for operation in finding.candidates))
    return 'refused' if is_refused else 'allowed'


def _is_refusable(operation, options):
    """Whether the guard may let an operation find no host."""
    return operation in _REFUSABLE or (
        operation == Operation.EVACUATE and
        options.operation_modes.get(operation.value) == 'enforce')


def _modes(finding, options):
    """The mode of each difference.

    To enforce what is derived from flavor and image, beside another flavor
    that stays, would make a mixture that nobody asked for.
    """
    modes = {difference: _mode(options, finding.operation, difference.field)
             for difference in finding.differences}
    is_mixture = any(mode != 'enforce' for difference, mode in modes.items()
                     if difference.shapes_others)
    for difference, mode in modes.items():
        if is_mixture and difference.is_derived:
            modes[difference] = _more_lenient(mode, 'warn')
    return modes


def _mode(options, operation, field=None):
    """The mode that holds; of two that are set the more lenient."""
    if options.mode == 'off':
        return 'off'
    chosen = [mode for mode in (
        options.operation_modes.get(operation.value),
        options.field_modes.get(field)) if mode]
    return _more_lenient(*chosen) if chosen else options.mode


def _more_lenient(*modes):
    return max(modes, key=conf.MODES.index)
