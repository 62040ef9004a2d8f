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
import nova.conf
from nova import context as nova_context
from nova.db.api import api as api_db
from nova.db.main import api as main_db
from nova import exception as nova_exception
from nova import objects
from nova.tests import fixtures as nova_fixtures
from oslo_db import exception as db_exception
from oslo_messaging import conffixture as messaging_conffixture
from oslo_serialization import jsonutils
from oslo_utils import uuidutils
import sqlalchemy
from sqlalchemy import event

from nova_specguard import exception
from nova_specguard import guard
from nova_specguard import instances
from nova_specguard.operation import Operation
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
        self.useFixture(nova_fixtures.Database(database='api'))
        self.useFixture(nova_fixtures.Database(database='main'))
        url = 'sqlite:///%s' % os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'cell1.sqlite')
        self.useFixture(nova_fixtures.Database(
            database='main', connection=url))
        self.context = nova_context.get_admin_context()
        self.mapping = self.add_mapping('cell1', url)

    def add_mapping(self, name, url):
        # nova remembers cells by uuid for as long as the process lives.
        mapping = objects.CellMapping(
            self.context, uuid=uuidutils.generate_uuid(), name=name,
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

    def change_row(self, **values):
        """As no object of this nova could."""
        with nova_context.target_cell(self.context, self.mapping) as cell:
            main_db.instance_extra_update_by_uuid(
                cell, builders.UUID, values)

    def destroy(self):
        with nova_context.target_cell(self.context, self.mapping) as cell:
            main_db.instance_destroy(cell, builders.UUID)


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

    def setUp(self):
        super().setUp()
        self.conf.config(connection='sqlite://', group='api_database')
        self.conf.config(connection='sqlite://', group='database',
                         sqlite_synchronous=False)
        # CellMapping wants [DEFAULT] transport_url to exist.
        self.useFixture(messaging_conffixture.ConfFixture(nova.conf.CONF))
        self.cell = self.useFixture(Cell())

    def boot(self, **values):
        self.cell.boot(**values)
        self.cell.map(self.cell.mapping)

    def read(self, needs_image_meta=False, context=None, timeout=TIMEOUT):
        return instances.read(
            context or self.context, builders.UUID, timeout,
            lambda current: {'image_meta'} if needs_image_meta else set())

    def assert_read_raises(self, expected, **kwargs):
        error = self.assertRaises(expected, self.read, **kwargs)
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
        image_meta = self.read(needs_image_meta=True).image_meta
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


class SelectsTest(InstancesTestCase):

    def setUp(self):
        super().setUp()
        self.boot(flavor=builders.gpu_flavor())

    def selects_of(self, needs_image_meta):
        selects = self.useFixture(Selects())
        self.read(needs_image_meta)
        return selects

    def test_one_of_each_database(self):
        self.assertEqual((1, 1), self.selects_of(False).count)

    def test_one_more_of_the_cell_for_the_image(self):
        self.assertEqual((1, 2), self.selects_of(True).count)

    def test_no_migration_record_is_read(self):
        statements = self.selects_of(True).statements
        self.assertFalse([statement for _engine, statement in statements
                          if re.search(r'\bFROM migrations\b', statement)])

    def examine(self, spec):
        selects = self.useFixture(Selects())
        finding = guard.examine(
            self.context, spec, lambda current: {Operation.LIVE_MIGRATION},
            self.options(lookup_timeout=TIMEOUT))
        return finding, selects.count

    def test_whole_check_without_numa(self):
        finding, count = self.examine(builders.spec(
            flavor=builders.gpu_flavor(),
            pci_requests=builders.pci_requests(builders.pci_request())))
        self.assertIsNone(finding.unverifiable)
        self.assertEqual((2, 2), count)

    def test_whole_check_with_drift(self):
        finding, count = self.examine(
            builders.spec(flavor=builders.e2_medium()))
        self.assertIsNone(finding.unverifiable)
        self.assertEqual((2, 2), count)

    def test_whole_check_with_numa(self):
        flavor = builders.flavor(extra_specs={'hw:numa_nodes': '2'})
        finding, count = self.examine(builders.spec(
            numa_topology=builders.constraints(flavor)))
        # The server's image asks for it, its flavor does not.
        self.assertNotIn('numa_topology',
                         {d.field for d in finding.differences})
        self.assertEqual((2, 2), count)


class CellConductorTest(InstancesTestCase):
    """Without API database its own database is the cell."""

    def setUp(self):
        super().setUp()
        self.conf.config(connection=None, group='api_database')

    def test_server_in_its_own_database(self):
        self.cell.boot(context=self.cell.context, host='own')
        selects = self.useFixture(Selects())
        current = self.read(needs_image_meta=True)
        self.assertEqual('a2.medium', current.flavor.name)
        self.assertIsNone(current.cell)
        self.assertEqual((0, 2), selects.count)

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
                                needs_image_meta=True)

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

    def assert_timed_out(self, **kwargs):
        error = self.assert_read_raises(
            exception.LookupTimedOut, timeout=0.05, **kwargs)
        self.assertIn('0.05 s', error.format_message())

    def test_api_database(self):
        self.hold(objects.InstanceMapping, 'get_by_instance_uuid')
        self.assert_timed_out()

    def test_cell_database(self):
        self.hold(objects.Instance, 'get_by_uuid')
        self.assert_timed_out()

    def test_second_read_of_the_cell(self):
        self.hold(main_db, 'instance_system_metadata_get')
        self.assert_timed_out(needs_image_meta=True)

    def test_late_answers_keep_nobody_waiting(self):
        # nova's own pool has five threads, which also gather host states.
        self.hold(objects.InstanceMapping, 'get_by_instance_uuid')
        for _time in range(8):
            self.assert_timed_out()
        self.answer.set()
        self.assertEqual('cell1', self.read().cell)

    def test_it_is_unverifiable(self):
        self.hold(objects.InstanceMapping, 'get_by_instance_uuid')
        finding = guard.examine(
            self.context, builders.spec(),
            lambda current: {Operation.LIVE_MIGRATION},
            self.options(lookup_timeout=0.05))
        self.assertIsNotNone(finding.unverifiable)
