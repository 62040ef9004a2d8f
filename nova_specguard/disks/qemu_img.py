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

"""qemu-img info, of one file, as nova runs it.

Nothing is probed, and nothing that a file names is opened.
"""

import dataclasses
import json
import os
import subprocess
import typing

from nova.privsep import qemu

from nova_specguard.disks import header
from nova_specguard import exception

# Seconds after which a file system is taken not to answer. Nova's limits are
# of processor time.
TIMEOUT = 60

# How messages begin.
_NOT_STARTED, _FAILED = 'prlimit: ', 'qemu-img: '


@dataclasses.dataclass(frozen=True)
class Info:
    """What the header of an image says.

    :ivar path: absolute path of the image
    :ivar format: header.QCOW2 or header.RAW, as it was given
    :ivar virtual_size: what a guest sees, in bytes
    :ivar backing_file: what is written there as the backing file, which can
        be anything; or None
    :ivar backing_format: its format as it is written there, or None
    :ivar is_encrypted: whether it is encrypted
    :ivar details: all that qemu-img says
    """

    path: str
    format: str
    virtual_size: int
    backing_file: typing.Optional[str]
    backing_format: typing.Optional[str]
    is_encrypted: bool
    details: dict


def info(path, image_format):
    """Read the header of one image; safe while a guest uses it.

    :param path: absolute path of the image
    :param image_format: header.QCOW2 or header.RAW, as it is on record; never
        probed
    :returns: Info
    :raises QemuImgAsRoot: if this process is root's
    :raises QemuImgMissing: if a program is not installed
    :raises DiskMissing: if there is no such file
    :raises DiskUnreadable: if it could not be read
    :raises DiskUnsafe: if no tool of qemu should open it
    """
    check_user()
    header.check(path, image_format)
    output = _run(path, image_format)
    try:
        details = json.loads(output)
        return Info(
            path=path, format=image_format,
            virtual_size=details['virtual-size'],
            backing_file=details.get('backing-filename'),
            backing_format=details.get('backing-filename-format'),
            is_encrypted=details.get('encrypted', False), details=details)
    except (ValueError, KeyError):
        raise exception.QemuImgFailed(
            path=path, cause='what it said could not be read') from None


def check_user():
    """Make sure that qemu-img is not run by root.

    :raises QemuImgAsRoot: if this process is root's
    """
    if os.geteuid() == 0:
        raise exception.QemuImgAsRoot()


def _run(path, image_format):
    # prlimit of util-linux takes the same arguments as that of
    # oslo.concurrency, for which a Python interpreter would be started.
    command = ['prlimit', *qemu.QEMU_IMG_LIMITS.prlimit_args(),
               'qemu-img', 'info', '--force-share', '--output=json',
               '-f', image_format, path]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, timeout=TIMEOUT,
            env={**os.environ, 'LC_ALL': 'C', 'LANG': 'C'})
    except FileNotFoundError:
        raise exception.QemuImgMissing(
            program='prlimit (package util-linux)') from None
    except subprocess.TimeoutExpired:
        raise exception.QemuImgTimedOut(
            path=path, timeout=TIMEOUT) from None
    if done.returncode < 0:
        raise exception.QemuImgOverLimits(path=path, signal=-done.returncode)
    if done.returncode:
        said = done.stderr.decode(errors='replace').strip()
        if said.startswith(_NOT_STARTED):
            raise exception.QemuImgMissing(
                program='qemu-img (package qemu-utils)')
        raise exception.QemuImgFailed(
            path=path, cause=' '.join(said.replace(_FAILED, '', 1).split()))
    return done.stdout
