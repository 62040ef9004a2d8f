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

"""How nova services load the guard.

``[oslo_messaging_notifications] driver = specguard``, beside the drivers that
are there, is the one configured import that reaches nova-conductor: nova
constructs every driver when a service starts, after monkey patching and
before there is a manager, an RPC server or a worker.
"""

import importlib
import sys

from oslo_messaging.notify import notifier

# By the modules of nova's commands, since programs can be renamed and wrapped.
# Imported late: other services construct the driver as well.
_PARTS = {
    'nova.cmd.conductor': 'nova_specguard.conductor',
    'nova.cmd.scheduler': 'nova_specguard.scheduler',
}


class Driver(notifier.Driver):
    """A notification driver that sends nothing and brings the guard along.

    Acts in nova-conductor and nova-scheduler only; nova constructs it in
    other services too, and twice with ``notification_format = both``.
    """

    def __init__(self, conf, topics, transport):
        super().__init__(conf, topics=topics, transport=transport)
        for command, part in _PARTS.items():
            if _is_running(command):
                _install(part)

    def notify(self, ctxt, msg, priority, retry):
        """Send nothing."""


def _is_running(command):
    main = getattr(sys.modules.get('__main__'), '__spec__', None)
    return command in sys.modules or getattr(main, 'name', None) == command


def install():
    """Put everything in place, whatever program this is. Idempotent.

    For tests and for programs that embed nova's services; call it before
    they start.

    :raises SystemExit: see nova_specguard.hooks.install
    """
    for part in _PARTS.values():
        _install(part)


def _install(part):
    from nova_specguard import hooks

    service = 'nova-' + part.rpartition('.')[2]
    # A nova that has moved what the guard imports is a hook that does not fit.
    hooks.install(
        service, [lambda: importlib.import_module(part).install()])
