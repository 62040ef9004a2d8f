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

"""Folders of servers on a compute host, made by qemu's own programs."""

# Loaded only when it is used, by whoever may not read Python's library then.
import concurrent.futures.thread  # noqa: F401
import hashlib
import json
import os
import time

import fixtures
from oslo_utils import uuidutils

from nova_specguard.disks import facts
from tests import images

HOST, CELL, PROJECT = 'compute1', 'cell1', 'a-project'
IMAGE = '3d2e6a0c-9f2b-4f0a-8d3e-1b5c7a9e0f21'
SNAPSHOT = 'a1b2c3d4-0000-4000-8000-5e6f708192a3'

SIZE = 4 * images.MEBIBYTE
# Nobody.
_UNPRIVILEGED = 65534


def base_name(image):
    """As nova.virt.libvirt.imagecache names the base of an image."""
    return hashlib.sha1(image.encode()).hexdigest()


def server(**values):
    """A server as "disks export" writes it down.

    :returns: nova_specguard.disks.facts.Server
    """
    return facts.Server(**{
        'project_id': PROJECT, 'host': HOST, 'vm_state': 'active',
        'task_state': None, 'image_ref': IMAGE, 'base_image_ref': IMAGE,
        'os_type': None, 'root_gb': 1, 'swap_mb': 0, 'ephemeral_gb': 0,
        'ephemerals_gb': [], 'swaps_mb': [], 'is_volume_backed': False,
        'is_encrypted': False, 'migration': None, **values})


class Unprivileged(fixtures.Fixture):
    """This process is not root's, as that of nova's user is not."""

    def _setUp(self):
        if os.geteuid() == 0:
            self.addCleanup(os.setegid, os.getegid())
            os.setegid(_UNPRIVILEGED)
            self.addCleanup(os.seteuid, 0)
            os.seteuid(_UNPRIVILEGED)


class ComputeHost(fixtures.Fixture):
    """nova's folder on a compute host.

    :ivar path: of the folder
    :ivar cache: path of the image cache
    :ivar servers: dict of UUID to nova_specguard.disks.facts.Server
    """

    def _setUp(self):
        self.path = self.useFixture(fixtures.TempDir()).path
        os.chmod(self.path, 0o755)
        self.cache = os.path.join(self.path, '_base')
        os.mkdir(self.cache)
        self.servers = {}

    @property
    def facts(self):
        """nova_specguard.disks.facts.Facts, exported just now."""
        return facts.Facts(HOST, CELL, int(time.time()) + 1, self.servers)

    def add_base(self, name, size=SIZE, image_format='raw', **kwargs):
        """Have a base in the cache.

        :returns: its path
        """
        path = os.path.join(self.cache, name)
        images.create(path, size, image_format=image_format, **kwargs)
        return path

    def add_server(self, disks=None, formats=None, **values):
        """Have the folder of a server.

        :param disks: dict of name of a disk to keyword arguments of
            images.create()
        :param formats: dict of name of a disk to its format on record, if
            that is another one than it is made in
        :returns: UUID
        """
        uuid = uuidutils.generate_uuid()
        self.servers[uuid] = server(**values)
        os.mkdir(self.folder(uuid))
        recorded = {}
        for name, kwargs in (disks or {}).items():
            kwargs = {'size': SIZE, **kwargs}
            recorded[name] = kwargs.get('image_format', 'qcow2')
            images.create(self.folder(uuid, name), **kwargs)
        self.record(uuid, {**recorded, **(formats or {})})
        return uuid

    def record(self, uuid, formats):
        """Write disk.info, as nova does."""
        with open(self.folder(uuid, 'disk.info'), 'w') as written:
            json.dump({self.folder(uuid, name): image_format
                       for name, image_format in formats.items()}, written)

    def forget_base_format(self, uuid, disk):
        """Have a disk name its base alone, as old releases of nova did.

        qemu-img refuses to make such a disk.
        """
        with open(self.folder(uuid, disk), 'r+b') as changed:
            start = changed.read(64 * images.KIBIBYTE)
            # The extension of the header with the format; 0 ends them.
            position = start.index(b'\xe2\x79\x2a\xca')
            changed.seek(position)
            changed.write(b'\0' * 4)

    def folder(self, uuid, *names):
        """The path of a server's folder, or of what is in it."""
        return os.path.join(self.path, uuid, *names)
