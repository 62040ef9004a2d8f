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

"""From folder to folder of a compute host."""

from concurrent import futures
import os
import time

import nova.conf

from nova_specguard import alerts
from nova_specguard.disks import advice
from nova_specguard.disks import bases
from nova_specguard.disks import chain
from nova_specguard.disks import findings
from nova_specguard.disks import folders
from nova_specguard.disks import header
from nova_specguard.disks import judge
from nova_specguard.disks import qemu_img
from nova_specguard import exception
from nova_specguard import reader

CONF = nova.conf.CONF

# Of qemu-img at a time, which waits about as long as it computes.
WORKERS = 4

# [libvirt] images_type with which no disk is a file.
_NO_FILES = ('rbd', 'lvm')


class Audit:
    """An audit of the disks of a compute host.

    :ivar done: how many folders are behind it
    :ivar total: how many there are
    """

    def __init__(self, known, instances_path):
        """Find the folders.

        :param known: nova_specguard.disks.facts.Facts
        :param instances_path: absolute path of nova's folder
        :raises OSError: if it cannot be read
        """
        self.done = 0
        self._facts = known
        self._cache = os.path.join(
            instances_path, CONF.image_cache.subdirectory_name)
        self._chains = chain.Reader(self._cache)
        images = {}
        for server in known.servers.values():
            images.update(bases.of_images(server))
        self._judge = judge.Judge(self._cache, images)
        self._folders = folders.find(instances_path, known)
        self.total = len(self._folders)

    def run(self, progress):
        """Look into all folders.

        :param progress: callable without arguments, for each folder
        :returns: iterable of Finding
        :raises QemuImgAsRoot: if this process is root's
        :raises QemuImgMissing: if a program is not installed
        """
        qemu_img.check_user()
        with futures.ThreadPoolExecutor(WORKERS) as workers:
            try:
                for found in workers.map(self._folder, self._folders):
                    self.done += 1
                    progress()
                    yield from found
            except BaseException:
                workers.shutdown(cancel_futures=True)
                raise

    def _folder(self, folder):
        """What there is to say of a folder.

        :returns: list of Finding
        """
        server = self._facts.servers.get(folder.uuid)
        about = {
            'instance_uuid': folder.uuid, 'host': self._facts.host,
            'cell': self._facts.cell if server else None,
            'project_id': server.project_id if server else None,
            'audited_at': time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}
        if folder.server is None:
            return [findings.Finding(
                disk=None, path=folder.path, reason=folder.reason,
                state=(findings.UNREADABLE if folder.is_unreadable
                       else findings.NOT_APPLICABLE), **about)]
        try:
            return list(self._disks(folder, about))
        except (OSError, exception.DiskUnreadable) as exc:
            return [findings.Finding(
                disk=None, path=folder.path, state=findings.UNREADABLE,
                reason=str(exc), **about)]

    def _disks(self, folder, about):
        disks, others = folder.disks()
        formats = folders.formats(folder.path)
        if 'disk' not in disks:
            disks.append('disk')
        for disk in disks + others:
            path = os.path.join(folder.path, disk)
            left_out = _left_out(folder.server, disk, path, formats)
            if left_out:
                read, verdicts = chain.Chain([]), [left_out]
            else:
                read = self._chains.read(path, formats[disk])
                verdicts = self._judge.judge(folder.server, disk, read)
            names = bases.names(folder.server, disk)
            for verdict in verdicts:
                yield findings.Finding(
                    disk=disk, path=path, state=verdict.state,
                    drift_class=verdict.drift_class,
                    reason=verdict.reason,
                    expected_base=names and os.path.join(
                        self._cache, names[0]),
                    found_base=read.base and reader.short(
                        alerts.mask(read.base)),
                    safe_until=verdict.drift_class and advice.safe_until(
                        verdict.drift_class, disk, read, self._cache),
                    **about)


def _left_out(server, disk, path, formats):
    """Why a disk is not opened.

    :returns: Verdict, or None if it is
    """
    if not folders.is_disk(disk):
        return judge.Verdict(
            findings.NOT_APPLICABLE, 'no disk that nova makes: a snapshot or '
            'copy of one; not opened')
    if disk.startswith('disk.config'):
        return judge.Verdict(
            findings.NOT_APPLICABLE, 'config drive: stands on no base')
    if not os.path.lexists(path):
        if server.is_volume_backed:
            return judge.Verdict(
                findings.NOT_APPLICABLE, 'the server boots from a volume')
        if CONF.libvirt.images_type in _NO_FILES:
            return judge.Verdict(findings.NOT_APPLICABLE, 'in %s'
                                 % CONF.libvirt.images_type)
        return judge.Verdict(findings.UNREADABLE, 'there is no such file')
    image_format = formats.get(disk)
    if image_format is None:
        return judge.Verdict(
            findings.UNREADABLE, 'disk.info has no format of it: not opened')
    if image_format not in (header.QCOW2, header.RAW):
        return judge.Verdict(
            findings.FOUND, 'disk.info has it as %s, and nova makes no such '
            'disks: not opened' % reader.short(image_format),
            findings.UNSAFE)
    return None
