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

"""What the audit finds in rows."""

import datetime
import json
from unittest import mock

import ddt
from nova.db.api import api as api_db
from nova.db.api import models as api_models
from nova.db.main import api as main_db
from nova.db.main import models
from nova import objects
import nova.version
from oslo_db import exception as db_exception
from oslo_utils import timeutils
from oslo_utils import uuidutils
import sqlalchemy
from sqlalchemy import event

from nova_specguard.audit import api_rows
from nova_specguard.audit import audit
from nova_specguard.audit import cell_rows
from nova_specguard.audit import classes
from tests.unit import builders
from tests.unit import cloud
from tests.unit import rows
from tests.unit import test_instances

THIS_RELEASE = int(nova.version.version_string().partition('.')[0])
LONG_AGO = timeutils.utcnow() - datetime.timedelta(days=3)


def data(row):
    return row['request_spec']['nova_object.data']


class ReportedCaseTest(cloud.CloudTestCase):

    def test_what_is_found(self):
        self.cell.add(cloud.reported_case())
        other, stashed = self.audit()
        self.assertEqual('flavor-other', other.difference.drift_class.name)
        for text in ('id=831', 'flavorid=022050', 'name=e2.medium',
                     'root_gb=25'):
            self.assertIn(text, other.difference.spec_value)
        for text in ('id=982', 'flavorid=026050', 'name=a2.medium',
                     'root_gb=80', 'os:secure_boot=disabled'):
            self.assertIn(text, other.difference.current_value)
        self.assertIn('os:secure_boot=', other.difference.spec_value)
        self.assertEqual('stashed-flavor', stashed.difference.drift_class.name)
        self.assertEqual('new=e2.medium (831)', stashed.difference.spec_value)
        self.assertEqual('a2.medium (982)', stashed.difference.current_value)
        for finding in (other, stashed):
            self.assertEqual(
                (builders.UUID, 'cell1', data(cloud.reported_case())[
                    'project_id'], 'compute-a2b1', 'idle', None),
                (finding.instance_uuid, finding.cell, finding.project_id,
                 finding.host, finding.state, finding.operation))

    def test_nothing_is_written(self):
        self.cell.add(cloud.reported_case())
        statements = []

        def collect(connection, cursor, statement, *rest):
            statements.append(statement)
        arguments = (sqlalchemy.engine.Engine, 'before_cursor_execute',
                     collect)
        event.listen(*arguments)
        self.addCleanup(event.remove, *arguments)
        self.audit()
        self.assertNotEqual([], statements)
        self.assertEqual([], [
            statement for statement in statements
            if not statement.startswith(
                ('SELECT', 'PRAGMA', 'BEGIN'))])

    def test_repaired_server_is_clean(self):
        self.cell.add(cloud.healthy())
        self.assertEqual({}, self.found())
        self.assertEqual(1, self.audited.checked)


@ddt.ddt
class RowsTest(cloud.CloudTestCase):
    """The rows of every release; tests.unit.test_rows has them compared."""

    def add_release(self, release):
        servers = rows.load(release)
        for row in servers.values():
            self.cell.add(row)
            instance = row['instance']
            zone, host = instance['availability_zone'], instance['host']
            if zone != 'nova':
                self.cell.add_aggregate(
                    zone + host, host, availability_zone=zone)
        return servers

    @ddt.data(*rows.RELEASES)
    def test_healthy_servers_are_clean(self, release):
        servers = self.add_release(release)
        expected = {}
        if int(release.partition('.')[0]) > THIS_RELEASE:
            # nova itself may find these too new, and that is all
            expected = {
                row['instance']['uuid']: ['spec-newer']
                for row in servers.values()
                if rows.loaded_spec(row) is None}
        self.assertEqual(expected, self.found())
        self.assertEqual(len(servers), self.audited.checked)
        self.assertEqual([], self.audited.unreadable)

    @ddt.data(rows.RELEASES[0], rows.RELEASES[-1])
    def test_server_of_another_flavor(self, release):
        servers = rows.load(release)
        plain, numa = servers['plain'], servers['numa']
        for name in ('flavor', 'numa_topology', 'pci_requests'):
            plain['instance_extra'][name] = numa['instance_extra'][name]
        del plain['instance']['instance_type_id']
        uuid = self.cell.add(plain)
        self.assertEqual(
            {'flavor-other', 'numa-topology', 'pci-requests'},
            set(self.found()[uuid]) - {'spec-newer'})


class SpecsTest(cloud.CloudTestCase):
    """Request specs that cannot be compared."""

    def found_of(self, spec, **mapping):
        row = cloud.healthy()
        row['request_spec'] = spec
        uuid = self.cell.add(row, **mapping)
        findings = [finding for finding in self.audit()
                    if finding.instance_uuid == uuid]
        for finding in findings:
            self.assertEqual('request_spec', finding.difference.field)
        return [(finding.difference.drift_class.name,
                 finding.difference.spec_value) for finding in findings]

    def test_missing(self):
        self.assertEqual([('spec-missing', None)], self.found_of(None))

    def test_unreadable(self):
        for text, reason in (
                ('', 'JSONDecodeError'), ('{', 'JSONDecodeError'),
                ('null', 'not a RequestSpec'), ('[]', 'not a RequestSpec'),
                ('{"nova_object.name": "Flavor"}', 'not a RequestSpec'),
                ('{"nova_object.name": "RequestSpec"}', 'not a RequestSpec'),
                ('[' * 100000, 'RecursionError')):
            self.assertEqual(
                [('spec-unreadable', reason)], self.found_of(text), text[:50])

    def test_what_only_nova_can_tell(self):
        spec = cloud.healthy()['request_spec']
        for name, value in (('limits', 5), ('num_instances', []),
                            ('force_hosts', 'amd1')):
            spec['nova_object.data'][name] = value
            found = self.found_of(spec)
            self.assertEqual(['spec-unreadable'], [f[0] for f in found], name)

    def test_newer(self):
        spec = cloud.healthy()['request_spec']
        spec['nova_object.version'] = '1.999'
        self.assertEqual(
            [('spec-newer', 'RequestSpec 1.999')], self.found_of(spec))

    def test_newer_inside(self):
        spec = cloud.healthy()['request_spec']
        image = spec['nova_object.data']['image']['nova_object.data']
        image['properties']['nova_object.version'] = '1.999'
        self.assertEqual(
            [('spec-newer', 'ImageMetaProps 1.999')], self.found_of(spec))

    def test_newer_is_compared_by_the_names_that_it_shares(self):
        row = cloud.reported_case()
        row['request_spec']['nova_object.version'] = '1.999'
        self.cell.add(row)
        self.assertEqual(
            {builders.UUID: ['spec-newer', 'flavor-other', 'stashed-flavor']},
            self.found())

    def test_object_that_this_nova_does_not_have(self):
        spec = cloud.healthy()['request_spec']
        spec['nova_object.data']['limits']['nova_object.name'] = 'Bounds'
        self.assertEqual(['spec-newer'], [f[0] for f in self.found_of(spec)])

    def test_spec_without_mapping(self):
        self.assertEqual(
            [('spec-orphan', None)],
            self.found_of(cloud.healthy()['request_spec'], is_mapped=False))

    def test_spec_without_server(self):
        uuid = uuidutils.generate_uuid()
        self.cell.insert(
            api_models.InstanceMapping, instance_uuid=uuid, project_id='p',
            cell_id=self.cell.mapping.id, queued_for_delete=False)
        self.assertEqual({}, self.found())
        self.cell.insert(
            api_models.RequestSpec, instance_uuid=uuid, spec='{}')
        finding, = self.audit()
        self.assertEqual('spec-orphan', finding.difference.drift_class.name)
        self.assertEqual('cell1', finding.cell)

    def test_server_that_was_deleted_keeps_its_spec(self):
        self.cell.add(dict(cloud.reported_case(), request_spec=None),
                      queued_for_delete=True)
        self.cell.add(cloud.healthy(deleted=7))
        self.assertEqual({}, self.found())

    def test_boot_that_is_not_scheduled(self):
        uuid = uuidutils.generate_uuid()
        self.cell.insert(
            api_models.InstanceMapping, instance_uuid=uuid, project_id='p',
            cell_id=None, queued_for_delete=False)
        self.cell.insert(
            api_models.RequestSpec, instance_uuid=uuid, spec='{}')
        self.assertEqual({}, self.found())
        self.assertEqual(0, self.audited.checked)


class InstancesTest(cloud.CloudTestCase):
    """What is wrong with a server apart from its spec."""

    def found_of(self, row, **kwargs):
        uuid = self.cell.add(row)
        return [(finding.difference.drift_class.name,
                 finding.difference.spec_value,
                 finding.difference.current_value)
                for finding in self.audit(**kwargs)
                if finding.instance_uuid == uuid]

    def test_unreadable_flavor(self):
        for text in (None, '', '{', '[]', '{}', '{"cur": null}',
                     '{"cur": 7}', '{"cur": {"nova_object.data": []}}'):
            row = cloud.healthy()
            row['instance_extra']['flavor'] = text
            self.assertEqual(
                [('instance-unreadable', None, 'no flavor')],
                self.found_of(row), text)

    def test_server_without_system_metadata(self):
        # its image is not compared, by the guard neither
        self.cell.add({**cloud.healthy(), 'system_metadata': {}})
        self.assertEqual({}, self.found())

    def test_unreadable_image(self):
        row = cloud.healthy()
        row['system_metadata']['image_hw_numa_nodes'] = 'some'
        self.assertEqual(
            [('instance-unreadable', None, 'system_metadata: ValueError')],
            self.found_of(row))

    def test_stashed_flavors(self):
        row = cloud.healthy()
        flavors = row['instance_extra']['flavor']
        flavors['old'] = flavors['cur']
        self.assertEqual(
            [('stashed-flavor', 'old=a2.medium (982)', 'a2.medium (982)')],
            self.found_of(row))
        # what a resize can be reverted to
        row['instance'].update(
            uuid=uuidutils.generate_uuid(), vm_state='resized')
        self.assertEqual([], self.found_of(row))

    def test_columns(self):
        self.assertEqual(
            [('instance-columns', 'instance_type_id=831 root_gb=25',
              'instance_type_id=982 root_gb=80')],
            self.found_of(cloud.healthy(
                instance_type_id=831, root_gb=25, vcpus=4, memory_mb=8192)))
        self.assertEqual([], self.found_of(cloud.healthy(
            instance_type_id=982, root_gb=80, ephemeral_gb=0)))

    def test_volume_backed_server(self):
        row = cloud.healthy(image_ref='')
        row['root_device']['destination_type'] = 'volume'
        self.assertEqual([('is-bfv', 'False', 'True')], self.found_of(row))

    def test_very_old_volume_backed_server_without_root_device(self):
        row = cloud.healthy(image_ref='')
        row['root_device'] = None
        self.assertEqual([('is-bfv', 'False', 'True')], self.found_of(row))

    def test_missing_group(self):
        row = cloud.healthy()
        row['groups'] = [builders.GROUP]
        self.assertEqual(
            [('server-group-missing', '-', builders.GROUP)],
            self.found_of(row))

    def test_zone(self):
        row = cloud.healthy()
        data(row)['availability_zone'] = 'az1'
        self.cell.add_aggregate('a', 'host1', availability_zone='az1')
        self.cell.add_aggregate('b', 'compute-a2b1', availability_zone='az2')
        self.assertEqual(
            [('zone-pin-violated', 'az1', 'az2')], self.found_of(row))

    def test_field_that_is_off_is_not_reported(self):
        self.configure(field_modes={'flavor': 'off'})
        self.assertEqual(['stashed-flavor'], [
            found[0] for found in self.found_of(cloud.reported_case())])


class StateTest(cloud.CloudTestCase):
    """Servers that nova works on."""

    def add_drifted(self, **instance):
        row = cloud.reported_case()
        row['instance'].update(uuid=uuidutils.generate_uuid(), **instance)
        return self.cell.add(row)

    def add_migration(self, uuid, status, time, **values):
        self.cell.insert(
            models.Migration, self.cell.mapping, instance_uuid=uuid,
            status=status, migration_type='resize', old_instance_type_id=982,
            new_instance_type_id=831, created_at=time, updated_at=time,
            deleted=0, hidden=False, uuid=uuidutils.generate_uuid(), **values)

    def test_in_flight(self):
        self.add_drifted(task_state='resize_prep')
        self.add_drifted(task_state=None, vm_state='building')
        self.assertEqual({}, self.found())
        self.assertEqual(2, self.audited.checked)
        self.assertEqual(2, self.audited.in_flight)

    def test_stuck(self):
        uuid = self.add_drifted(
            task_state='resize_prep', updated_at=LONG_AGO)
        other, stuck = self.audit()
        self.assertEqual('flavor-other', other.difference.drift_class.name)
        self.assertEqual('migration-stuck', stuck.difference.drift_class.name)
        self.assertEqual(
            'resize: task_state=resize_prep since %s' % LONG_AGO.isoformat(
                sep=' ', timespec='seconds'), stuck.difference.current_value)
        for finding in (other, stuck):
            self.assertEqual((uuid, 'stuck', 'resize'), (
                finding.instance_uuid, finding.state, finding.operation))
        self.assertEqual({}, self.found(stuck_after=30 * cloud.DAY))

    def test_migration_that_has_not_ended(self):
        uuid = self.cell.add(cloud.healthy())
        self.add_migration(uuid, 'error', LONG_AGO)
        self.assertEqual({}, self.found())
        self.add_migration(uuid, 'pre-migrating', LONG_AGO)
        finding, = self.audit()
        self.assertEqual(
            'migration-stuck', finding.difference.drift_class.name)
        self.assertIn('pre-migrating, flavor 982 to 831',
                      finding.difference.current_value)

    def test_migration_of_a_drifted_server_under_way(self):
        uuid = self.add_drifted()
        self.add_migration(uuid, 'accepted', timeutils.utcnow())
        self.assertEqual({}, self.found())
        self.assertEqual(1, self.audited.in_flight)

    def test_resize_that_waits_to_be_confirmed(self):
        uuid = self.cell.add(cloud.healthy(vm_state='resized'))
        self.add_migration(uuid, 'finished', LONG_AGO)
        self.assertEqual({}, self.found())

    def test_operation_that_ends_between_two_reads(self):
        self.cell.add(cloud.healthy())
        page = api_rows.page

        def old_spec(*args):
            spec = json.dumps(cloud.reported_case()['request_spec'])
            return [mapped._replace(spec=spec) for mapped in page(*args)]
        with mock.patch.object(api_rows, 'page', old_spec):
            self.assertEqual({}, self.found())


class SelectionTest(cloud.CloudTestCase):

    def setUp(self):
        super().setUp()
        self.drifted = []
        for cell in (self.cell.mapping, self.cell.other):
            for number in range(3):
                row = cloud.reported_case()
                row['instance'].update(
                    uuid=uuidutils.generate_uuid(),
                    host='%s-%d' % (cell.name, number))
                row['instance_extra']['flavor']['new'] = None
                self.drifted.append(self.cell.add(row, cell))
        self.cell.add(cloud.healthy(host='cell1-0'))

    def assert_found(self, expected, **selected):
        self.assertEqual(
            dict.fromkeys(expected, ['flavor-other']), self.found(**selected))

    def test_all(self):
        self.assert_found(self.drifted)
        self.assertEqual(7, self.audited.checked)
        self.assertEqual((7, 7), (self.audited.done, self.audited.total))

    def test_cell(self):
        self.assert_found(self.drifted[:3], cells=['cell1'])
        self.assert_found(self.drifted[3:], cells=[self.cell.other.uuid])

    def test_instance(self):
        self.assert_found(self.drifted[2:4], instances=self.drifted[2:4])
        self.assertEqual(2, self.audited.checked)

    def test_project(self):
        self.assert_found([], projects=['none'])
        self.assert_found(self.drifted, projects=[
            data(cloud.reported_case())['project_id']])

    def test_host(self):
        self.assert_found(self.drifted[:1], hosts=['cell1-0'])
        self.assertEqual(2, self.audited.checked)

    def test_field(self):
        self.assert_found([], fields=['image'])
        self.assert_found(self.drifted, fields=['image', 'flavor'])

    def test_max_count(self):
        self.assert_found(self.drifted[:2], max_count=2)
        self.assertTrue(self.audited.has_more)
        self.assert_found(self.drifted[:5], max_count=6)
        self.assertTrue(self.audited.has_more)
        self.assert_found(self.drifted, max_count=7)
        self.assertFalse(self.audited.has_more)
        self.assert_found(self.drifted, max_count=8)
        self.assertFalse(self.audited.has_more)

    def test_pages(self):
        for size in (1, 2, 3):
            with mock.patch.object(audit, 'PAGE_SIZE', size):
                self.assert_found(self.drifted)
                self.assert_found(self.drifted[:4], max_count=5)

    def test_server_in_several_groups_at_the_end_of_a_page(self):
        row = cloud.healthy()
        row['groups'] = [builders.GROUP, uuidutils.generate_uuid()]
        uuid = self.cell.add(row)
        for size in (2, 3, 4, 5):
            with mock.patch.object(audit, 'PAGE_SIZE', size):
                findings = [finding.difference.current_value
                            for finding in self.audit()
                            if finding.instance_uuid == uuid]
                self.assertEqual([','.join(row['groups'])], findings, size)

    def test_hidden_copy_in_the_source_cell(self):
        """A cross-cell resize leaves one until it is confirmed."""
        row = cloud.healthy(hidden=True)
        uuid = row['instance']['uuid']
        self.cell.add(row)
        row['instance']['hidden'] = False
        for name in ('InstanceMapping', 'RequestSpec'):
            table = getattr(api_models, name).__table__
            with api_rows.api_db.get_engine().begin() as connection:
                connection.execute(table.delete().where(
                    table.c.instance_uuid == uuid))
        row['instance_extra']['flavor'] = cloud.reported_case()[
            'instance_extra']['flavor']
        row['request_spec'] = cloud.healthy()['request_spec']
        self.cell.add(row, self.cell.other)
        self.assertEqual(['stashed-flavor'], self.found()[uuid])


class UnreadableTest(cloud.CloudTestCase):

    def setUp(self):
        super().setUp()
        self.cell.add(cloud.healthy(), self.cell.mapping)
        self.cell.add(cloud.reported_case(), self.cell.other)

    def test_cell_whose_database_is_not_there(self):
        self.cell.add_mapping('gone', test_instances.URL.replace(
            'mysql+pymysql', 'nosuchdialect'))
        self.assertIn(builders.UUID, self.found())
        self.assertEqual(
            ['gone could not be read: NoSuchModuleError'],
            self.audited.unreadable)

    def test_cell_that_breaks_off(self):
        for method in ('migrations_before', 'instances', 'migrations'):
            with self.failing(method):
                self.assertNotIn(
                    'flavor-other', self.found().get(builders.UUID, ()))
            self.assertIn('cell2 could not be read: DBConnectionError',
                          self.audited.unreadable, method)
            self.assertNotIn(test_instances.PASSWORD,
                             str(self.audited.unreadable))

    def failing(self, method):
        """One query of each cell fails, after others have not."""
        original = getattr(cell_rows.Cell, method)

        def fail(cell, *args):
            with mock.patch.object(
                    main_db, 'get_engine',
                    side_effect=db_exception.DBConnectionError(
                        test_instances.URL)):
                return original(cell, *args)
        return mock.patch.object(cell_rows.Cell, method, fail)

    def test_api_database(self):
        for owner, method in (
                (objects.CellMappingList, 'get_all'),
                (api_db, 'get_engine')):
            with mock.patch.object(
                    owner, method,
                    side_effect=db_exception.DBConnectionError(
                        test_instances.URL)):
                self.assertEqual({}, self.found())
            self.assertEqual(
                ['API database could not be read: DBConnectionError'],
                self.audited.unreadable)

    def test_faults_of_code_are_not_taken_for_it(self):
        with mock.patch.object(
                api_rows, 'execute', side_effect=AttributeError()):
            self.assertRaises(AttributeError, self.audit)


class ClassesTest(cloud.CloudTestCase):

    def test_all_have_a_severity(self):
        for name in classes.NAMES:
            for drift_class in classes.CLASSES[name]:
                self.assertIn(drift_class.severity,
                              ('critical', 'warning', 'info'))
