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

"""Long runs, by default a tenth of each: tools/endurance.sh runs all of it."""

import os
import random

import fixtures
from oslo_utils import timeutils
from oslo_utils import uuidutils
from testtools import content

from nova_specguard.audit import healer
from tests import server_cloud
from tests.unit import cloud

IS_LONG = os.environ.get('SPECGUARD_ENDURANCE') == 'full'
SEED = int(os.environ.get('SPECGUARD_SEED', random.randrange(2 ** 32)))


def length(whole):
    """How much of a run is run."""
    return whole if IS_LONG else whole // 10


def counted(text):
    """What is shown with a result."""
    return content.text_content(text)


class EnduranceTestCase(server_cloud.OnMariaDB, cloud.CloudTestCase):

    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.addDetail('seed', counted(str(SEED)))
        self.directory = self.useFixture(fixtures.TempDir()).path

    def add(self, count):
        """Add servers with the drift of the reported case.

        :returns: list of UUIDs
        """
        uuids = []
        for _number in range(count):
            row = cloud.reported_case()
            row['instance']['uuid'] = uuidutils.generate_uuid()
            uuids.append(self.cell.add(row))
        return uuids

    def healer(self):
        return healer.Healer(
            self.options(), timeutils.utcnow(), lambda difference: True)
