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

"""What placement has allocated to servers, against what their flavors take.

A move that was scheduled with a drifted request spec claims what that asks
for, and keeps it.
"""

from nova import exception as nova_exception
from nova import objects
from nova.scheduler.client import report
from nova.scheduler import utils as scheduler_utils

from nova_specguard.audit import classes
from nova_specguard.audit import reading
from nova_specguard import reader

PLACEMENT = 'placement'
# What of CurrentInstance has to be read.
NEEDS = frozenset(('image_meta', 'is_volume_backed'))

# What a flavor takes of the compute node itself. The provider of anything else
# (VGPU, accelerators, bandwidth, custom classes) may be a child: it is shown.
_JUDGED = ('VCPU', 'PCPU', 'MEMORY_MB', 'DISK_GB')
# What nova asks cyborg for, which asks for resources of its own.
_PROFILE = 'accel:device_profile'
# By [workarounds]/disable_fallback_pcpu_query, pinned CPUs are either.
_CPUS = ('VCPU', 'PCPU')


class Allocations:
    """The allocations at a cell's compute nodes, each node read once."""

    def __init__(self, context, cell):
        """Begin to read allocations.

        :param context: RequestContext
        :param cell: Cell of cell_rows
        """
        self._context = context
        self._cell = cell
        self._nodes = None
        self._of_provider = {}

    def of(self, server):
        """Read what a server has at its compute node.

        :param server: Server
        :returns: dict of resource class to amount; None if the node is not
            known
        :raises DatabaseUnreadable: if cell or placement cannot be read
        """
        if self._nodes is None:
            self._nodes = self._cell.nodes()
        provider = self._nodes.get((server.row.host, server.row.node))
        if provider is None:
            return None
        if provider not in self._of_provider:
            self._of_provider[provider] = reading.answer(
                PLACEMENT, self._read, provider)
        consumer = self._of_provider[provider].get(server.row.uuid, {})
        return consumer.get('resources', {})

    def _read(self, provider):
        client = report.report_client_singleton()
        return client.get_allocations_for_resource_provider(
            self._context, provider).allocations


def differences(server, allocated):
    """Compare a server's allocation with its flavor.

    :param server: Server with flavor, image and block devices read
    :param allocated: what :meth:`Allocations.of` gave
    :returns: list of Difference
    """
    if allocated is None or server.current is None:
        return []
    try:
        expected = _expected(server.current)
    except nova_exception.NovaException:
        # Rules for extra specs get stricter from release to release.
        return []
    found = []
    if _judged(allocated, allocated) != _judged(expected, allocated):
        found.append(classes.finding(
            classes.ALLOCATION, classes.ALLOCATION_OTHER,
            *(_text(resources, lambda name: name in _JUDGED)
              for resources in (allocated, expected))))
    profile = reader.as_dict(reader.get(
        server.current.flavor, 'extra_specs')).get(_PROFILE)
    if profile:
        expected[_PROFILE] = profile
    others = [_text(resources, lambda name: name not in _JUDGED)
              for resources in (allocated, expected)]
    if others[0] != others[1]:
        found.append(classes.finding(
            classes.ALLOCATION, classes.ALLOCATION_UNJUDGED, *others))
    return found


def _expected(current):
    """As nova asks placement for a server of this flavor and image."""
    spec = objects.RequestSpec(
        flavor=objects.Flavor.obj_from_primitive(current.flavor),
        image=current.image_meta, is_bfv=current.is_volume_backed)
    request = scheduler_utils.ResourceRequest.from_request_spec(spec)
    return {name: amount for name, amount
            in request.merged_resources().items() if amount}


def _judged(resources, allocated):
    judged = {name: resources.get(name, 0) for name in _JUDGED}
    judged['CPU'] = sum(judged.pop(name) for name in _CPUS)
    if allocated and 'DISK_GB' not in allocated:
        # of a shared storage
        del judged['DISK_GB']
    return judged


def _text(resources, is_shown):
    return ' '.join('%s=%s' % item for item in sorted(resources.items())
                    if is_shown(item[0]))
