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

"""The names of the base files that nova would use for a server's disks.

As nova.virt.libvirt.driver makes them up when it creates a disk, and again
on the host that a server is moved to.
"""

import re

import nova.conf
from nova.privsep import fs
# Tells nova.privsep.fs of [DEFAULT] virt_mkfs, which is part of a name.
import nova.virt.disk.api  # noqa: F401
from nova.virt.libvirt import imagecache

CONF = nova.conf.CONF

_EPHEMERAL = re.compile(r'disk\.eph(\d+)\Z')


def names(server, disk):
    """The names of the bases that a disk may stand on.

    :param server: nova_specguard.disks.facts.Server
    :param disk: name of its file, as ``disk``
    :returns: list of names, that of a new disk first; None if there is
        nothing that could tell
    """
    if disk == 'disk':
        if server.is_volume_backed or not server.image_ref:
            return None
        return [imagecache.get_cache_fname(server.image_ref)]
    if disk == 'disk.swap':
        return ['swap_%s' % size for size in dict.fromkeys(
            (*server.swaps_mb, server.swap_mb)) if size] or None
    if disk == 'disk.local':
        return _ephemeral(server, server.ephemeral_gb)
    match = _EPHEMERAL.match(disk)
    if match and int(match.group(1)) < len(server.ephemerals_gb):
        return _ephemeral(server, server.ephemerals_gb[int(match.group(1))])
    return None


def of_images(server):
    """The names of the bases of the images that a server has to do with.

    :param server: nova_specguard.disks.facts.Server
    :returns: dict of name to id of the image
    """
    return {imagecache.get_cache_fname(image): image
            for image in (server.image_ref, server.base_image_ref) if image}


def is_one(name, expected):
    """Whether a base is one of those that a disk may stand on.

    :param name: name of the file
    :param expected: what names() has given
    """
    return name in expected or any(
        # Grown to a size in GiB, by a nova before 2013; later ones make it
        # again where they find it in use.
        re.match(r'%s_\d+\Z' % re.escape(other), name) for other in expected
        if not _is_made(other))


def min_age(name):
    """How long nova's image cache keeps a base that it takes to be unused.

    :param name: name of the file
    :returns: seconds; None if it never deletes it
    """
    cache = CONF.image_cache
    if not cache.remove_unused_base_images:
        return None
    if _is_made(name) or re.match(r'[0-9a-f]{40}\Z', name):
        return cache.remove_unused_original_minimum_age_seconds
    if re.match(r'[0-9a-f]{40}_.', name):
        return cache.remove_unused_resized_minimum_age_seconds
    return None


def _is_made(name):
    """Whether nova makes a base of nothing."""
    return name.startswith(('swap_', 'ephemeral_'))


def _ephemeral(server, size):
    if not size:
        return None
    extension = fs.get_file_extension_for_os_type(
        fs.get_fs_type_for_os_type(server.os_type),
        CONF.default_ephemeral_format)
    return ['ephemeral_%s_%s' % (size, extension)]
