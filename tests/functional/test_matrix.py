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

"""Every operation, with every kind of drift, in every way to react to it.

A pairwise selection of them; all of them with SPECGUARD_FULL_MATRIX=1.
"""

import collections
import itertools
import os

import ddt

from tests.functional import base
from tests.functional import world

FULL = os.environ.get('SPECGUARD_FULL_MATRIX') == '1'

TARGET = 'amd2'

OPERATIONS = ('live-migration', 'migrate', 'resize', 'evacuate', 'unshelve',
              'rebuild')
UNTARGETED_ONLY = ('resize', 'rebuild')
DRIFTS = ('healthy', 'smaller flavor', 'flavor too big', 'extra specs',
          'numa left over', 'pci left over')
MODES = ('correct', 'refuse', 'warn', 'off')

OPTIONS = {
    'correct': {},
    'refuse': {'correct': False},
    'warn': {'mode': 'warn'},
    'off': {'mode': 'off'},
}

FIELD = {
    'smaller flavor': 'flavor',
    'flavor too big': 'flavor',
    'extra specs': 'flavor_extra_specs',
    'numa left over': 'numa_topology',
    'pci left over': 'pci_requests',
}

# What nova itself sets right on the way: a resize all, a cold migrate the
# flavor.
MENDED = {
    'resize': set(FIELD.values()),
    'migrate': {'flavor', 'flavor_extra_specs'},
}
# Refusing these would do harm.
NEVER_REFUSED = ('evacuate', 'rebuild')
# nova checks the server's own host only, by filters that none of these
# drifts is seen by.
NEVER_MOVED = ('rebuild',)

STATUS = collections.defaultdict(
    lambda: 'ACTIVE', {'migrate': 'VERIFY_RESIZE', 'resize': 'VERIFY_RESIZE'})
STATUS_WITHOUT_HOST = collections.defaultdict(
    lambda: 'ACTIVE', {'evacuate': 'ERROR', 'unshelve': 'SHELVED_OFFLOADED'})


class Case(collections.namedtuple('Case', 'operation targeted drift mode')):

    @property
    def __name__(self):
        return '_'.join([self.operation, self.targeted, self.drift, self.mode])

    @property
    def field(self):
        """The field that still differs when the guard sees it, or None."""
        field = FIELD.get(self.drift)
        return None if field in MENDED.get(self.operation, ()) else field


def all_cases():
    targets = ('targeted', 'untargeted')
    return [
        Case(*row)
        for row in itertools.product(OPERATIONS, targets, DRIFTS, MODES)
        if row[1] == 'untargeted' or row[0] not in UNTARGETED_ONLY]


def pairwise(cases):
    """Cases in which all pairs of values occur that occur in any case."""
    def pairs(case):
        return set(itertools.combinations(enumerate(case), 2))

    missing = set().union(*map(pairs, cases))
    selected = []
    while missing:
        best = max(cases, key=lambda case: len(missing & pairs(case)))
        selected.append(best)
        missing -= pairs(best)
    return selected


def expected_alert(case):
    if case.field is None or case.mode == 'off':
        return None
    if case.mode == 'warn' or case.field == 'flavor_extra_specs':
        return '103'
    if case.mode == 'correct':
        return '101'
    return '103' if case.operation in NEVER_REFUSED else '102'


def expected_host(case, source):
    """Where the server lands, or None if no host is found for it."""
    alert = expected_alert(case)
    if alert == '102':
        return None
    if case.operation in NEVER_MOVED:
        return source
    drift = case.drift if case.field and alert != '101' else 'healthy'
    hosts = [host for host in world.VENDORS if may_host(host, drift)]
    if case.operation != 'unshelve':
        hosts = [host for host in hosts if host != source]
    if case.targeted == 'targeted':
        hosts = [host for host in hosts if host == TARGET]
    return hosts[0] if hosts else None


def may_host(host, drift):
    """Whether nova alone takes a host for a spec with this drift."""
    if drift == 'flavor too big':
        return False
    wrong_flavor = drift in ('smaller flavor', 'extra specs')
    vendor = world.INTEL if wrong_flavor else world.AMD
    return (world.VENDORS[host] == vendor and
            (drift != 'numa left over' or host in world.NUMA_HOSTS) and
            (drift != 'pci left over' or host in world.PCI_HOSTS))


def expected_resources(case):
    """The size of the allocation on the host on which the server lands."""
    if case.operation == 'resize':
        return world.A2_LARGE.resources
    is_claimed_for_drift = (
        case.drift == 'smaller flavor' and case.field and
        case.operation not in NEVER_MOVED and expected_alert(case) != '101')
    flavor = world.E2_MEDIUM if is_claimed_for_drift else world.A2_MEDIUM
    return flavor.resources


@ddt.ddt
class MatrixTest(base.TestCase):

    @ddt.data(*(all_cases() if FULL else pairwise(all_cases())))
    def test_move(self, case):
        server = self.drifted_server(case.drift)
        source = self.host_of(server)
        if case.operation == 'unshelve':
            self.shelve(server)
        self.set_guard(**OPTIONS[case.mode])

        self.move(server, case.operation, case.targeted == 'targeted')

        host = expected_host(case, source)
        if host:
            self.assert_landed(server, case, host)
        else:
            self.assert_stayed(server, case, source)
        self.assert_alerted(server, case)

    def drifted_server(self, drift):
        if drift == 'smaller flavor':
            server = self.boot_reported_case()
            self.fail_resize(server, world.E2_MEDIUM)
            return server
        server = self.boot(world.A2_MEDIUM, host='amd1')
        if drift == 'numa left over':
            self.leave_numa_behind(server)
        elif drift == 'pci left over':
            self.leave_pci_behind(server)
        elif drift == 'flavor too big':
            self.exceed_all_hosts(server)
        elif drift == 'extra specs':
            self.edit_extra_specs(server)
        return server

    def move(self, server, operation, targeted):
        host = {'host': TARGET} if targeted else {}
        if operation == 'live-migration':
            self.live_migrate(server, **host)
        elif operation == 'resize':
            self.resize(server, world.A2_LARGE)
        else:
            getattr(self, operation)(server, **host)

    def assert_landed(self, server, case, host):
        shown = self.show(server)
        self.assertEqual(
            (host, STATUS[case.operation], None),
            (shown['OS-EXT-SRV-ATTR:host'], shown['status'],
             shown['OS-EXT-STS:task_state']))
        self.assert_allocation(server, host, expected_resources(case))

    def assert_stayed(self, server, case, source):
        shown = self.show(server)
        is_offloaded = case.operation == 'unshelve'
        self.assertEqual(
            (None if is_offloaded else source,
             STATUS_WITHOUT_HOST[case.operation], None),
            (shown['OS-EXT-SRV-ATTR:host'], shown['status'],
             shown['OS-EXT-STS:task_state']))
        self.assert_allocation(
            server, source,
            {} if is_offloaded else world.A2_MEDIUM.resources)

    def assert_alerted(self, server, case):
        code = expected_alert(case)
        if code:
            self.assert_alert(code, server, case.operation, case.field)
        else:
            self.assert_no_alert()
