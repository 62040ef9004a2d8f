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


"""A service with workers under nova's launcher; for test_workers.

Usage: python worker_service.py COMMAND CONFIG_FILE WORKERS

COMMAND is a module such as nova.cmd.conductor: this program becomes that
service, guard and all, as far as the database and the message bus. Writes one
JSON object a line:

``{"mode": ..., "problems": ..., "pid": ..., "main": ...}``
    of a worker at its start, and whenever its options have changed
``{"event": ..., "pid": ..., "main": ...}``
    of the thread that writes instance action events
"""

import importlib
import io
import json
import os
import sys
import threading


def tell(**values):
    values.update(pid=os.getpid(), main=os.getppid())
    # One system call, so that the lines of several workers stay whole, and not
    # one of os, which eventlet patches.
    with io.FileIO(1, 'w', closefd=False) as stdout:
        stdout.write((json.dumps(values) + '\n').encode())


def main(command, config_file, workers):
    importlib.import_module(command)

    # nova may only be imported after its command has decided about eventlet.
    from nova import config
    from nova import context as nova_context
    from nova import service as nova_service
    from oslo_service import service

    config.parse_args([command, '--config-file', config_file])

    from nova_specguard import actions
    from nova_specguard import conf

    main_pid = os.getpid()
    forever = threading.Event()

    def write(_context, _instance_uuid, name, details):
        if os.getpid() == main_pid:
            # Whatever waits behind it is still waiting when the workers fork.
            forever.wait()
        tell(event=details)

    def record(details):
        actions.record(nova_context.get_admin_context(), 'a-server',
                       'corrected', details)

    class Worker(service.Service):

        told = None

        def start(self):
            super().start()
            record('worker')
            # Asked again and again: a worker has no other work in which it
            # would read the options.
            self.tg.add_timer(0.05, self.tell_options)

        def tell_options(self):
            options = conf.options()
            now = (options.mode, options.problems)
            if now != self.told:
                self.told = now
                tell(mode=options.mode, problems=options.problems)

    actions._writer._write = write
    for number in range(3):
        record('main')
    nova_service.serve(Worker(), workers=int(workers))
    nova_service.wait()


if __name__ == '__main__':
    main(*sys.argv[1:])
