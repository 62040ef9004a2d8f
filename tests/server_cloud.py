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

"""Servers as raw rows, on database servers of the tests' own."""

import uuid

from nova.db.api import api as api_db
from nova.db.main import api as main_db
from oslo_db.sqlalchemy import test_fixtures

from tests import databases
from tests.unit import cloud


class Cloud(cloud.Cloud):
    """Servers as raw rows, in the databases of a server."""

    server_class = None

    def use_databases(self):
        self.server = self.server_class.get()
        self.addCleanup(self.server.empty)
        for manager, ours in ((api_db.context_manager, self.server.api),
                              (main_db.context_manager, self.server.default)):
            self.useFixture(
                test_fixtures.ReplaceEngineFacadeFixture(manager, ours))

    def add_cell(self, name):
        # Always the same uuid: nova then keeps one engine for all tests.
        url = self.server.url('nova_' + name)
        return self.add_mapping(
            name, url, str(uuid.uuid5(uuid.NAMESPACE_URL, url)))


class OnMariaDB:

    class cell_fixture(Cloud):
        server_class = databases.MariaDB


class OnPostgreSQL:

    class cell_fixture(Cloud):
        server_class = databases.PostgreSQL
