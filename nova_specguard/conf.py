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

"""The ``[specguard]`` options, read in one place.

Other modules never read ``CONF.specguard``: they are handed the snapshot that
:func:`options` makes, once per request, so that a SIGHUP in the middle of a
request cannot make two halves of it disagree.
"""

import dataclasses

import nova.conf
from oslo_config import cfg
from oslo_config import types

GROUP = 'specguard'
MODES = ('enforce', 'warn', 'off')
OPERATIONS = ('live-migration', 'migrate', 'resize', 'evacuate', 'unshelve',
              'rebuild')
FIELDS = ('flavor', 'flavor_extra_specs', 'numa_topology', 'pci_requests',
          'image', 'project', 'scheduler_hints', 'instance_group',
          'availability_zone', 'is_bfv', 'disk')


@dataclasses.dataclass(frozen=True)
class InvalidValue:
    """What reading an option gives when its configured value is wrong.

    oslo.config would raise at every read, and oslo.service's eventlet backend
    reads all options (``log_opt_values``) when a service starts: a typing
    error in a guard's options must not stop it.
    """

    value: str
    reason: str

    def __str__(self):
        return '%s (invalid: %s)' % (self.value, self.reason)


class _Tolerant(types.ConfigType):
    """A type that gives :class:`InvalidValue` where another one raises."""

    def __init__(self, strict):
        super().__init__(type_name=strict.type_name)
        self.strict = strict

    def __getattr__(self, name):
        # choices, min and max, for oslo-config-generator
        if name == 'strict':
            raise AttributeError(name)
        return getattr(self.strict, name)

    def __call__(self, value):
        try:
            converted = self.strict(value)
        except (TypeError, ValueError) as exc:
            return InvalidValue(str(value), str(exc))
        if converted is None:
            return InvalidValue(str(value), 'it is empty')
        return converted

    def __eq__(self, other):
        return (self.__class__ == other.__class__ and
                self.strict == other.strict)

    __hash__ = types.ConfigType.__hash__

    def __repr__(self):
        return repr(self.strict)

    def _formatter(self, value):
        return self.strict._formatter(value)


class _ModeByName(types.Dict):
    """Comma-separated ``name:mode`` pairs with known names only."""

    def __init__(self, names):
        super().__init__(types.String(choices=MODES))
        self.names = names

    def __call__(self, value):
        modes = super().__call__(value)
        for name, mode in modes.items():
            if name not in self.names:
                raise ValueError('unknown name %r: known are %s'
                                 % (name, ', '.join(self.names)))
            self.value_type(mode)
        return modes


def _opt(name, strict, **kwargs):
    return cfg.Opt(name, type=_Tolerant(strict), **kwargs)


OPTS = [
    _opt('mode', types.String(choices=[
        ('enforce', 'correct the request in memory, or refuse the move where '
                    'it cannot be corrected'),
        ('warn', 'alert and change nothing'),
        ('off', 'do nothing and read nothing, whatever the other options '
                'say')]),
         default='enforce', mutable=True, help="""
What to do about a move whose request spec disagrees with the server.

Related options: ``operation_modes`` and ``field_modes`` override it.
"""),
    _opt('operation_modes', _ModeByName(OPERATIONS), default={}, mutable=True,
         help="""
Modes of single move operations, as ``operation:mode`` pairs.

Operations are spelled as in instance actions: ``live-migration``,
``migrate``, ``resize``, ``evacuate``, ``unshelve`` and ``rebuild``. An
evacuation is refused only where ``evacuate:enforce`` is written here,
because nova leaves a server whose evacuation was refused in ERROR. A
rebuild is never refused. Where a mode of the field is set as well, the
more lenient holds.
"""),
    _opt('field_modes', _ModeByName(FIELDS),
         default={'flavor_extra_specs': 'warn', 'availability_zone': 'warn'},
         mutable=True,
         help="""
Modes of single guarded fields, as ``field:mode`` pairs.

``flavor_extra_specs`` is drift of the extra specs alone, while id, name
and sizes of the flavor agree; operators make such drift on purpose.
Writing this option replaces the whole default.
"""),
    _opt('correct', types.Boolean(), default=True, mutable=True,
         help="""
Correct the request in memory where that is safe.

The guard itself saves no request spec; nova saves that of a cold
migration or resize, as corrected. If false, a move that would have been
corrected is refused, or let through with an alert if it is one that the
guard does not refuse.
"""),
    _opt('ignored_extra_specs', types.List(types.String()), default=[],
         mutable=True,
         help="""
Glob patterns of extra specs that are left out of every comparison.

For example ``quota:*,my_company:*``. Use it for keys that play no part in
scheduling.
"""),
    _opt('on_unverifiable', types.String(choices=[
        ('refuse', 'let it find no host'),
        ('allow', 'let it go by what the request spec says')]),
         default='refuse', mutable=True, help="""
What to do about a move whose server could not be read.

It holds for live migration, cold migration, resize and unshelve in mode
``enforce``, and for evacuation only where ``evacuate:enforce`` is written.
Other requests are let through. Either way an alert is logged.
"""),
    _opt('lookup_timeout', types.Integer(min=1, max=3600), default=10,
         mutable=True,
         help="""
Seconds to wait for the server's mapping and cell records.

Keep it well below ``rpc_response_timeout``.
"""),
    _opt('require_all_hooks', types.Boolean(), default=False,
         help="""
Stop the service at start if the guard does not fit this nova.

If false, the service runs with the parts of the guard that fit, and
SPECGUARD-203 is logged.
"""),
    _opt('summary_interval', types.Integer(min=1), default=600, mutable=True,
         help="""
Shortest time in seconds between two summaries (SPECGUARD-001) of a
service.
"""),
]


@dataclasses.dataclass(frozen=True)
class Options:
    """One consistent reading of the ``[specguard]`` options.

    :ivar problems: one text per option whose configured value is invalid and
        for which the last good value is used.
    """

    mode: str
    operation_modes: dict
    field_modes: dict
    correct: bool
    ignored_extra_specs: list
    on_unverifiable: str
    lookup_timeout: int
    require_all_hooks: bool
    summary_interval: int
    problems: tuple = ()


_last_good = {opt.dest: opt.default for opt in OPTS}


def options():
    """Read all options.

    An invalid value is replaced by the last good one, which at the start of a
    service is the default, and named in ``problems``.

    :returns: :class:`Options`
    """
    values = {}
    problems = []
    for opt in OPTS:
        try:
            value = nova.conf.CONF[GROUP][opt.dest]
        except (cfg.Error, RecursionError) as exc:
            # a substitution ($name) of what does not exist, or of itself
            value = InvalidValue('?', str(exc))
        if isinstance(value, InvalidValue):
            problems.append('[%s] %s = %s; %s is used' % (
                GROUP, opt.dest, value, _last_good[opt.dest]))
            value = _last_good[opt.dest]
        else:
            _last_good[opt.dest] = value
        values[opt.dest] = value
    return Options(problems=tuple(problems), **values)


def list_opts():
    """For oslo-config-generator.

    :returns: list of (group name, options) pairs
    """
    return [(GROUP, OPTS)]


def _remember(conf, fresh):
    options()


nova.conf.CONF.register_opts(OPTS, group=GROUP)
# In native threading mode SIGHUP replaces the workers: the new ones have only
# what their parent knows.
nova.conf.CONF.register_mutate_hook(_remember)
