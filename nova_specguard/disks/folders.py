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

"""The folders of servers on a compute host, and what nova has recorded."""

import dataclasses
import json
import os
import re
import stat
import typing

from nova.compute import vm_states
import nova.conf
from oslo_utils import uuidutils

from nova_specguard.disks import facts
from nova_specguard import exception

CONF = nova.conf.CONF

# nova.virt.libvirt.blockinfo has the names; all can be those of a rescue.
_DISK = re.compile(r'disk(\.(local|swap|config|rescue|eph\d+))?(\.rescue)?\Z')
# Files that nova keeps beside the disks, and leftovers of writing them.
_NO_DISK = ('disk.info', 'disk.info.tmp')

_SUFFIXES = ('_resize', '_del')
_MAX_INFO = 1024 ** 2


@dataclasses.dataclass(frozen=True)
class Folder:
    """A folder in instances_path that is one of a server.

    :ivar uuid: UUID of the server
    :ivar path: absolute path
    :ivar server: nova_specguard.disks.facts.Server, if its disks are to be
        compared
    :ivar reason: else why not
    :ivar is_unreadable: whether that is because it cannot be read
    """

    uuid: str
    path: str
    server: typing.Optional[facts.Server] = None
    reason: typing.Optional[str] = None
    is_unreadable: bool = False

    def disks(self):
        """The disks in the folder.

        :returns: (list of names of disks, list of names of files that are
            named as disks but are none of nova's)
        :raises OSError: if the folder cannot be read
        """
        names = sorted(name for name in os.listdir(self.path)
                       if name.startswith('disk') and name not in _NO_DISK)
        own = [name for name in names if is_disk(name)]
        return own, [name for name in names if name not in own]


def is_disk(name):
    """Whether nova gives this name to disks.

    :param name: name of a file
    """
    return bool(_DISK.match(name))


def find(instances_path, known):
    """Look for the folders of servers.

    :param instances_path: absolute path
    :param known: Facts
    :returns: list of Folder, in the order of their names; those of servers
        that should have one and have not, with a reason, included
    :raises OSError: if instances_path cannot be read
    """
    with os.scandir(instances_path) as entries:
        found = [_folder(entry, known) for entry in sorted(
            entries, key=lambda entry: entry.name)]
    found = [folder for folder in found if folder is not None]
    seen = {folder.path for folder in found}
    for uuid, server in known.servers.items():
        path = os.path.join(instances_path, uuid)
        if path not in seen and not _why_not(server, known):
            found.append(Folder(
                uuid, path, reason='there is no such folder',
                is_unreadable=not server.is_volume_backed))
    return found


def _folder(entry, known):
    uuid, suffix = entry.name, None
    for known_suffix in _SUFFIXES:
        if entry.name.endswith(known_suffix):
            uuid = entry.name[:-len(known_suffix)]
            suffix = known_suffix
    if not uuidutils.is_uuid_like(uuid):
        # of nova itself, as the image cache, or of something else
        return None
    server = known.servers.get(uuid)
    if entry.is_symlink() or not entry.is_dir():
        return Folder(uuid, entry.path, is_unreadable=True,
                      reason='not a folder, or a link to one')
    if suffix:
        reason = _left_over(suffix, server)
    elif server is None:
        reason = ('the server is not in the facts: gone from this host, or '
                  'newer than they are')
    else:
        reason = _why_not(server, known) or _made_since(entry.path, known)
    if reason:
        return Folder(uuid, entry.path, reason=reason)
    return Folder(uuid, entry.path, server)


def _left_over(suffix, server):
    """Why a folder of another name than the server's is not looked at."""
    if suffix == '_del':
        return 'nova has begun to delete it'
    if server is not None and (server.migration or
                               server.vm_state == vm_states.RESIZED):
        return ('kept until a resize or cold migration is confirmed or '
                'reverted')
    return ('half a resize: no migration of the server is under way that it '
            'could belong to')


def _why_not(server, known):
    """Why disks of a server are not compared, or None."""
    if server.host != known.host:
        return 'the server is on %s' % server.host
    if server.task_state or server.vm_state == vm_states.BUILDING:
        return 'nova was working on the server: %s' % (
            server.task_state or server.vm_state)
    if server.migration and server.vm_state != vm_states.RESIZED:
        return 'a migration was under way: %s' % server.migration
    if server.is_encrypted:
        return 'nova encrypts the disks'
    return None


def _made_since(path, known):
    """Why what is in the folder can be newer than the facts, or None."""
    try:
        # Written when disks are made or come from another host.
        made = os.lstat(os.path.join(path, 'disk.info')).st_mtime
    except OSError:
        # It will be said when it is read.
        return None
    if made >= known.time:
        return 'its disks were made after the facts were exported'
    return None


def formats(folder):
    """The formats that nova has recorded for the disks in a folder.

    :param folder: absolute path
    :returns: dict of name of the file to format, as ``raw``
    :raises DiskUnreadable: if disk.info cannot be read
    """
    path = os.path.join(folder, 'disk.info')
    try:
        recorded = json.loads(_read(path) or '{}')
        # Absolute paths, which can be those of another host; the disk itself
        # comes last, and so before these.
        return {os.path.basename(name): str(image_format)
                for name, image_format in sorted(
                    recorded.items(),
                    key=lambda item: os.path.dirname(item[0]) == folder)}
    except FileNotFoundError:
        return {}
    except (AttributeError, OSError, RecursionError, ValueError) as exc:
        raise exception.DiskUnreadable(
            path=path, cause=type(exc).__name__) from None


def _read(path):
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError('no regular file')
        return os.read(handle, _MAX_INFO)
    finally:
        os.close(handle)
