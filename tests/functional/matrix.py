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

"""What is expected of every operation with every drift in every mode.

A model of nova and of the guard, in words of its own. test_matrix runs it
against both; tests.unit.test_drift_table makes a page of the documentation
of it.
"""

import collections
import itertools

from tests.functional import world

OPERATIONS = ('live-migration', 'migrate', 'resize', 'evacuate', 'unshelve',
              'rebuild')
TARGET = 'amd2'
UNTARGETED_ONLY = ('resize', 'rebuild')
MODES = {
    'correct': {},
    'refuse': {'correct': False},
    'warn': {'mode': 'warn'},
    'off': {'mode': 'off'},
}

AMD_HOSTS = {host for host, vendor in world.VENDORS.items()
             if vendor == world.AMD}
INTEL_HOSTS = set(world.VENDORS) - AMD_HOSTS
# Of the aggregates and zones of tests.functional.drifts.
RIGHT_HOSTS = {'amd1', 'amd2'}
WRONG_HOSTS = {'amd3-numa'}
# Apart from the other member of the server group.
APART = AMD_HOSTS - {'amd2'}

FROM_FLAVOR = ('flavor', 'flavor_extra_specs', 'numa_topology',
               'pci_requests')
# What nova itself sets right on the way, before the guard looks.
MENDED = {
    'resize': FROM_FLAVOR,
    'migrate': ('flavor', 'flavor_extra_specs'),
    'rebuild': ('image',),
}
# A hint in a rebuild is nova-api's own; an offloaded server is in no zone.
UNEXPECTED = (('rebuild', 'rebuild hint'), ('unshelve', 'out of zone'))
ALERTED_ONLY = ('extra specs', 'ambiguous image', 'left group',
                'out of zone', 'lost zone')
# Refusing these would do harm.
NEVER_REFUSED = ('evacuate', 'rebuild')
# nova checks the server's own host only, by filters that none of these
# drifts is seen by.
NEVER_MOVED = ('rebuild',)

STATUS = collections.defaultdict(
    lambda: 'ACTIVE', {'migrate': 'VERIFY_RESIZE', 'resize': 'VERIFY_RESIZE'})
STATUS_WITHOUT_HOST = collections.defaultdict(
    lambda: 'ACTIVE', {'evacuate': 'ERROR', 'unshelve': 'SHELVED_OFFLOADED'})


class Drift(collections.namedtuple(
        'Drift', 'field drift_class produce right wrong source')):
    """
    :ivar field: what differs
    :ivar drift_class: how
    :ivar produce: name of the test case's method
    :ivar right: hosts on which the server may run
    :ivar wrong: hosts that nova alone takes, right or wrong
    :ivar source: host on which the server is
    """


def _drift(field, drift_class, produce, right, wrong, source='amd1'):
    return Drift(field, drift_class, produce, right, wrong, source)


DRIFTS = {
    'healthy': _drift(None, None, 'boot', AMD_HOSTS, AMD_HOSTS),
    'smaller flavor': _drift(
        'flavor', 'flavor-other', 'drift_to_smaller_flavor', AMD_HOSTS,
        INTEL_HOSTS),
    'flavor too big': _drift(
        'flavor', 'flavor-other', 'drift_to_too_big_flavor', AMD_HOSTS,
        set()),
    'extra specs': _drift(
        'flavor_extra_specs', 'flavor-extra-specs', 'drift_in_extra_specs',
        AMD_HOSTS, INTEL_HOSTS),
    'numa left over': _drift(
        'numa_topology', 'numa-topology', 'drift_in_numa', AMD_HOSTS,
        AMD_HOSTS & world.NUMA_HOSTS, source='amd3-numa'),
    'pci left over': _drift(
        'pci_requests', 'pci-requests', 'drift_in_pci', AMD_HOSTS,
        AMD_HOSTS & world.PCI_HOSTS),
    'other image': _drift(
        'image', 'image-id', 'leave_image_behind', RIGHT_HOSTS, WRONG_HOSTS),
    'other properties': _drift(
        'image', 'image-properties', 'lose_image_properties', RIGHT_HOSTS,
        WRONG_HOSTS),
    'ambiguous image': _drift(
        'image', 'image-ambiguous', 'refuse_rebuild', RIGHT_HOSTS,
        WRONG_HOSTS),
    'other project': _drift(
        'project', 'project', 'misplace_project', RIGHT_HOSTS, WRONG_HOSTS),
    'other user': _drift(
        'project', 'user', 'misplace_user', AMD_HOSTS, AMD_HOSTS),
    'rebuild hint': _drift(
        'scheduler_hints', 'rebuild-hint', 'leave_rebuild_hint', AMD_HOSTS,
        set(world.VENDORS)),
    'missing group': _drift(
        'instance_group', 'server-group-missing', 'add_to_group', APART,
        set()),
    'left group': _drift(
        'instance_group', 'server-group-gone', 'remove_from_group', APART,
        APART),
    'out of zone': _drift(
        'availability_zone', 'zone-pin-violated', 'move_out_of_zone',
        RIGHT_HOSTS, RIGHT_HOSTS, source='amd3-numa'),
    'lost zone': _drift(
        'availability_zone', 'zone-pin-unknown', 'dissolve_zone', AMD_HOSTS,
        AMD_HOSTS),
    'no is_bfv': _drift(
        'is_bfv', 'is-bfv', 'lose_is_bfv', AMD_HOSTS, AMD_HOSTS),
    'wrong is_bfv': _drift(
        'is_bfv', 'is-bfv', 'drift_in_is_bfv', AMD_HOSTS, AMD_HOSTS),
}


class Case(collections.namedtuple('Case', 'operation targeted drift mode')):

    @property
    def __name__(self):
        return '_'.join([self.operation, self.targeted, self.drift, self.mode])

    @property
    def is_targeted(self):
        return self.targeted == 'targeted'

    @property
    def field(self):
        """The field that still differs when the guard sees it, or None."""
        field = DRIFTS[self.drift].field
        if (field in MENDED.get(self.operation, ()) or
                (self.operation, self.drift) in UNEXPECTED):
            return None
        return field

    @property
    def stops_nova(self):
        """Whether nova raises AttributeError before it schedules."""
        return (self.drift == 'missing group' and
                expected_alert(self) != '101')

    @property
    def is_possible(self):
        if self.is_targeted:
            if self.operation in UNTARGETED_ONLY:
                return False
            # nova-api looks into the zone itself; a hint makes nova miss the
            # node of the target before it comes to the filters.
            return self.operation != 'unshelve' or self.drift not in (
                'lost zone', 'rebuild hint')
        return True

    @property
    def ends(self):
        """Whether nova leaves the server in a state in which it rests."""
        return not (self.stops_nova and
                    self.operation in ('evacuate', 'rebuild'))


def all_cases():
    cases = (Case(*row) for row in itertools.product(
        OPERATIONS, ('targeted', 'untargeted'), DRIFTS, MODES))
    return [case for case in cases if case.is_possible and case.ends]


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


def one_per_class():
    """A live migration for each drift class."""
    drifts = {drift.drift_class: name
              for name, drift in reversed(DRIFTS.items())
              if drift.drift_class}
    return [Case('live-migration', 'untargeted', name, 'correct')
            for name in drifts.values()]


def expected_alert(case):
    if case.field is None or case.mode == 'off':
        return None
    if case.mode == 'warn' or case.drift in ALERTED_ONLY:
        return '103'
    if case.mode == 'correct':
        return '101'
    # nova heals a missing flag itself, and a missing group stops nova
    if (case.operation in NEVER_REFUSED or
            case.drift in ('no is_bfv', 'missing group')):
        return '103'
    return '102'


def is_led_astray(case):
    """Whether nova schedules by what the spec says wrongly."""
    return case.field is not None and expected_alert(case) != '101'


def expected_host(case):
    """Where the server lands, or None if no host is found for it."""
    drift = DRIFTS[case.drift]
    if expected_alert(case) == '102' or case.stops_nova:
        return None
    if case.operation in NEVER_MOVED:
        return drift.source
    may = drift.wrong if is_led_astray(case) else drift.right
    hosts = [host for host in world.VENDORS if host in may]
    if case.operation != 'unshelve':
        hosts = [host for host in hosts if host != drift.source]
    if case.is_targeted:
        hosts = [host for host in hosts if host == TARGET]
    return hosts[0] if hosts else None


def expected_status(case):
    if expected_host(case):
        return STATUS[case.operation]
    if case.stops_nova and case.operation == 'live-migration':
        return 'ERROR'
    return STATUS_WITHOUT_HOST[case.operation]


def expected_resources(case):
    """The allocation on the host on which the server lands."""
    flavor = (world.A2_LARGE if case.operation == 'resize'
              else world.A2_MEDIUM)
    resources = dict(flavor.resources)
    if is_led_astray(case) and case.operation not in NEVER_MOVED:
        if case.drift == 'smaller flavor':
            return world.E2_MEDIUM.resources
        if case.drift == 'rebuild hint':
            return {}
        if case.drift == 'wrong is_bfv':
            del resources['DISK_GB']
    return resources


def expected_consumer(case):
    """Whether placement has the allocation booked on the server's owner.

    :returns: (whether on its project, whether on its user)
    """
    if not is_led_astray(case) or case.operation in NEVER_MOVED:
        return True, True
    return case.drift != 'other project', case.drift != 'other user'
