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
"""Checks of the databases behind the configuration files."""

import nova.conf
from nova import context as nova_context
from nova.db.api import models
import sqlalchemy as sa

from nova_specguard.audit import api_rows
from nova_specguard.audit import cell_rows
from nova_specguard.audit import classes
from nova_specguard.audit import reading
from nova_specguard.audit import stored
from nova_specguard import exception
from nova_specguard import reader
from nova_specguard.upgrade_check.configuration import CONDUCTOR
from nova_specguard.upgrade_check.configuration import failure
from nova_specguard.upgrade_check.configuration import success
from nova_specguard.upgrade_check.configuration import warning

CONF = nova.conf.CONF
PAGE_SIZE = 500

_SPECS = models.RequestSpec.__table__


def check_databases(service):
    """Whether the API database and every cell can be reached from here.

    :param service: one of configuration.SERVICES, or None for all
    :returns: oslo_upgradecheck's Result
    """
    context = nova_context.get_admin_context()
    if CONF.api_database.connection is None:
        problem = _problem('[database]', context)
        if problem:
            return _unreachable([problem])
        if service == CONDUCTOR:
            return success('Reached: [database].')
        return warning(
            '[api_database] connection is not set here. Right for the files '
            'of a cell conductor (--service conductor), whose [database] was '
            'reached; else set it.')
    try:
        mappings = api_rows.cells(context)
    except exception.DatabaseUnreadable as exc:
        return _unreachable([exc.format_message()])
    if not mappings:
        return failure('The API database has no cells. Look at [api_database] '
                       'connection, and at nova-status.')
    # A name need not be unique.
    names = ['cell %s %s' % (mapping.name or '-', mapping.uuid)
             for mapping in mappings]
    problems = [problem for problem in (
        _problem(name, context, mapping)
        for name, mapping in zip(names, mappings)) if problem]
    return _unreachable(problems) if problems else success(
        'Reached: %s.' % ', '.join(names))


def _problem(name, context, mapping=None):
    """Why a cell cannot be read, or None."""
    try:
        with reading.of(name):
            if mapping is not None:
                # The message queue of the cell plays no part here.
                mapping.transport_url = 'none:///'
                with nova_context.target_cell(context, mapping) as targeted:
                    cell_rows.Cell(name, targeted).nodes()
            else:
                cell_rows.Cell(name, context).nodes()
    except exception.DatabaseUnreadable as exc:
        return exc.format_message()
    return None


def _unreachable(problems):
    return failure(
        '%s. Moves of servers there are refused or go unverified. Look at the '
        'database, at the network, and at the URL: [api_database] connection, '
        'or nova-manage cell_v2 list_cells.' % '; '.join(problems))


def check_versions(service):
    """Whether a newer nova wrote request specs, or nobody can read some.

    :returns: oslo_upgradecheck's Result
    """
    def of(text):
        _spec, faults = stored.parse_spec(text)
        return faults[0].drift_class if faults else None
    return _check_specs(service, (
        (classes.SPEC_NEWER, failure,
         'were written by a newer nova: this one cannot load them, and moves '
         'of these servers fail. Upgrade this service.'),
        (classes.SPEC_UNREADABLE, warning,
         'cannot be read by any nova: the API fails for these servers before '
         'the guard sees them. Restore the rows from a backup.')), of)


def check_is_bfv(service):
    """Whether request specs have no is_bfv.

    :returns: oslo_upgradecheck's Result
    """
    def of(text):
        spec, _faults = stored.parse_spec(text)
        return spec is not None and reader.get(spec, 'is_bfv') is None
    return _check_specs(service, ((
        True, warning,
        'have no is_bfv (last saved before nova 18): each move logs '
        'SPECGUARD-101 until nova saves the spec. nova-specguard heal --class '
        'is-bfv adds it.'),), of)


def _check_specs(service, kinds, kind_of):
    """Count request specs.

    :param kinds: tuple of (kind, function that makes the result, text), the
        worst first
    :param kind_of: callable that is given a text and says of which kind it is
    """
    if CONF.api_database.connection is None:
        return (success if service == CONDUCTOR else warning)(
            'Not looked at: no [api_database] connection here.')
    read, found = 0, {}
    try:
        for instance_uuid, text in _specs():
            read += 1
            found.setdefault(kind_of(text), []).append(instance_uuid)
    except exception.DatabaseUnreadable as exc:
        return failure('Stopped after %d request specs: %s.' % (
            read, exc.format_message()))
    results = [(result, '%d of %d (the first: server %s) %s' % (
                len(found[kind]), read, found[kind][0], text))
               for kind, result, text in kinds if kind in found]
    if not results:
        return success('None of %d.' % read)
    return results[0][0](' '.join(text for _result, text in results))


def _specs():
    last = 0
    while True:
        rows = api_rows.execute(
            sa.select(_SPECS.c.id, _SPECS.c.instance_uuid, _SPECS.c.spec)
            .where(_SPECS.c.id > last).order_by(_SPECS.c.id)
            .limit(PAGE_SIZE))
        for last, instance_uuid, text in rows:
            yield instance_uuid, text
        if len(rows) < PAGE_SIZE:
            return
