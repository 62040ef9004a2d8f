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

"""nova's services in this process, on a MariaDB that logs what they write."""

import fixtures
from nova.db.api import api as api_db
from nova.tests import fixtures as nova_fixtures
from oslo_db.sqlalchemy import test_fixtures
import sqlalchemy as sa

from tests import databases

_LOG = """
CREATE TABLE IF NOT EXISTS specguard_test_log (
    id INT AUTO_INCREMENT PRIMARY KEY, instance_uuid CHAR(36),
    old MEDIUMTEXT CHARACTER SET utf8mb3 COLLATE utf8mb3_bin,
    new MEDIUMTEXT CHARACTER SET utf8mb3 COLLATE utf8mb3_bin)"""
_TRIGGER = """
CREATE TRIGGER specguard_test AFTER UPDATE ON request_specs FOR EACH ROW
INSERT INTO specguard_test_log (instance_uuid, old, new)
VALUES (NEW.instance_uuid, OLD.spec, NEW.spec)"""


class MariaDB(fixtures.Fixture):
    """Has nova's own fixtures use a MariaDB.

    To be used before they are set up.
    """

    def _setUp(self):
        self._server = databases.MariaDB.get()
        self.addCleanup(self._server.empty)
        self._log()
        managers = iter((self._server.default, self._server.cell1))
        for owner, name, value in (
                (nova_fixtures.Database, 'setUp', self._set_up_api),
                (nova_fixtures.CellDatabases, '_cache_schema',
                 lambda *args: None)):
            self.useFixture(fixtures.MockPatchObject(owner, name, value))
        # of cell0, then of cell1
        self.useFixture(fixtures.MonkeyPatch(
            'nova.db.main.api.create_context_manager',
            lambda **kwargs: next(managers)))

    @property
    def _set_up_api(self):
        replacement = test_fixtures.ReplaceEngineFacadeFixture(
            api_db.context_manager, self._server.api)

        def set_up(database):
            fixtures.Fixture.setUp(database)
            database.useFixture(replacement)
        return set_up

    def _log(self):
        with self._server.connection(databases.API) as connection:
            connection.execute(sa.text(_LOG))
            connection.execute(sa.text(_TRIGGER))
        self.addCleanup(self._execute, 'DROP TRIGGER specguard_test')

    def _execute(self, statement):
        with self._server.connection(databases.API) as connection:
            return connection.execute(sa.text(statement))

    def written(self):
        """What was written to request specs, by whomever, in order.

        :returns: list of (UUID of the server, text before, text after)
        """
        return [tuple(row) for row in self._execute(
            'SELECT instance_uuid, old, new FROM specguard_test_log '
            'ORDER BY id')]
