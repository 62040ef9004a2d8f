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

"""Starts a nova service as far as its notification drivers; for test_plugin.

Usage: python service.py COMMAND CONFIG_FILE [METHOD]

COMMAND is a module such as nova.cmd.conductor, which makes this program that
service. METHOD is taken from nova's ComputeTaskManager, as if this nova had no
such method. Prints what is in place, as JSON.
"""

import importlib
import json
import sys

METHODS = ('_live_migrate', '_cold_migrate', 'rebuild_instance',
           'unshelve_instance')


def main(command, config_file, method=None):
    importlib.import_module(command)

    # nova may only be imported after its command has decided about eventlet.
    from nova.conductor import manager
    from nova import config
    from nova.scheduler.client import query
    from nova.scheduler import request_filter
    if method:
        delattr(manager.ComputeTaskManager, method)

    def holds():
        found = {name: vars(manager.ComputeTaskManager).get(name)
                 for name in METHODS}
        found['select_destinations'] = vars(query.SchedulerQueryClient)[
            'select_destinations']
        return found

    before = holds()
    config.parse_args([command, '--config-file', config_file])
    after = holds()
    print(json.dumps({
        'wrapped': sorted(
            name for name in after if after[name] is not before[name]),
        'request_filters': [
            function.__module__ + '.' + function.__name__
            for function in request_filter.ALL_REQUEST_FILTERS],
        'guard': sorted(
            name for name in sys.modules
            if name.startswith('nova_specguard')),
        'eventlet': 'eventlet' in sys.modules,
        'native_threads': any(
            type(finder).__name__ == 'PoisonEventletImport'
            for finder in sys.meta_path),
    }))


if __name__ == '__main__':
    main(*sys.argv[1:])
