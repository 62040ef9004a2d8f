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

"""Whether a request spec can be healed, what it becomes, or why not.

What an audit says that heal would do, and what heal does, is decided here.
"""

import dataclasses

from nova import objects

from nova_specguard.audit import classes
from nova_specguard.audit import repair
from nova_specguard.audit import server as audit_server
from nova_specguard import exception
from nova_specguard import fields

REPAIR, WAIT, REPORT, SHOW = 'repair', 'wait', 'report', 'show'
# Why part of what can be corrected is not.
MIXED = 'not without the flavor or image that belongs to it'


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is to be written.

    :ivar instance_uuid: UUID of the server
    :ivar cell: name of its cell
    :ivar fields: NAMEs of the fields that are repaired
    :ivar old: text of the request spec as it is
    :ivar new: text of the request spec as it will be
    """

    instance_uuid: str
    cell: str
    fields: tuple
    old: str
    new: str


def check_idle(server, since):
    """Make sure that nova does nothing with a server.

    :param server: Server with its migrations
    :param since: datetime; migrations that have not changed since then are
        stuck, and nobody works on them
    :raises NotIdle: if it does, or waits for its user to go on
    """
    if server.is_resized:
        raise exception.NotIdle(
            reason='a resize waits to be confirmed or reverted')
    if server.state(since) != audit_server.IDLE:
        raise exception.NotIdle(
            reason='nova is working on it: %s' % (
                server.operation or 'a migration has not ended'))


def check_faults(faults):
    """Make sure that a request spec can be compared and loaded.

    :param faults: findings about what cannot be read
    :raises NotRepairable: if there are any
    """
    if faults:
        raise exception.NotRepairable(
            reason='it cannot be read: %s' % faults[0].drift_class.name)


def plan(server, current, differences, options, is_wanted):
    """Work out what a repair would write.

    :param server: Server
    :param current: CurrentInstance with nova's objects
    :param differences: all Differences of its request spec
    :param options: nova_specguard.conf.Options
    :param is_wanted: callable that is given a Difference and tells whether it
        is to be repaired
    :returns: Plan
    :raises NotRepairable: if it cannot be repaired
    """
    text = server.mapped.spec
    names = tuple(difference.field for difference in fields.unmixed(
        [difference for difference in differences
         if difference.is_correctable and is_wanted(difference)],
        differences))
    if not names:
        raise exception.NotRepairable(
            reason='nothing in it can be repaired for sure'
            if differences else 'nothing is wrong with it any more')
    return Plan(server.row.uuid, server.cell, names, text, repair.repaired(
        text, current, names, options))


def outlook(server, found, since, options, is_wanted):
    """Work out what heal would do about what an audit found of a server.

    :param server: Server that is read, with its migrations
    :param found: list of all Differences that were found of it
    :param since: as for :func:`check_idle`
    :param options: nova_specguard.conf.Options
    :param is_wanted: as for :func:`plan`
    :returns: dict of field to (REPAIR, WAIT or REPORT, why not REPAIR), of
        what can be corrected; of the rest :func:`otherwise`
    """
    differences = [difference for difference in found
                   if difference.field not in classes.NAMES]
    wanted = [difference.field for difference in differences
              if difference.is_correctable and is_wanted(difference)]
    if not wanted:
        return {}
    try:
        check_faults(server.faults)
        names = plan(server, _with_objects(server), differences, options,
                     is_wanted).fields
    except exception.NotRepairable as exc:
        return dict.fromkeys(wanted, (REPORT, exc.format_message()))
    would_do = REPAIR, None
    try:
        check_idle(server, since)
    except exception.NotIdle as exc:
        would_do = WAIT, exc.format_message()
    return {name: would_do if name in names else (REPORT, MIXED)
            for name in wanted}


def otherwise(difference):
    """What heal would do about what cannot be corrected.

    :param difference: Difference
    :returns: REPORT, or SHOW if nothing has to be done about it
    """
    return SHOW if difference.drift_class in classes.SHOWN else REPORT


def _with_objects(server):
    """The server as the guard would read it.

    Its topology is left as it is stored: nova's own code to load old ones can
    write, and no repair takes more of it than whether there is one.
    """
    try:
        flavors = {
            name: server.flavors[name] and
            objects.Flavor.obj_from_primitive(server.flavors[name])
            for name in ('cur', 'old', 'new')}
        return dataclasses.replace(
            server.current, flavor=flavors['cur'],
            pci_requests=objects.InstancePCIRequests.obj_from_db(
                None, server.row.uuid, server.row.pci_requests))
    except Exception as exc:
        # whatever nova runs into, the guard's reading would too
        raise exception.NotRepairable(reason=exception.LookupFailed(
            cause=type(exc).__name__).format_message())
