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

"""The PCI requests.

Aliases are never resolved: ``[pci] alias`` need not be configured where this
runs, and may have changed since the server was booted.

:Truth: ``instance_extra.pci_requests``, without what a host has added
    (``rp_uuids``, ``parent_ifname``).
:Expected: the same, in the operations of ``numa_topology``.
:Compared: requests of the flavor by alias name and count; requests of ports
    by port. No difference: order; request ids, new after every migration;
    ``numa_policy``, which depends on the code path that wrote it; what an
    alias stands for, since nova-compute resolves it anew at every
    ``ResourceTracker._move_claim``.
:Corrected: by nova-conductor, with the server's own request ids, by which
    nova-conductor and nova-compute match request groups with
    ``[filter_scheduler] pci_in_placement``. Not by nova-scheduler, since
    nova-conductor has derived request groups from them; nowhere, if the
    server's aliases are not those of ``pci_passthrough:alias`` in its flavor.
    If spec and server have the same requests and only the flavor says
    otherwise, that is no reason to refuse: a host that has the devices is a
    host that the server may run on.
:Healed: yes, except where they do not fit the flavor.
:Read by: ``PciPassthroughFilter``, ``NUMATopologyFilter``, ``PCIWeigher``;
    ``HostState.consume_from_request``; nova-conductor's request groups;
    nova-api's resize, which copies the requests of ports.
"""

import collections

from nova import objects

from nova_specguard.fields import base
from nova_specguard.fields import numa_topology
from nova_specguard import reader

NAME = 'pci_requests'
OPERATIONS = numa_topology.OPERATIONS
REQUESTS = base.DriftClass(
    'pci-requests', 'warning',
    'A resize to or from a flavor with an alias that failed or was reverted; '
    'an SR-IOV port that was attached or detached, which nova keeps in the '
    'instance only.',
    'Resize: LP#1941005, LP#1983753, fixed in 26.0.0 and 25.2.1. Revert, '
    'failed resize, ports: none found, open.')
CLASSES = (REQUESTS,)

needs = base.needs_nothing

_ADDED_BY_HOST = ('rp_uuids', 'parent_ifname')


def _requests(source):
    if isinstance(source, list):
        return source
    return reader.as_list(reader.get(source, 'requests'))


def _asked_for(request):
    """A request's device specifications, without what a host added."""
    return [{key: value for key, value in reader.as_dict(item).items()
             if key not in _ADDED_BY_HOST}
            for item in reader.as_list(reader.get(request, 'spec'))]


def _normal(source):
    return collections.Counter(
        _normal_request(request) for request in _requests(source))


def _normal_request(request):
    alias = reader.get(request, 'alias_name')
    if alias is None:
        return 'port', str(reader.get(request, 'requester_id'))
    return 'alias', str(alias), str(reader.get(request, 'count'))


def _aliases(source):
    found = collections.Counter()
    for request in _requests(source):
        alias = reader.get(request, 'alias_name')
        if alias is not None:
            found[str(alias)] += _count(reader.get(request, 'count'))
    return found


def _count(value):
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return 0


def _extra_spec(flavor):
    return reader.as_dict(reader.get(flavor, 'extra_specs')).get(
        'pci_passthrough:alias')


def _aliases_of_flavor(flavor):
    found = collections.Counter()
    for part in str(_extra_spec(flavor) or '').split(','):
        name, _colon, count = part.partition(':')
        if name.strip():
            found[name.strip()] += _count(count)
    return found


def _short(form):
    return ', '.join(sorted(
        '%dx %s' % (times, ' '.join(request))
        for request, times in form.items())) or None


def difference(spec, current, options):
    spec_form = _normal(reader.get(spec, NAME))
    current_form = _normal(current.pci_requests)
    fits = (_aliases(current.pci_requests) ==
            _aliases_of_flavor(current.flavor))
    if spec_form == current_form and fits:
        return None
    current_value = reader.short(_short(current_form))
    if not fits:
        current_value += ' (flavor: %s)' % reader.short(
            _extra_spec(current.flavor))
    return base.Difference(
        NAME, REQUESTS, reader.short(_short(spec_form)), current_value,
        is_correctable=fits, is_refusable=spec_form != current_form,
        is_derived=True)


def apply(spec, current, options):
    requests = [
        objects.InstancePCIRequest(
            count=request.count, spec=_asked_for(request),
            alias_name=request.alias_name, request_id=request.request_id,
            requester_id=request.requester_id,
            numa_policy=request.numa_policy)
        for request in _requests(current.pci_requests)]
    spec.pci_requests = objects.InstancePCIRequests(
        instance_uuid=current.uuid, requests=requests)
