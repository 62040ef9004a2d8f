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

import os
import re
import threading
import traceback
from unittest import mock

import fixtures
from nova.compute import utils as compute_utils
import nova.conf
from nova import context as nova_context
from nova.db.api import api as api_db
from nova.db.api import models
from nova.db.main import api as main_db
from nova import exception as nova_exception
from nova import objects
from nova.scheduler import utils as scheduler_utils
from nova.tests import fixtures as nova_fixtures
from oslo_db import exception as db_exception
from oslo_messaging import conffixture as messaging_conffixture
from oslo_serialization import jsonutils
from oslo_utils import timeutils
from oslo_utils import uuidutils
import sqlalchemy
from sqlalchemy import event

from nova_specguard import exception
from nova_specguard.fields import instance_group
from nova_specguard import guard
from nova_specguard import instances
from nova_specguard.operation import Operation
from nova_specguard import surroundings
from tests.unit import base
from tests.unit import builders

PASSWORD = 's3cr3t'
URL = 'mysql+pymysql://nova:%s@db.example.org/nova_cell1' % PASSWORD
# More than any of these reads takes, and a limit if one should hang.
TIMEOUT = 60


class Cell(fixtures.Fixture):
    """API database, a cell, and a default database that is neither.

    nova's CellDatabases hands out the cell that was targeted last, also to
    code that forgets to target one. Here such code finds an empty database,
    as in a nova-scheduler.
    """

    def _setUp(self):
        self.use_databases()
        self.context = nova_context.get_admin_context()
        self.mapping = self.add_cell('cell1')

    def use_databases(self):
        """The API database, and the default one."""
        self.useFixture(nova_fixtures.Database(database='api'))
        self.useFixture(nova_fixtures.Database(database='main'))

    def add_cell(self, name):
        """A cell with a database of its own.

        :returns: nova.objects.CellMapping
        """
        url = 'sqlite:///%s' % os.path.join(
            self.useFixture(fixtures.TempDir()).path, name + '.sqlite')
        self.useFixture(nova_fixtures.Database(
            database='main', connection=url))
        return self.add_mapping(name, url)

    def add_mapping(self, name, url, uuid=None):
        # nova remembers cells by uuid for as long as the process lives.
        mapping = objects.CellMapping(
            self.context, uuid=uuid or uuidutils.generate_uuid(), name=name,
            transport_url='none:///', database_connection=url)
        mapping.create()
        return mapping

    def map(self, cell, instance_uuid=builders.UUID):
        objects.InstanceMapping(
            self.context, instance_uuid=instance_uuid, cell_mapping=cell,
            project_id=builders.PROJECT).create()

    def boot(self, context=None, **values):
        """A server's row, in the cell unless another context is given."""
        values = {
            'uuid': builders.UUID, 'project_id': builders.PROJECT,
            'user_id': 'a-user', 'host': 'amd1',
            'task_state': 'migrating', 'image_ref': builders.OTHER_UUID,
            'flavor': builders.flavor(), 'system_metadata': {
                'image_hw_numa_nodes': '2', 'image_min_ram': '128'},
            'pci_requests': builders.pci_requests(builders.pci_request()),
            **values}
        with nova_context.target_cell(
                self.context, None if context else self.mapping) as cell:
            instance = objects.Instance(context or cell, **values)
            instance.create()
            return instance

    def add_root_device(self, destination_type):
        with nova_context.target_cell(self.context, self.mapping) as cell:
            objects.BlockDeviceMapping(
                cell, instance_uuid=builders.UUID, boot_index=0,
                source_type='image', device_type='disk',
                destination_type=destination_type).create()

    def add_action(self, action, event, result, request_id='req-1'):
        with nova_context.target_cell(self.context, self.mapping) as cell:
            cell.request_id = request_id
            objects.InstanceAction.action_start(cell, builders.UUID, action)
            if event:
                objects.InstanceActionEvent.event_start(
                    cell, builders.UUID, event)
                if result:
                    main_db.action_event_finish(cell, {
                        'instance_uuid': builders.UUID, 'event': event,
                        'request_id': request_id, 'result': result,
                        'finish_time': timeutils.utcnow()})

    def add_to_group(self, uuid, instance_uuid=builders.UUID):
        """As no API of nova does after the boot."""
        save(self.context, models.InstanceGroup(
            uuid=uuid, name='a-group', user_id=builders.USER,
            project_id=builders.PROJECT,
            _policies=[models.InstanceGroupPolicy(policy='anti-affinity')],
            _members=[models.InstanceGroupMember(
                instance_uuid=instance_uuid)]))

    def add_aggregate(self, name, *hosts, **metadata):
        aggregate = models.Aggregate(
            uuid=uuidutils.generate_uuid(), name=name)
        save(self.context, aggregate)
        for host in hosts:
            save(self.context, models.AggregateHost(
                host=host, aggregate_id=aggregate.id))
        for key, value in metadata.items():
            save(self.context, models.AggregateMetadata(
                key=key, value=value, aggregate_id=aggregate.id))

    def change_row(self, **values):
        """As no object of this nova could."""
        with nova_context.target_cell(self.context, self.mapping) as cell:
            main_db.instance_extra_update_by_uuid(
                cell, builders.UUID, values)

    def destroy(self):
        with nova_context.target_cell(self.context, self.mapping) as cell:
            main_db.instance_destroy(cell, builders.UUID)


@api_db.context_manager.writer
def save(context, row):
    context.session.add(row)
    context.session.flush()


@api_db.context_manager.writer
def delete_groups(context):
    for model in (models.InstanceGroupMember, models.InstanceGroupPolicy,
                  models.InstanceGroup):
        context.session.query(model).delete()


class Selects(fixtures.Fixture):
    """The SELECTs of this process, by database."""

    def _setUp(self):
        self.statements = []
        arguments = (sqlalchemy.engine.Engine, 'before_cursor_execute',
                     self._collect)
        event.listen(*arguments)
        self.addCleanup(event.remove, *arguments)

    def _collect(self, connection, _cursor, statement, *_rest):
        if statement.startswith('SELECT') and 'FROM' in statement:
            self.statements.append((connection.engine, statement))

    @property
    def count(self):
        """(of the API database, of the others)"""
        api_pool = api_db.get_engine().pool
        api = [statement for engine, statement in self.statements
               if engine.pool is api_pool]
        return len(api), len(self.statements) - len(api)


class InstancesTestCase(base.TestCase):

    cell_fixture = Cell

    def setUp(self):
        super().setUp()
        self.conf.config(connection='sqlite://', group='api_database')
        self.conf.config(connection='sqlite://', group='database',
                         sqlite_synchronous=False)
        # CellMapping wants [DEFAULT] transport_url to exist.
        self.useFixture(messaging_conffixture.ConfFixture(nova.conf.CONF))
        self.cell = self.useFixture(self.cell_fixture())

    def boot(self, **values):
        self.cell.boot(**values)
        self.cell.map(self.cell.mapping)

    def read(self, *needs, context=None, timeout=TIMEOUT, zone=None):
        return instances.read(
            context or self.context, builders.UUID, timeout,
            lambda current: set(needs), zone)

    def examine(self, spec, timeout=TIMEOUT, **options):
        """A whole check.

        :returns: (Finding, number of SELECTs)
        """
        selects = self.useFixture(Selects())
        finding = guard.examine(
            self.context, spec, lambda current: {Operation.LIVE_MIGRATION},
            self.options(lookup_timeout=timeout, **options))
        return finding, selects.count

    def assert_read_raises(self, expected, *needs, **kwargs):
        error = self.assertRaises(expected, self.read, *needs, **kwargs)
        self.assert_no_password(error)
        return error

    def assert_no_password(self, error):
        for text in (str(error), repr(error), error.format_message(),
                     repr(error.args), repr(error.kwargs)):
            self.assertNotIn(PASSWORD, text)


class ReadTest(InstancesTestCase):

    def test_server_as_the_cell_has_it(self):
        self.boot()
        current = self.read()
        self.assertEqual(builders.UUID, current.uuid)
        self.assertEqual(builders.PROJECT, current.project_id)
        self.assertEqual('cell1', current.cell)
        self.assertEqual('migrating', current.task_state)
        self.assertEqual('a2.medium', current.flavor.name)
        self.assertEqual(builders.CPU_SHARES, current.flavor.extra_specs)
        self.assertIsNone(current.numa_topology)
        self.assertEqual(
            ['gpu'],
            [r.alias_name for r in current.pci_requests.requests])
        self.assertIsNone(current.image_meta)

    def test_image_is_read_where_it_is_needed(self):
        self.boot()
        image_meta = self.read('image_meta').image_meta
        self.assertEqual(2, image_meta.properties.hw_numa_nodes)
        self.assertEqual(builders.OTHER_UUID, image_meta.id)

    def test_whether_it_is_needed_is_asked_with_the_server(self):
        self.boot()
        needs = mock.Mock(return_value=frozenset())
        current = instances.read(
            self.context, builders.UUID, TIMEOUT, needs)
        needs.assert_called_once_with(current)

    def test_fitted_topology(self):
        flavor = builders.flavor(extra_specs={'hw:numa_nodes': '2'})
        self.boot(flavor=flavor, numa_topology=builders.fitted(
            builders.constraints(flavor)))
        self.assertEqual(2, len(self.read().numa_topology.cells))

    def test_server_without_pci_requests(self):
        self.boot()
        self.cell.change_row(pci_requests=None)
        self.assertEqual([], self.read().pci_requests.requests)

    def test_flavor_is_the_current_one_not_a_stashed_one(self):
        self.boot(old_flavor=builders.e2_medium(),
                  new_flavor=builders.e2_medium())
        self.assertEqual('a2.medium', self.read().flavor.name)

    def test_row_of_the_reported_case(self):
        self.boot()
        self.cell.change_row(flavor=jsonutils.dumps(
            builders.load('instance_extra_flavor.json')))
        current = self.read()
        self.assertEqual(982, current.flavor.id)
        self.assertEqual('disabled',
                         current.flavor.extra_specs['os:secure_boot'])

    def test_cell_without_name_is_called_by_its_uuid(self):
        mapping = self.cell.add_mapping(
            None, self.cell.mapping.database_connection)
        self.cell.boot()
        self.cell.map(mapping)
        self.assertEqual(mapping.uuid, self.read().cell)

    def test_server_of_another_project(self):
        # A domain manager, or an administrator without the flag.
        self.boot()
        context = nova_context.RequestContext(
            'other-user', 'other-project', is_admin=False)
        self.assertEqual(builders.PROJECT,
                         self.read(context=context).project_id)

    def test_context_of_the_request_is_not_changed(self):
        self.boot()
        before = self.context.to_dict()
        self.read()
        self.assertEqual(before, self.context.to_dict())
        self.assertIsNone(self.context.db_connection)
        self.assertFalse(self.context.is_admin)

    def test_context_that_is_targeted_already(self):
        self.boot()
        with nova_context.target_cell(
                self.context, self.cell.mapping) as targeted:
            connection = targeted.db_connection
            self.assertEqual('cell1', self.read(context=targeted).cell)
            self.assertIs(connection, targeted.db_connection)

    def test_context_that_is_targeted_at_another_cell(self):
        # A cross-cell resize is conducted from the cell that is left.
        self.boot()
        other = self.cell.add_mapping('cell2', 'sqlite://')
        with nova_context.target_cell(self.context, other) as targeted:
            self.assertEqual('cell1', self.read(context=targeted).cell)

    def test_reads_go_on_with_the_request_id(self):
        self.boot()
        seen = []

        def get_by_uuid(context, *args, **kwargs):
            seen.append(context.request_id)
            raise nova_exception.InstanceNotFound(instance_id=builders.UUID)

        with mock.patch.object(objects.Instance, 'get_by_uuid', get_by_uuid):
            self.assertRaises(exception.InstanceGone, self.read)
        self.assertEqual([self.context.request_id], seen)


class NeedsTest(InstancesTestCase):
    """What fields need is read where they need it."""

    def setUp(self):
        super().setUp()
        self.boot(system_metadata={
            'image_os_distro': 'debian',
            'image_base_image_ref': builders.UUID})

    def test_nothing_else_is_read(self):
        current = self.read()
        for name in ('image_meta', 'base_image_ref', 'is_volume_backed',
                     'is_rebuilt', 'surroundings', 'server_group'):
            self.assertIsNone(getattr(current, name), name)

    def test_what_the_row_of_the_server_has(self):
        current = self.read()
        self.assertEqual('a-user', current.user_id)
        self.assertEqual('amd1', current.host)
        self.assertEqual(builders.OTHER_UUID, current.image_ref)

    def test_image(self):
        current = self.read('image_meta')
        self.assertEqual('debian', current.image_meta.properties.os_distro)
        self.assertEqual(builders.OTHER_UUID, current.image_meta.id)
        self.assertEqual(builders.UUID, current.base_image_ref)

    def test_block_devices(self):
        for destination, expected in (('volume', True), ('local', False)):
            self.cell.add_root_device(destination)
            self.assertIs(expected,
                          self.read('is_volume_backed').is_volume_backed)
            with nova_context.target_cell(
                    self.cell.context, self.cell.mapping) as cell:
                for device in (
                        objects.BlockDeviceMappingList.get_by_instance_uuid(
                            cell, builders.UUID)):
                    device.destroy()

    def test_server_without_block_devices(self):
        # Then nova goes by the image.
        self.assertIs(False, self.read('is_volume_backed').is_volume_backed)

    def is_rebuilt(self):
        return self.read('is_rebuilt').is_rebuilt

    def test_no_rebuild(self):
        self.assertIsNone(self.is_rebuilt())
        self.cell.add_action('evacuate', 'compute_rebuild_instance', 'Success')
        self.assertIsNone(self.is_rebuilt())

    def test_rebuild(self):
        for number, (name, result, expected) in enumerate((
                ('compute_rebuild_instance', 'Success', True),
                ('compute_rebuild_instance', 'Error', False),
                ('compute_rebuild_instance', None, False),
                ('conductor_rebuild_instance', 'Success', False),
                (None, None, False))):
            self.cell.add_action(
                'rebuild', name, result, request_id='req-%d' % number)
            self.cell.add_action(
                'reboot', 'compute_reboot_instance', 'Success',
                request_id='req-reboot-%d' % number)
            self.assertIs(expected, self.is_rebuilt(), name)

    def test_rebuild_of_the_request_itself(self):
        self.cell.add_action('rebuild', 'compute_rebuild_instance', 'Success')
        self.cell.add_action('rebuild', 'conductor_rebuild_server', None,
                             request_id=self.context.request_id)
        self.assertIs(True, self.is_rebuilt())

    def test_surroundings(self):
        self.cell.add_to_group(builders.GROUP)
        self.cell.add_aggregate('a', 'amd1', availability_zone='az1')
        surroundings = self.read('surroundings', zone='az1').surroundings
        self.assertEqual(
            builders.surroundings(builders.GROUP, zone='az1',
                                  is_pin_known=True), surroundings)

    def read_group(self):
        """Needs of the second round are those of the server read so far."""
        return instances.read(
            self.context, builders.UUID, TIMEOUT,
            lambda current: {'server_group'} if current.surroundings
            else {'surroundings'})

    def test_group(self):
        self.cell.add_to_group(builders.GROUP)
        group = self.read_group().server_group
        self.assertEqual(builders.GROUP, group.uuid)
        self.assertEqual('anti-affinity', group.policy)
        self.assertEqual([builders.UUID], group.members)
        # nova collects them itself where they are unset.
        self.assertNotIn('hosts', group)

    def test_nova_goes_on_with_the_group_that_is_put_in(self):
        self.cell.add_to_group(builders.GROUP)
        spec = builders.spec(instance_group=None)
        self.assertRaises(
            AttributeError, scheduler_utils.setup_instance_group,
            self.cell.context, spec)
        instance_group.apply(spec, self.read_group(), self.options())
        scheduler_utils.setup_instance_group(self.cell.context, spec)
        self.assertEqual([builders.UUID], spec.instance_group.members)
        with nova_context.target_cell(
                self.cell.context, self.cell.mapping) as cell:
            spec = builders.spec(instance_group=None)
            instance_group.apply(spec, self.read_group(), self.options())
            scheduler_utils.setup_instance_group(cell, spec)
            self.assertEqual(['amd1'], spec.instance_group.hosts)

    def test_none_of_several_groups_is_chosen(self):
        self.cell.add_to_group(builders.GROUP)
        self.cell.add_to_group(builders.OTHER_UUID)
        current = self.read_group()
        self.assertIsNone(current.server_group)
        self.assertEqual(2, len(current.surroundings.groups))

    def test_group_that_vanished_in_between(self):
        self.cell.add_to_group(builders.GROUP)

        def needs(current):
            if current.surroundings is None:
                return {'surroundings'}
            delete_groups(self.cell.context)
            return {'server_group'}

        current = instances.read(
            self.context, builders.UUID, TIMEOUT, needs)
        self.assertIsNone(current.server_group)
        self.assertEqual((), current.surroundings.groups)

    def test_all_needs_are_read_once(self):
        self.cell.add_to_group(builders.GROUP)
        asked = []

        def needs(current):
            asked.append(current)
            found = {'image_meta', 'is_volume_backed', 'surroundings'}
            return found | {'server_group'} if len(asked) > 1 else found

        selects = self.useFixture(Selects())
        instances.read(self.context, builders.UUID, TIMEOUT, needs)
        self.assertEqual(3, len(asked))
        statements = [statement for _engine, statement in selects.statements]
        self.assertEqual(len(set(statements)), len(statements))


class SelectsTest(InstancesTestCase):

    OFF = {'field_modes': dict.fromkeys(
        ('image', 'instance_group', 'availability_zone', 'is_bfv'), 'off')}

    def setUp(self):
        super().setUp()
        self.boot(flavor=builders.gpu_flavor())
        self.spec = builders.spec(
            flavor=builders.gpu_flavor(), user_id='a-user',
            image=builders.image_meta(hw_numa_nodes=2),
            numa_topology=builders.constraints(builders.flavor(
                extra_specs={'hw:numa_nodes': '2'})),
            pci_requests=builders.pci_requests(builders.pci_request()))

    def selects_of(self, *needs):
        selects = self.useFixture(Selects())
        self.read(*needs)
        return selects

    def test_one_of_each_database(self):
        self.assertEqual((1, 1), self.selects_of().count)

    def test_one_more_for_each_need(self):
        for need, count in (('image_meta', (1, 2)),
                            ('is_volume_backed', (1, 2)),
                            ('is_rebuilt', (1, 2)),
                            ('surroundings', (2, 1))):
            self.assertEqual(count, self.selects_of(need).count, need)

    def test_no_migration_record_is_read(self):
        statements = self.selects_of('image_meta').statements
        self.assertFalse([statement for _engine, statement in statements
                          if re.search(r'\bFROM migrations\b', statement)])

    def test_whole_check(self):
        finding, count = self.examine(self.spec)
        self.assertEqual((None, ()),
                         (finding.unverifiable, finding.differences))
        self.assertEqual((2, 2), count)

    def test_whole_check_with_drift(self):
        finding, count = self.examine(
            builders.spec(flavor=builders.e2_medium(), user_id='x',
                          image=builders.image_meta(builders.UUID)))
        self.assertIsNone(finding.unverifiable)
        # block devices and instance actions, for the id of the image
        self.assertEqual((2, 4), count)

    def test_zone_costs_nothing_more(self):
        self.spec.availability_zone = 'az1'
        finding, count = self.examine(self.spec)
        self.assertEqual(['availability_zone'],
                         [d.field for d in finding.differences])
        self.assertEqual((2, 2), count)

    def test_everything_switched_off(self):
        self.spec.image = builders.image_meta()
        self.spec.numa_topology = None
        self.assertEqual((1, 1), self.examine(self.spec, **self.OFF)[1])

    def test_numa_alone_needs_the_image(self):
        finding, count = self.examine(self.spec, **self.OFF)
        self.assertEqual((), finding.differences)
        self.assertEqual((1, 2), count)

    def test_surroundings_alone(self):
        self.spec.image = builders.image_meta()
        self.spec.numa_topology = None
        for name in ('instance_group', 'availability_zone'):
            self.spec.availability_zone = 'az1'
            modes = dict(self.OFF['field_modes'], **{name: 'warn'})
            self.assertEqual((2, 1), self.examine(
                self.spec, field_modes=modes)[1], name)

    def test_block_devices_where_the_flag_does_not_fit(self):
        self.spec.is_bfv = True
        finding, count = self.examine(self.spec)
        self.assertEqual(['is_bfv'], [d.field for d in finding.differences])
        self.assertEqual((2, 3), count)

    def test_block_devices_where_the_flag_is_missing(self):
        delattr(self.spec, objects.base.get_attrname('is_bfv'))
        finding, count = self.examine(self.spec)
        self.assertEqual(['is_bfv'], [d.field for d in finding.differences])
        self.assertEqual((2, 3), count)

    def test_group_that_is_missing(self):
        self.cell.add_to_group(builders.GROUP)
        finding, (api, cell) = self.examine(self.spec)
        (difference,) = finding.differences
        self.assertEqual('server-group-missing', difference.drift_class.name)
        self.assertTrue(difference.is_correctable)
        # nova's object reads the group, its policy and its members.
        self.assertLessEqual(api, 5)
        self.assertEqual(2, cell)


class CellConductorTest(InstancesTestCase):
    """Without API database its own database is the cell."""

    def setUp(self):
        super().setUp()
        self.conf.config(connection=None, group='api_database')

    def test_server_in_its_own_database(self):
        self.cell.boot(context=self.cell.context, host='own')
        selects = self.useFixture(Selects())
        current = self.read('image_meta')
        self.assertEqual('a2.medium', current.flavor.name)
        self.assertIsNone(current.cell)
        self.assertEqual((0, 2), selects.count)

    def test_surroundings_stay_unknown(self):
        self.cell.boot(context=self.cell.context)
        self.cell.map(self.cell.mapping)
        self.cell.add_to_group(builders.GROUP)
        current = self.read('surroundings', 'is_volume_backed')
        self.assertIsNone(current.surroundings)
        self.assertIs(False, current.is_volume_backed)

    def test_whole_check_is_made_without_them(self):
        self.cell.boot(context=self.cell.context)
        self.cell.add_to_group(builders.GROUP)
        finding, count = self.examine(builders.spec(
            availability_zone='az1', project_id='other',
            instance_group=builders.server_group(builders.OTHER_UUID)))
        self.assertIsNone(finding.unverifiable)
        self.assertIn('project', {d.field for d in finding.differences})
        self.assertFalse({'instance_group', 'availability_zone'} & {
            d.field for d in finding.differences})
        self.assertEqual((0, 2), count)

    def test_server_that_is_not_in_it(self):
        self.boot()
        self.assert_read_raises(exception.InstanceGone)


class GoneTest(InstancesTestCase):
    """nova says so itself a moment later."""

    def test_no_mapping(self):
        self.cell.boot()
        self.assert_read_raises(exception.InstanceGone)

    def test_mapping_to_no_cell(self):
        # while the server is being built
        self.cell.boot()
        self.cell.map(None)
        self.assert_read_raises(exception.InstanceGone)

    def test_between_mapping_and_server(self):
        self.boot()
        self.cell.destroy()
        self.assert_read_raises(exception.InstanceGone)

    def test_between_server_and_image(self):
        # What is left of an image without metadata would be compared as if
        # the server asked for nothing.
        self.boot()

        def needs(_current):
            self.cell.destroy()
            return {'image_meta'}

        self.assertRaises(
            exception.InstanceGone, instances.read, self.context,
            builders.UUID, TIMEOUT, needs)


class UnverifiableTest(InstancesTestCase):

    def failing(self, owner, name, error):
        patch = mock.patch.object(owner, name, side_effect=error)
        patch.start()
        self.addCleanup(patch.stop)

    def test_row_without_flavor(self):
        self.boot()
        for empty in (None, jsonutils.dumps(
                {'cur': None, 'old': None, 'new': None})):
            self.cell.change_row(flavor=empty)
            self.assert_read_raises(exception.Unverifiable)

    def test_row_that_is_not_json(self):
        self.boot()
        for column in ('flavor', 'pci_requests', 'numa_topology'):
            self.cell.change_row(**{column: '{'})
            self.assert_read_raises(exception.Unverifiable)

    def test_row_newer_than_this_nova(self):
        self.boot()
        flavor = builders.load('instance_extra_flavor.json')
        flavor['cur']['nova_object.version'] = '9.9'
        self.cell.change_row(flavor=jsonutils.dumps(flavor))
        error = self.assert_read_raises(exception.Unverifiable)
        self.assertIn('IncompatibleObjectVersion', error.format_message())

    def test_api_database_raises(self):
        self.boot()
        for error in (
                db_exception.DBConnectionError(Exception(URL)),
                db_exception.DBError(Exception(URL)),
                OSError(URL), RuntimeError(URL)):
            self.failing(objects.InstanceMapping, 'get_by_instance_uuid',
                         error)
            raised = self.assert_read_raises(exception.LookupFailed)
            self.assertIn(type(error).__name__, raised.format_message())

    def test_cell_database_raises(self):
        self.boot()
        self.failing(objects.Instance, 'get_by_uuid',
                     db_exception.DBConnectionError(Exception(URL)))
        self.assert_read_raises(exception.LookupFailed)

    def test_traceback_holds_no_password_either(self):
        # It prints all exceptions that led to this one.
        self.boot()
        self.failing(objects.Instance, 'get_by_uuid',
                     db_exception.DBConnectionError(Exception(URL)))
        error = self.assert_read_raises(exception.LookupFailed)
        self.assertNotIn(PASSWORD, ''.join(traceback.format_exception(
            type(error), error, error.__traceback__)))

    def test_second_read_of_the_cell_raises(self):
        self.boot()
        self.failing(main_db, 'instance_system_metadata_get',
                     db_exception.DBConnectionError(Exception(URL)))
        self.assert_read_raises(exception.LookupFailed,
                                'image_meta')

    def test_each_read_that_raises(self):
        self.boot()
        self.cell.add_to_group(builders.GROUP)
        for owner, name in (
                (main_db, 'instance_system_metadata_get'),
                (surroundings, 'read'),
                (objects.InstanceGroup, 'get_by_uuid'),
                (objects.InstanceActionList, 'get_by_instance_uuid'),
                (compute_utils, 'is_volume_backed_instance')):
            for error in (db_exception.DBConnectionError(Exception(URL)),
                          ValueError(URL)):
                with mock.patch.object(owner, name, side_effect=error):
                    finding, _count = self.examine(builders.spec(
                        image=builders.image_meta(builders.UUID),
                        is_bfv=True))
                self.assertEqual(
                    'reading the server raised ' + type(error).__name__,
                    finding.unverifiable)
                self.assertIsNone(finding.current)
                self.assertEqual('cell1', finding.cell)
                self.assertNotIn(PASSWORD, str(finding))

    def test_password_in_an_error_of_the_surroundings(self):
        self.boot()
        with mock.patch.object(
                sqlalchemy.orm.Session, 'execute',
                side_effect=db_exception.DBConnectionError(Exception(URL))):
            self.assert_read_raises(exception.LookupFailed, 'surroundings')

    def test_table_that_nova_has_moved_is_no_failed_read(self):
        self.boot()
        with mock.patch.object(surroundings, 'models', None):
            self.assertRaises(AttributeError, self.read, 'surroundings')

    def test_image_that_nova_itself_cannot_read(self):
        self.boot(system_metadata={'image_hw_numa_nodes': 'two'})
        self.assert_read_raises(exception.LookupFailed, 'image_meta')

    def test_connection_url_that_cannot_be_parsed(self):
        # SQLAlchemy quotes it, password and all.
        self.cell.map(self.cell.add_mapping(
            'broken', URL.replace('://', ':/')))
        self.assert_read_raises(exception.LookupFailed)

    def test_driver_that_is_not_installed(self):
        self.cell.map(self.cell.add_mapping(
            'broken', URL.replace('mysql+pymysql', 'nosuchdb')))
        self.assert_read_raises(exception.LookupFailed)

    def test_database_without_tables(self):
        self.cell.map(self.cell.add_mapping(
            'empty', 'sqlite:///%s' % os.path.join(
                self.useFixture(fixtures.TempDir()).path, 'empty.sqlite')))
        self.assert_read_raises(exception.LookupFailed)

    def test_timeout_of_the_database_itself(self):
        # TimeoutError, which is ours as well, from Python 3.11 on.
        self.boot()
        self.failing(objects.Instance, 'get_by_uuid', TimeoutError(URL))
        error = self.assert_read_raises(exception.Unverifiable)
        self.assertNotIsInstance(error, exception.LookupTimedOut)

    def test_fault_of_the_caller_s_question_is_no_failed_read(self):
        self.boot()
        self.assertRaises(
            ZeroDivisionError, instances.read, self.context,
            builders.UUID, TIMEOUT, mock.Mock(side_effect=ZeroDivisionError))

    def test_function_that_nova_has_moved_is_no_failed_read(self):
        self.boot()
        self.failing(objects.Instance, 'get_by_uuid', AttributeError)
        self.assertRaises(AttributeError, self.read)


class TimeoutTest(InstancesTestCase):
    """A paused database answers, but not in time."""

    def setUp(self):
        super().setUp()
        self.boot()
        self.answer = threading.Event()
        self.answered = threading.Event()
        self.addCleanup(self.answer.set)

    def hold(self, owner, name):
        original = getattr(owner, name)

        def held(*args, **kwargs):
            self.answer.wait(TIMEOUT)
            try:
                return original(*args, **kwargs)
            finally:
                self.answered.set()

        patch = mock.patch.object(owner, name, held)
        patch.start()
        self.addCleanup(patch.stop)
        # The late answer must find its database.
        self.addCleanup(self.answered.wait, TIMEOUT)
        self.addCleanup(self.answer.set)

    def assert_timed_out(self, *needs):
        error = self.assert_read_raises(
            exception.LookupTimedOut, *needs, timeout=0.05)
        self.assertIn('0.05 s', error.format_message())

    def test_api_database(self):
        self.hold(objects.InstanceMapping, 'get_by_instance_uuid')
        self.assert_timed_out()

    def test_cell_database(self):
        self.hold(objects.Instance, 'get_by_uuid')
        self.assert_timed_out()

    def test_second_read_of_the_cell(self):
        self.hold(main_db, 'instance_system_metadata_get')
        self.assert_timed_out('image_meta')

    def test_surroundings(self):
        self.hold(surroundings, 'read')
        self.assert_timed_out('surroundings')

    def test_late_answers_keep_nobody_waiting(self):
        # nova's own pool has five threads, which also gather host states.
        self.hold(objects.InstanceMapping, 'get_by_instance_uuid')
        for _time in range(8):
            self.assert_timed_out()
        self.answer.set()
        self.assertEqual('cell1', self.read().cell)

    def test_it_is_unverifiable(self):
        self.hold(objects.InstanceMapping, 'get_by_instance_uuid')
        finding, _count = self.examine(builders.spec(), timeout=0.05)
        self.assertIsNotNone(finding.unverifiable)
