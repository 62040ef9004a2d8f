# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""nova's own functional tests, as if they were tests of this project."""

import faulthandler
import importlib
import os
import pkgutil
import sys

# Before all else: it decides between eventlet and native threads.
from nova.tests import functional

from nova import test

# For nova to end a test by itself first.
GRACE = 30


def load_tests(loader, tests, pattern):
    _end_what_hangs()
    if os.environ.get('SPECGUARD_NOVA_SUITE') == 'on':
        # The baseline does not even import it.
        from tests.nova_suite import guard
        guard.put_into_every_test()
    prefix = functional.__name__ + '.'
    for module in pkgutil.walk_packages(functional.__path__, prefix):
        if module.name.rpartition('.')[2].startswith('test_'):
            # Not by name: a module that cannot be imported would be a test
            # that no selection matches.
            tests.addTests(loader.loadTestsFromModule(
                importlib.import_module(module.name)))
    return tests


def _end_what_hangs():
    # OS_TEST_TIMEOUT raises an exception, which does not end every test.
    seconds = int(os.environ['OS_TEST_TIMEOUT']) + GRACE
    set_up = test.TestCase.setUp

    def patched(self):
        faulthandler.dump_traceback_later(
            seconds, exit=True, file=sys.__stderr__)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)
        set_up(self)
    test.TestCase.setUp = patched
