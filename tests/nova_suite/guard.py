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

"""The guard, with its default options, in every test of nova."""

import logging

import nova.conf
from nova.scheduler import host_manager
from nova.scheduler import manager
from nova import test
from testtools import content

from nova_specguard import actions
from nova_specguard import alerts
from nova_specguard import plugin
from tests.nova_suite import compare

CONF = nova.conf.CONF


def put_into_every_test():
    """Patch nova for the rest of this process."""
    lines = []
    logger = logging.getLogger(alerts.LOGGER)
    logger.setLevel(logging.INFO)
    logger.addHandler(_Collector(lines))

    # nova resets its options after each test, tests set them as well, and
    # nobody reads them but this constructor.
    _before(host_manager.HostManager, '__init__', _configure)
    _after(manager.SchedulerManager, '__init__',
           lambda scheduler: _verify(scheduler, lines))
    _before(test.TestCase, 'setUp', lambda case: _begin(case, lines))


def _before(owner, name, function):
    original = getattr(owner, name)

    def patched(self, *args, **kwargs):
        function(self)
        return original(self, *args, **kwargs)
    setattr(owner, name, patched)


def _after(owner, name, function):
    original = getattr(owner, name)

    def patched(self, *args, **kwargs):
        original(self, *args, **kwargs)
        function(self)
    setattr(owner, name, patched)


def _begin(case, lines):
    # So that each test has the lines of a service that has just started.
    alerts.reporter.cache_clear()
    plugin.install()
    # The first cleanup is the last to run, after nova's services have ended.
    case.addCleanup(_end, case, lines)


def _end(case, lines):
    # no event of this test goes into the next
    actions.stop()
    case.addDetail(compare.DETAIL, content.text_content('\n'.join(lines)))
    lines.clear()


def _configure(_host_manager):
    options = CONF.filter_scheduler
    if 'SpecGuardFilter' in options.enabled_filters:
        # The second scheduler of a test.
        return
    CONF.set_override(
        'available_filters',
        ['nova_specguard.scheduler.all_filters', *options.available_filters],
        group='filter_scheduler')
    CONF.set_override(
        'enabled_filters', ['SpecGuardFilter', *options.enabled_filters],
        group='filter_scheduler')


def _verify(scheduler, lines):
    first = scheduler.host_manager.enabled_filters[0]
    if type(first).__name__ != 'SpecGuardFilter':
        lines.append(compare.UNGUARDED)


class _Collector(logging.Handler):

    def __init__(self, lines):
        super().__init__()
        self._lines = lines

    def emit(self, record):
        self._lines.append(record.getMessage())
