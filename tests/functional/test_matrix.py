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

"""Every operation with every drift in every mode, on real nova services.

A pairwise selection of them; all of them with SPECGUARD_FULL_MATRIX=1. And one
live migration per drift class, for old nova releases.
"""

import os

import ddt

from tests.functional import base
from tests.functional import drifts
from tests.functional import matrix
from tests.functional import world

FULL = os.environ.get('SPECGUARD_FULL_MATRIX') == '1'


class MatrixTestCase(drifts.Drifts, base.TestCase):

    def assert_as_expected(self, case):
        drift = matrix.DRIFTS[case.drift]
        server = getattr(self, drift.produce)()
        self.isolate(case.drift, server)
        if case.operation == 'unshelve':
            self.shelve(server)
        self.set_guard(**{'mode': 'enforce', **matrix.MODES[case.mode]})

        self.move(server, case)

        self.assert_moved(server, case, drift)
        self.assert_alerted(server, case)

    def isolate(self, drift, server):
        """Make what nova tells right from wrong by, where it is not yet."""
        if drift in ('other image', 'other properties'):
            self.isolate_images()
        elif drift == 'other project':
            self.isolate_projects(server)

    def move(self, server, case):
        host = {'host': matrix.TARGET} if case.is_targeted else {}
        if case.operation == 'live-migration':
            self.live_migrate(server, **host)
        elif case.operation == 'resize':
            self.resize(server, world.A2_LARGE)
        else:
            getattr(self, case.operation)(server, **host)

    def assert_moved(self, server, case, drift):
        host = matrix.expected_host(case)
        is_offloaded = case.operation == 'unshelve' and not host
        shown = self.show(server)
        self.assertEqual(
            (None if is_offloaded else host or drift.source,
             matrix.expected_status(case), None),
            (shown['OS-EXT-SRV-ATTR:host'], shown['status'],
             shown['OS-EXT-STS:task_state']))
        if host:
            resources = matrix.expected_resources(case)
        else:
            resources = {} if is_offloaded else world.A2_MEDIUM.resources
        self.assert_allocation(server, host or drift.source, resources)
        if host and resources:
            self.assertEqual(matrix.expected_consumer(case),
                             self.is_booked_on_owner(server))

    def is_booked_on_owner(self, server):
        booked = self.placement.get(
            '/allocations/' + server['id'], version='1.12').body
        return (booked['project_id'] == server['tenant_id'],
                booked['user_id'] == server['user_id'])

    def assert_alerted(self, server, case):
        code = matrix.expected_alert(case)
        if code:
            self.assert_alert(
                code, server, case.operation, case.field,
                classes=matrix.DRIFTS[case.drift].drift_class)
        else:
            self.assert_no_alert()


@ddt.ddt
class MatrixTest(MatrixTestCase):

    @ddt.data(*(matrix.all_cases() if FULL
                else matrix.pairwise(matrix.all_cases())))
    def test_move(self, case):
        self.assert_as_expected(case)


@ddt.ddt
class OnePerDriftClassTest(MatrixTestCase):

    @ddt.data(*matrix.one_per_class())
    def test_one_per_class(self, case):
        self.assert_as_expected(case)
