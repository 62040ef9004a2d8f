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

"""What can be said of an image file before any tool of qemu opens it."""

import errno
import os
import stat
import struct

from nova_specguard import exception

# docs/interop/qcow2.txt in qemu
_QCOW2 = b'QFI\xfb'
_VERSION = struct.Struct('>I')
_VERSION_AT = 4
_FEATURES = struct.Struct('>Q')
_FEATURES_AT = 72
_DATA_FILE = 1 << 2
_LENGTH = _FEATURES_AT + _FEATURES.size

QCOW2, RAW = 'qcow2', 'raw'

# How images of formats begin that can name other files.
_NAMING = {
    _QCOW2: QCOW2, b'QED\0': 'qed', b'KDMV': 'vmdk', b'COWD': 'vmdk',
    b'# Disk DescriptorFile': 'vmdk', b'conectix': 'vpc', b'vhdxfile': 'vhdx'}


def check(path, image_format):
    """Make sure that qemu-img can be given a file.

    qemu before 9.1 opens the external data file of an image only to show what
    is in the header.

    :param path: absolute path of the file
    :param image_format: QCOW2 or RAW, as it is on record
    :raises DiskMissing: if there is none
    :raises DiskUnreadable: if it cannot be read
    :raises DiskUnsafe: if it is no regular file or not of this format, or has
        an external data file
    """
    start = _read(path)
    if image_format == RAW:
        return
    if not start.startswith(_QCOW2) or len(start) < _LENGTH:
        raise exception.DiskFormatOther(path=path, format=image_format)
    version, = _VERSION.unpack_from(start, _VERSION_AT)
    features, = _FEATURES.unpack_from(start, _FEATURES_AT)
    if version > 2 and features & _DATA_FILE:
        raise exception.DiskDataFile(path=path)


def naming_format(path):
    """The format, able to name other files, that a file seems to be of.

    :param path: absolute path of the file
    :returns: qemu's name of it, or None
    :raises DiskMissing: if there is none
    :raises DiskUnreadable: if it cannot be read
    :raises DiskNotAFile: if it is no regular file
    """
    start = _read(path)
    return next((name for magic, name in _NAMING.items()
                 if start.startswith(magic)), None)


def _read(path):
    """Read the start of a regular file; wait for nothing."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK |
                         os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise exception.DiskMissing(path=path) from None
    except OSError as exc:
        # of a link, a socket
        if exc.errno in (errno.ELOOP, errno.ENXIO):
            raise exception.DiskNotAFile(path=path) from None
        raise exception.DiskUnreadable(
            path=path, cause=exc.strerror) from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise exception.DiskNotAFile(path=path)
        return os.pread(handle, _LENGTH, 0)
    except OSError as exc:
        raise exception.DiskUnreadable(
            path=path, cause=exc.strerror) from None
    finally:
        os.close(handle)
