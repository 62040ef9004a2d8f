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

"""Reading the files that a disk stands on, one after the other.

What a file names as its backing file is looked at as text first. Only a file
of the server's folder or of the image cache is ever opened, in the format
that is on record.
"""

import dataclasses
import os
import re
import typing

import nova.conf

from nova_specguard.disks import findings
from nova_specguard.disks import header
from nova_specguard.disks import qemu_img
from nova_specguard import exception
from nova_specguard.fields import base

CONF = nova.conf.CONF

# A disk and its base.
DEPTH = 2
# A chain that is longer is not read to its end.
MAX_DEPTH = 16

# As path_has_protocol() in qemu.
_PROTOCOL = re.compile(r'[^/]*:')


@dataclasses.dataclass(frozen=True)
class Chain:
    """What a disk stands on, as far as it was read.

    :ivar files: list of (path, format) of the files that were read, the disk
        first
    :ivar reference: what the last of them names as its backing file, if that
        was not read; can be anything
    :ivar drift_class: DriftClass of what is wrong with that, or None
    :ivar reason: what is wrong, in one line; or None
    :ivar is_unreadable: whether a file could not be read
    """

    files: list
    reference: typing.Optional[str] = None
    drift_class: typing.Optional[base.DriftClass] = None
    reason: typing.Optional[str] = None
    is_unreadable: bool = False

    @property
    def base(self):
        """What the disk stands on directly.

        :returns: path, or what is written in the disk if that was not read;
            None if there is nothing
        """
        return self.files[1][0] if len(self.files) > 1 else self.reference


class Reader:
    """Reads chains of a host; from several threads."""

    def __init__(self, cache):
        """Do nothing yet.

        :param cache: path of the folder of nova's image cache
        """
        self._cache = cache
        self._known = {}

    def read(self, path, image_format):
        """Read a disk and what it stands on.

        :param path: absolute path of the disk
        :param image_format: header.QCOW2 or header.RAW, as it is on record
        :returns: Chain
        :raises QemuImgAsRoot: if this process is root's
        :raises QemuImgMissing: if a program is not installed
        """
        folders = {os.path.dirname(path), self._cache,
                   os.path.realpath(os.path.dirname(path)),
                   os.path.realpath(self._cache)}
        files = []
        reference = None
        while True:
            try:
                info = self._info(path, image_format)
            except exception.DiskMissing as exc:
                return Chain(files, reference, findings.BASE_MISSING,
                             exc.format_message())
            except exception.DiskUnsafe as exc:
                return Chain(files, reference, findings.UNSAFE,
                             exc.format_message())
            except exception.DiskUnreadable as exc:
                return Chain(files, reference, reason=exc.format_message(),
                             is_unreadable=True)
            files.append((path, image_format))
            if info is None or info.backing_file is None:
                return Chain(files)
            reference = info.backing_file
            reason = _unsafe(reference, info.backing_format)
            path = os.path.join(os.path.dirname(path), reference)
            if not reason and os.path.dirname(path) not in folders:
                reason = ('a backing file that is neither in the folder of '
                          'the server nor in the image cache')
            if reason:
                return Chain(files, reference, findings.UNSAFE,
                             '%s names %s' % (files[-1][0], reason))
            if path in (known for known, _format in files):
                return Chain(files, reference, findings.CHAIN,
                             '%s is in its own chain' % path)
            if len(files) == MAX_DEPTH:
                return Chain(files, reference, findings.CHAIN,
                             'more than %d files, the rest of which was not '
                             'read' % MAX_DEPTH)
            try:
                image_format = info.backing_format or _unrecorded(path)
            except exception.DiskException:
                # It will be said when it is read.
                image_format = header.RAW
            if image_format is None:
                return Chain(files, reference, findings.UNSAFE,
                             '%s does not say of what format its backing '
                             'file is, which has a qcow2 header' %
                             files[-1][0])

    def _info(self, path, image_format):
        """What the header of a file says.

        :returns: Info; None for raw, of which there is none
        """
        header.check(path, image_format)
        if image_format == header.RAW:
            return None
        if os.path.dirname(path) != self._cache:
            return qemu_img.info(path, image_format)
        # Many disks stand on one base.
        if path not in self._known:
            self._known[path] = qemu_img.info(path, image_format)
        return self._known[path]


def _unsafe(reference, image_format):
    """What is unsafe about a reference as such.

    :returns: text, or None
    """
    if _PROTOCOL.match(reference):
        return 'a backing file by a protocol'
    if not reference.isprintable() or '..' in reference.split('/'):
        return 'a backing file in a way that nova does not'
    if image_format not in (header.QCOW2, header.RAW, None):
        return 'a backing file of format %s' % image_format
    return None


def _unrecorded(path):
    """The format of a base where none is on record.

    Older releases of nova wrote none. What the image cache holds is raw, as
    long as force_raw_images is not switched off.

    :returns: header.QCOW2, header.RAW, or None for what qemu would take to be
        another one than nova does
    """
    if header.naming_format(path) != header.QCOW2:
        return header.RAW
    return None if CONF.force_raw_images else header.QCOW2
