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

What is expected are the server's own requests, without what a host added to
them (``rp_uuids``, ``parent_ifname``). Aliases are never resolved:
``[pci] alias`` need not be configured where this runs, and may have changed
since the server was booted. Compared are alias and count, or port.

Not compared: what an alias stands for, since nova-compute resolves it anew at
every ``ResourceTracker._move_claim`` and the request spec keeps what it meant
at the boot; request ids, new after every migration; ``numa_policy``, which
depends on the code path that wrote it. A corrected list carries the server's
ids, because with ``[filter_scheduler] pci_in_placement`` nova-conductor and
nova-compute match request groups by them.
"""

import collections

from nova import objects

from nova_specguard.fields import base
from nova_specguard.fields import numa_topology
from nova_specguard import reader

NAME = 'pci_requests'
OPERATIONS = numa_topology.OPERATIONS

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
        NAME, 'pci-requests', reader.short(_short(spec_form)), current_value,
        correctable=fits, is_derived=True,
        is_harmless=spec_form == current_form)


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
