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

A module says where a field's truth is and what counts as a difference; its
docstring is the field's section in the reference. It has no I/O, and it takes
nova's objects and their stored primitives alike, so that guard and audit
cannot disagree:

``NAME``
    the field's name in options, alerts and reports
``OPERATIONS``
    the operations in which the field has an expected value
``CLASSES``
    the drift classes that can be observed of it
``needs(spec, current)``
    names of attributes of CurrentInstance that have to be read before the
    field can be compared; asked again after they were read
``difference(spec, current, options)``
    a :class:`~nova_specguard.fields.base.Difference`, or None, also where
    what it needs was not read; raises nothing for any stored value
``apply(spec, current, options)``
    puts the expected value into a nova.objects.RequestSpec
"""

from nova_specguard import exception
from nova_specguard.fields import availability_zone
from nova_specguard.fields import flavor
from nova_specguard.fields import flavor_extra_specs
from nova_specguard.fields import image
from nova_specguard.fields import instance_group
from nova_specguard.fields import is_bfv
from nova_specguard.fields import numa_topology
from nova_specguard.fields import pci_requests
from nova_specguard.fields import project
from nova_specguard.fields import scheduler_hints

FIELDS = (flavor, flavor_extra_specs, numa_topology, pci_requests, image,
          project, scheduler_hints, instance_group, availability_zone, is_bfv)


def needs(spec, options, current):
    """What is still to be read for the fields that are not switched off.

    :param spec: nova.objects.RequestSpec
    :param options: nova_specguard.conf.Options
    :param current: nova_specguard.instances.CurrentInstance, as far as it is
        read
    :returns: frozenset of names of its attributes
    """
    return frozenset().union(*(
        field.needs(spec, current) for field in FIELDS
        if options.field_modes.get(field.NAME) != 'off'))


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


def unmixed(chosen, differences):
    """Leave out what would make a mixture of two flavors or images.

    What others are derived from, and what is derived, is put right as a
    whole or not at all: a mixture asks for a host that neither has.

    :param chosen: list of those of the differences that can be put right
    :param differences: all that were found
    :returns: tuple of Difference
    """
    linked = [difference for difference in differences
              if difference.shapes_others or difference.is_derived]
    if all(difference in chosen for difference in linked):
        linked = []
    return tuple(difference for difference in chosen
                 if difference not in linked)


def apply(names, spec, current, options):
    """Put the expected values of the named fields into a request spec.

    :param names: NAMEs of fields
    :param spec: nova.objects.RequestSpec in memory
    """
    for field in FIELDS:
        if field.NAME in names:
            field.apply(spec, current, options)
