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

"""The guarded fields, one module each.

A module says where a field's truth is and what counts as a difference. It has
no I/O, and it takes nova's objects and their stored primitives alike, so that
guard and audit cannot disagree:

``NAME``
    the field's name in options, alerts and reports
``OPERATIONS``
    the operations in which the field has an expected value
``difference(spec, current, options)``
    a :class:`~nova_specguard.fields.base.Difference`, or None; raises nothing
    for any stored value
``apply(spec, current, options)``
    puts the expected value into a nova.objects.RequestSpec
"""

from nova_specguard import exception
from nova_specguard.fields import flavor
from nova_specguard.fields import flavor_extra_specs
from nova_specguard.fields import numa_topology
from nova_specguard.fields import pci_requests

FIELDS = (flavor, flavor_extra_specs, numa_topology, pci_requests)


def differences(spec, current, operation, options):
    """Compare every field that has an expected value in this operation.

    :param spec: nova.objects.RequestSpec, or its stored primitive
    :param current: nova_specguard.instances.CurrentInstance
    :param operation: nova_specguard.operation.Operation
    :param options: nova_specguard.conf.Options
    :returns: tuple of Difference, one per field that differs
    :raises FlavorMissing: if the server itself has no readable flavor
    """
    if not flavor.is_readable(current.flavor):
        raise exception.FlavorMissing()
    found = (field.difference(spec, current, options)
             for field in FIELDS if operation in field.OPERATIONS)
    return tuple(difference for difference in found if difference is not None)


def apply(names, spec, current, options):
    """Put the expected values of the named fields into a request spec.

    :param names: NAMEs of fields
    :param spec: nova.objects.RequestSpec in memory
    """
    for field in FIELDS:
        if field.NAME in names:
            field.apply(spec, current, options)
