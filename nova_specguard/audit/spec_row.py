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
"""Reading one request spec, and writing it if it still is what was read."""

from nova.db.api import api as api_db
from nova.db.api import models
import sqlalchemy as sa

_SPECS = models.RequestSpec.__table__


@api_db.context_manager.reader
def read(context, instance_uuid):
    """Read a request spec as it is stored.

    :param context: RequestContext
    :param instance_uuid: UUID of the server
    :returns: text, or None if there is none
    :raises DBError: of oslo.db
    """
    return context.session.execute(
        sa.select(_SPECS.c.spec)
        .where(_SPECS.c.instance_uuid == instance_uuid)).scalar()


@api_db.context_manager.writer
def replace(context, instance_uuid, old, new):
    """Compare and swap.

    The row is locked and compared here: to MariaDB, texts that differ in case
    or in trailing spaces can be equal.

    :param context: RequestContext
    :param instance_uuid: UUID of the server
    :param old: text that is expected
    :param new: text that takes its place
    :returns: whether it did; if not, the row is gone or is another
    :raises DBError: of oslo.db, if another transaction was faster or the
        database fails
    """
    is_it = _SPECS.c.instance_uuid == instance_uuid
    row = context.session.execute(
        sa.select(_SPECS.c.spec).where(is_it).with_for_update()).first()
    if row is None or row[0] != old:
        return False
    # Once more for SQLite, which has no locks on rows.
    return context.session.execute(
        sa.update(_SPECS).where(is_it, _SPECS.c.spec == old)
        .values(spec=new)).rowcount == 1
