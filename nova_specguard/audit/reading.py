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

"""Turns whatever a read raises into one exception without secrets.

A database that accepts connections and does not answer is as unreadable as one
that refuses them.
"""

import contextlib
import functools

from nova import context as nova_context

from nova_specguard import exception
from nova_specguard import instances

# Seconds for one answer: what nova itself gives a cell. Drivers have options
# for it, each one others, and the URLs of cells are not ours to change.
TIMEOUT = nova_context.CELL_TIMEOUT


def answer(database, function, *args):
    """Read or write a database, as long as it answers.

    :param database: what to call it
    :param function: callable that is given the rest
    :returns: what it returned
    :raises DatabaseUnreadable: as :func:`of`, and if there was no answer
        within TIMEOUT; it can still come then, and a write be carried out
    """
    with of(database):
        return instances.within(TIMEOUT, functools.partial(function, *args))


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
    except exception.LookupTimedOut as exc:
        raise exception.DatabaseUnreadable(
            database=database,
            cause='no answer in %s s' % exc.kwargs['timeout']) from None
    except Exception as exc:
        # Not chained: the cause's message can carry a connection URL.
        raise exception.DatabaseUnreadable(
            database=database, cause=type(exc).__name__) from None
