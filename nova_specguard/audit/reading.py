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

"""Turns whatever a read raises into one exception without secrets."""

import contextlib

from nova_specguard import exception


@contextlib.contextmanager
def of(database):
    """Read a database.

    :param database: what to call it
    :raises DatabaseUnreadable: if a read raised anything that databases, rows
        and connections can be the reason of
    """
    try:
        yield
    except (exception.DatabaseUnreadable, *exception.FAULTS_OF_CODE):
        raise
    except Exception as exc:
        # Not chained: the cause's message can carry a connection URL.
        raise exception.DatabaseUnreadable(
            database=database, cause=type(exc).__name__) from None
