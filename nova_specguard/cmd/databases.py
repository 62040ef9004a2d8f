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

"""Configuring nova's databases for a command."""

import nova.conf
from nova.db.api import api as api_db
from nova.db.main import api as main_db

CONF = nova.conf.CONF


def configure():
    """Configure them as nova does, but for patience.

    A service waits until its database is there. To a command, and to who
    waits for it, a database that is not there is to be said now.
    """
    for group, database in (('database', main_db), ('api_database', api_db)):
        CONF.set_override('max_retries', 0, group)
        database.configure(CONF)
