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
"""After which event of nova's own the copies parted."""

from nova_specguard.cmd import explain
from nova_specguard import instances
from tests.functional import test_audit


class ExplainTest(test_audit.AuditTestCase):

    def conclusions(self, server):
        """What explain says of each difference.

        :returns: dict of drift class to text
        """
        rows = explain.story(
            instances.cell_mapping(self.context, server['id']), server['id'],
            self.findings())
        return {row[3]: row[4] for row in rows if row[1] == explain.DRIFT}

    def request_id(self, server, action):
        found = self.api.get_instance_actions(server['id'])
        return [each['request_id'] for each in found
                if each['action'] == action][0]

    def test_resize_that_failed(self):
        conclusions = self.conclusions(self.drift_to_smaller_flavor())
        for name in ('flavor-other', 'stashed-flavor'):
            self.assertRegex(
                conclusions[name], r'resize \d+ to e2\.medium failed on '
                r'[-0-9]+ [:0-9]+; the request spec was (last )?saved ')

    def test_rebuild_that_was_refused(self):
        server = self.refuse_rebuild()
        self.assertIn(
            'rebuild %s failed on ' % self.request_id(server, 'rebuild'),
            self.conclusions(server)['image-ambiguous'])

    def test_rebuild_hint(self):
        server = self.leave_rebuild_hint()
        self.assertIn('rebuild req-',
                      self.conclusions(server)['rebuild-hint'])
