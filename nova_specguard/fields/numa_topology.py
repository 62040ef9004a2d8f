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

"""The NUMA constraints.

A request spec holds what was asked for, the server what was fitted to its
host, so what is expected is derived from the server's flavor and image again.

:Truth: what nova derives from the current flavor and the server's image
    properties in the cell (``hardware.numa_get_constraints``).
:Expected: the same, in the operations of ``flavor`` and in migrate: nova does
    not derive them again where the flavor stays.
:Compared: per cell CPUs, dedicated CPUs, memory, CPU policy, page size, thread
    policy; the emulator threads policy. No difference: ids of cells, pins,
    order, the form of dedicated CPUs from before nova 22. Where nova refuses
    flavor and image of the server, the layout is compared with the topology
    that the server has; if it has none, nothing is compared.
:Corrected: by nova-conductor; by nova-scheduler as ``flavor``, and not in
    migrate. Not where nova refuses flavor and image.
:Healed: yes.
:Read by: ``NUMATopologyFilter``, ``PciPassthroughFilter``.
"""

from nova import exception as nova_exception
from nova import objects
from nova.virt import hardware

from nova_specguard.fields import base
from nova_specguard.fields import flavor
from nova_specguard.operation import Operation
from nova_specguard import reader

NAME = 'numa_topology'
OPERATIONS = flavor.OPERATIONS | {Operation.MIGRATE}
TOPOLOGY = base.DriftClass(
    'numa-topology', 'warning',
    'A failed resize, also after a cold migration that set the flavor right.',
    'Resize and revert: LP#1805767, fixed in 21.0.0. Failed resize: none '
    'found, open.')
CLASSES = (TOPOLOGY,)

_UNDERIVABLE = (nova_exception.NovaException, NotImplementedError,
                ValueError, TypeError)


def needs(spec, current):
    # The image recorded in the spec is good enough to see that nothing at all
    # asks for NUMA: a server that was fitted to its host has a topology.
    if current.image_meta is not None:
        return frozenset()
    image = reader.get(spec, 'image')
    if image is None or (isinstance(image, objects.ImageMeta) and
                         'properties' not in image):
        image = _no_image()
    try:
        is_asked_for = (
            reader.get(spec, NAME) is not None or
            current.numa_topology is not None or
            # stored: nothing that nova's code could read
            not isinstance(image, objects.ImageMeta) or
            hardware.numa_get_constraints(
                _flavor_object(current.flavor), image))
    except _UNDERIVABLE:
        is_asked_for = True
    return frozenset({'image_meta'} if is_asked_for else ())


def _no_image():
    return objects.ImageMeta(properties=objects.ImageMetaProps())


def _expected(current):
    """What nova would write for the server today.

    :returns: (topology or None, whether it may be put into a request spec)
    """
    if current.image_meta is None:
        return current.numa_topology, current.numa_topology is None
    try:
        return hardware.numa_get_constraints(
            _flavor_object(current.flavor), current.image_meta), True
    except _UNDERIVABLE:
        # Rules for extra specs get stricter from release to release; a server
        # keeps what it was booted with. Its own topology has the same layout,
        # but also pins, which are not for a request spec.
        return current.numa_topology, False


def _flavor_object(source):
    """A flavor with all that constraints are derived from."""
    if isinstance(source, objects.Flavor):
        return source
    return objects.Flavor(**{
        name: reader.get(source, name)
        for name in ('vcpus', 'memory_mb', 'extra_specs')})


def _layout(cell):
    cpus = set(map(str, reader.as_list(reader.get(cell, 'cpuset'))))
    pinned = set(map(str, reader.as_list(reader.get(cell, 'pcpuset'))))
    policy = str(reader.get(cell, 'cpu_policy') or 'shared')
    if policy == 'dedicated' and not pinned:
        # as written before Victoria (LP#1952941)
        cpus, pinned = set(), cpus
    return (tuple(sorted(cpus)), tuple(sorted(pinned)),
            str(reader.get(cell, 'memory')), policy)


def _constraints(cell):
    return (str(reader.get(cell, 'pagesize')),
            str(reader.get(cell, 'cpu_thread_policy')))


def _normal(topology, with_constraints):
    if topology is None:
        return None
    cells = [
        _layout(cell) + (_constraints(cell) if with_constraints else ())
        for cell in reader.as_list(reader.get(topology, 'cells'))]
    emulator = (str(reader.get(topology, 'emulator_threads_policy'))
                if with_constraints else None)
    return tuple(sorted(cells)), emulator


def _short(form):
    if form is None:
        return None
    cells, emulator = form
    names = ('cpus', 'pcpus', 'memory', 'policy', 'pagesize', 'threads')
    return '%d cell(s), emulator=%s: %s' % (len(cells), emulator, '; '.join(
        ' '.join('%s=%s' % (name, ','.join(value) or '-'
                            if isinstance(value, tuple) else value)
                 for name, value in zip(names, cell))
        for cell in cells))


def difference(spec, current, options):
    expected, is_correctable = _expected(current)
    if expected is None and not is_correctable:
        # neither derived nor fitted, as on a driver without NUMA
        return None
    spec_form = _normal(reader.get(spec, NAME), is_correctable)
    current_form = _normal(expected, is_correctable)
    if spec_form == current_form:
        return None
    return base.Difference(
        NAME, TOPOLOGY, reader.short(_short(spec_form)),
        reader.short(_short(current_form)), is_correctable, is_derived=True)


def apply(spec, current, options):
    expected = _expected(current)[0]
    spec.numa_topology = expected and expected.obj_clone()
