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

"""What request filter and host filter have in common: one check a request."""

import functools

from nova.compute import task_states

from nova_specguard import alerts
from nova_specguard import fields
from nova_specguard.fields import flavor
from nova_specguard.fields import flavor_extra_specs
from nova_specguard.fields import instance_group
from nova_specguard.fields import numa_topology
from nova_specguard.fields import pci_requests
from nova_specguard.fields import project
from nova_specguard.fields import scheduler_hints
from nova_specguard import guard
from nova_specguard import operation
from nova_specguard import protection
from nova_specguard import reader
from nova_specguard.scheduler import SERVICE

# On the request spec object, which lives as long as the request.
_CHECKED = '_specguard_checked'


def is_checked(spec):
    """Whether :func:`refuses` has seen this request already."""
    return getattr(spec, _CHECKED, False)


def refuses(context, spec, before_host_manager):
    """Check a request, correct what may be corrected, and alert.

    :param context: RequestContext of the request
    :param spec: nova.objects.RequestSpec
    :param before_host_manager: whether nova's mark of a resize is still to be
        seen; afterwards nothing is corrected either
    :returns: whether the request must find no host
    """
    setattr(spec, _CHECKED, True)
    return bool(protection.run(
        SERVICE, protection.Request(context, spec), _refuses,
        before_host_manager))


def _refuses(request, options, reporter, before_host_manager):
    context, spec = request.context, request.spec
    if operation.is_boot(spec):
        return False
    marked = (operation.is_marked_as_resize(spec)
              if before_host_manager else None)

    def operation_of(current):
        if current is None:
            return operation.candidates(spec, marked)
        request.operation = operation.from_request(spec, current, marked)
        return {request.operation}

    finding = guard.examine(context, spec, operation_of, options)
    if finding is None:
        return False
    enforcement = guard.enforce(
        finding, options, may_correct=functools.partial(
            _may_correct, spec, finding, marked),
        may_refuse=not (marked and _is_behind(finding.current)))
    if enforcement.unverifiable:
        reporter.unverifiable(
            enforcement.unverifiable, context, spec, finding,
            '|'.join(sorted(finding.candidates)))
        return enforcement.unverifiable == 'refused'
    if enforcement.refuse:
        reporter.drift(
            alerts.REFUSED, 'refused', context, finding,
            enforcement.refuse + enforcement.correct + enforcement.allow)
        return True
    if enforcement.correct:
        fields.apply([d.field for d in enforcement.correct], spec,
                     finding.current, options)
        reporter.drift(alerts.CORRECTED, 'corrected', context, finding,
                       enforcement.correct)
    if enforcement.allow:
        reporter.drift(alerts.ALLOWED, 'allowed', context, finding,
                       enforcement.allow)
    return False


def _is_behind(current):
    """Whether the row lacks what nova-api wrote before it marked the request.

    Then it may lack a rebuild before that, too.
    """
    return current is not None and (
        current.task_state != task_states.RESIZE_PREP)


def _may_correct(spec, finding, marked, difference):
    """Whether nova-conductor has derived nothing else from what is stale.

    It has made request groups of the spec's PCI requests and device profile
    and looks for them again in the answer (``fill_provider_mapping``); it has
    collected the hosts of the server group; and it goes on with its own copy
    of the spec, which it hands to the compute of what is marked as a resize
    and saves.
    """
    if marked is None or difference.field in (
            pci_requests.NAME, instance_group.NAME, scheduler_hints.NAME):
        return False
    if difference.field == project.NAME:
        # of use in the scheduler only
        return True
    if difference.field in (flavor.NAME, flavor_extra_specs.NAME,
                            numa_topology.NAME) and (
            _device_profile(reader.get(spec, flavor.NAME)) !=
            _device_profile(finding.current.flavor)):
        return False
    return not marked


def _device_profile(source):
    return reader.as_dict(reader.get(source, 'extra_specs')).get(
        'accel:device_profile')
