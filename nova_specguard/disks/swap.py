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

"""A finished copy takes a disk's place.

At every moment, ``disk`` is the old file or the new one, and whole.
"""

import os
import shutil

from oslo_utils import fileutils

from nova_specguard import exception

COPY = '.specguard-new'
OLD = '.specguard-old'


def tidy(disk):
    """Remove what a repair that was killed has left.

    :param disk: path of the disk
    """
    fileutils.delete_if_exists(disk + COPY)
    # killed after the old file had got its second name, before the exchange
    if os.path.lexists(disk + OLD) and os.path.samefile(disk, disk + OLD):
        os.unlink(disk + OLD)


def check_none_kept(disk):
    """Make sure that no file from before an earlier repair is kept.

    :param disk: path of the disk
    :raises NotRepairable: if there is one
    """
    if os.path.lexists(disk + OLD):
        raise _kept(disk)


def discard_old(disk):
    """Remove the file from before a repair, for good.

    :param disk: path of the disk
    """
    fileutils.delete_if_exists(disk + OLD)
    _sync(os.path.dirname(disk))


def put(disk, keeps_old):
    """Put the copy in the place of the disk.

    It is on the disk, with the owner, mode and extended attributes of the old
    file, before it gets the name.

    :param disk: path of the disk
    :param keeps_old: whether the old file stays under another name
    :raises NotRepairable: if there is one of that name already
    :raises OSError: if it cannot be done; nothing has changed then
    """
    copy = disk + COPY
    status = os.stat(disk)
    os.chown(copy, status.st_uid, status.st_gid)
    shutil.copystat(disk, copy)
    # That of the old file would hide the change from backups.
    os.utime(copy)
    _sync(copy)
    if keeps_old:
        try:
            os.link(disk, disk + OLD)
        except FileExistsError:
            raise _kept(disk)
    try:
        os.rename(copy, disk)
    except OSError:
        if keeps_old:
            os.unlink(disk + OLD)
        raise
    if not keeps_old:
        fileutils.delete_if_exists(disk + OLD)
    _sync(os.path.dirname(disk))


def _kept(disk):
    return exception.NotRepairable(
        reason='%s of an earlier repair is still there: look at it, and give '
               '--discard-old' % (disk + OLD))


def _sync(path):
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
