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

"""Causes that the audit is certain of, because they are on record."""

import copy
import datetime
import json
from unittest import mock

from nova.db.main import models

from nova_specguard.audit import history
from nova_specguard import fields
from tests.unit import builders
from tests.unit import cloud
from tests.unit import test_cmd_explain
from tests.unit.test_cmd_explain import SAVED

USUAL = fields.flavor.OTHER.cause


class CausesTestCase(test_cmd_explain.ExplainTestCase):

    def causes(self, uuid=builders.UUID):
        """What the audit says of a server.

        :returns: dict of drift class to cause
        """
        self.run_command('audit', '-f', 'json')
        return {row['drift_class']: row['cause']
                for row in json.loads(self.stdout.getvalue())
                if row['instance_uuid'] == uuid}


class ResizeTest(CausesTestCase):

    def of_resize(self, status, old=982, new=831):
        self.add()
        self.migrate(1, 'resize', status, old, new, SAVED)
        return self.causes()['flavor-other']

    def test_reported_case(self):
        self.add()
        for migration in test_cmd_explain.MIGRATIONS:
            self.migrate(*migration)
        text = ('resize 138931 to e2.medium failed on 2024-01-08 14:11:14; '
                'the request spec was saved in the same second')
        self.assertEqual({'flavor-other': text, 'stashed-flavor': text},
                         self.causes())

    def test_reverted(self):
        self.assertTrue(self.of_resize('reverted').startswith(
            'resize 1 to e2.medium was reverted on '))

    def test_confirmed(self):
        self.assertEqual(USUAL, self.of_resize('confirmed'))

    def test_from_the_flavor_that_the_server_does_not_have(self):
        self.assertEqual(USUAL, self.of_resize('error', 831, 982))

    def test_to_another_flavor(self):
        self.assertEqual(USUAL, self.of_resize('error', 982, 7))

    def test_nothing_on_record(self):
        self.add()
        self.assertEqual(USUAL, self.causes()['flavor-other'])

    def test_of_several_servers_each_has_its_own(self):
        self.add()
        self.migrate(1, 'resize', 'error', 982, 831, SAVED)
        self.row['instance']['uuid'] = builders.OTHER_UUID
        self.cell.add(self.row)
        self.cell.insert(
            models.Migration, self.cell.mapping, id=2, deleted=0,
            instance_uuid=builders.OTHER_UUID, migration_type='resize',
            status='error', old_instance_type_id=982,
            new_instance_type_id=831,
            created_at=datetime.datetime.fromisoformat(SAVED))
        for number, uuid in enumerate((builders.UUID, builders.OTHER_UUID)):
            self.assertIn('resize %d ' % (number + 1),
                          self.causes(uuid)['flavor-other'])


class ActionTest(CausesTestCase):

    def setUp(self):
        super().setUp()
        self.row = cloud.healthy(uuid=builders.UUID)
        self.row['instance']['image_ref'] = builders.GROUP

    def of_rebuild(self, saved_at, *events):
        self.add(saved_at)
        self.request = self.act('rebuild', SAVED, *events)
        return self.causes()['image-ambiguous']

    def test_rebuild_that_failed(self):
        cause = self.of_rebuild(
            '2024-01-08 14:11:15', ('conductor_rebuild_server', 'Error'))
        self.assertEqual(
            'rebuild %s failed on %s; the request spec was last saved 1 s '
            'later' % (self.request, SAVED), cause)

    def test_request_spec_that_was_saved_before(self):
        self.assertEqual(fields.image.AMBIGUOUS.cause, self.of_rebuild(
            '2024-01-08 14:11:13', ('conductor_rebuild_server', 'Error')))

    def test_request_spec_that_was_saved_much_later(self):
        self.assertEqual(fields.image.AMBIGUOUS.cause, self.of_rebuild(
            '2024-01-08 14:20:00', ('conductor_rebuild_server', 'Error')))

    def test_rebuild_that_ended_well(self):
        self.assertEqual(fields.image.AMBIGUOUS.cause, self.of_rebuild(
            SAVED, ('compute_rebuild_instance', 'Success')))


class CostTest(CausesTestCase):

    def assert_reads(self, count):
        with mock.patch.object(
                history, 'read', side_effect=history.read) as read:
            self.causes()
        self.assertEqual(count, read.call_count)

    def test_clean_servers(self):
        self.row = cloud.healthy(uuid=builders.UUID)
        self.add()
        self.assert_reads(0)

    def test_drift_of_which_nothing_is_on_record(self):
        self.row = cloud.healthy(uuid=builders.UUID)
        self.row['request_spec']['nova_object.data']['project_id'] = 'other'
        self.add()
        self.assert_reads(0)

    def test_all_servers_at_once(self):
        self.add()
        self.row['instance']['uuid'] = builders.OTHER_UUID
        self.cell.add(self.row)
        self.assert_reads(1)

    def test_flavor_without_a_number(self):
        flavor = copy.deepcopy(
            self.row['request_spec']['nova_object.data']['flavor'])
        flavor['nova_object.data']['id'] = ['x']
        self.row['request_spec']['nova_object.data']['flavor'] = flavor
        self.row['instance_extra']['flavor']['new'] = flavor
        self.add()
        self.assert_reads(0)
