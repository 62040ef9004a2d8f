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

"""Keeping guests and tools of qemu from writing to a disk image.

qemu's image locks are open file description locks of single bytes: who uses
an image in some way holds a read lock of the byte of that permission, who
does not want others to, of another byte (block/file-posix.c in qemu, unchanged
since 2.10). Taken here from outside, so that from the check that nobody has
the disk open to the exchange of the files no guest can start to write.
"""

import fcntl
import os
import struct

from nova_specguard import exception

_PERMISSIONS = 100
_UNSHARED = 200
_WRITE, _RESIZE = 1, 3
_COUNT = 64


class ImageLock:
    """Nobody can open an image for writing through qemu in this context."""

    def __init__(self, path):
        """Do nothing yet.

        :param path: of the image
        """
        self._path = path

    def __enter__(self):
        """Take the lock.

        :raises NotRepairable: if any process has the image open
        :raises OSError: if it cannot be read
        """
        self._file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            for permission in (_WRITE, _RESIZE):
                fcntl.fcntl(self._file, fcntl.F_OFD_SETLK,
                            _lock(fcntl.F_RDLCK, _UNSHARED + permission))
            self.check()
        except BaseException:
            os.close(self._file)
            raise
        return self

    def __exit__(self, *exc_info):
        os.close(self._file)

    def check(self):
        """Make sure that nobody else has the image open, and that it is there.

        :raises NotRepairable: if any process has it open, or it is another
            file by now
        """
        found = fcntl.fcntl(
            self._file, fcntl.F_OFD_GETLK,
            _lock(fcntl.F_WRLCK, _PERMISSIONS, _COUNT))
        if struct.unpack_from('h', found)[0] != fcntl.F_UNLCK:
            raise exception.NotRepairable(
                reason='a guest or a tool of qemu has %s open' % self._path)
        mine = os.fstat(self._file)
        pid = _who_has_open(mine)
        if pid is not None:
            raise exception.NotRepairable(
                reason='process %s has %s open' % (pid, self._path))
        try:
            is_same = os.path.samestat(mine, os.lstat(self._path))
        except FileNotFoundError:
            is_same = False
        if not is_same:
            raise exception.NotRepairable(
                reason='%s was replaced meanwhile' % self._path)


def _lock(kind, start, length=1):
    # struct flock; its last member, a process id, has to be 0
    return struct.pack('hhqqi', kind, os.SEEK_SET, start, length, 0)


def _who_has_open(status):
    """Look through the open files of all processes that we may look at.

    Finds, besides guests, what is no part of qemu. Others' processes are
    hidden from nova's user; those of qemu are known by their locks.

    :param status: os.stat_result of a file
    :returns: id of another process that has the file open, or None
    """
    for pid in os.listdir('/proc'):
        if not pid.isdecimal() or int(pid) == os.getpid():
            continue
        try:
            opened = os.listdir('/proc/%s/fd' % pid)
        except (PermissionError, FileNotFoundError, ProcessLookupError):
            continue
        for name in opened:
            try:
                other = os.stat('/proc/%s/fd/%s' % (pid, name))
            except OSError:
                # closed meanwhile, or of a network that does not answer
                continue
            if os.path.samestat(status, other):
                return int(pid)
    return None
