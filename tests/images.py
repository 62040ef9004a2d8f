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

"""Disk images, made by qemu's own programs."""

import json
import os
import subprocess

KIBIBYTE = 1024
MEBIBYTE = 1024 ** 2


def run(*command):
    """Run a program.

    :returns: what it has written to stdout
    :raises CalledProcessError: if it fails
    """
    return subprocess.run(command, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=True).stdout


def create(path, size, base=None, image_format='qcow2', base_format='raw',
           options=()):
    """Create an image.

    :param size: in bytes
    :param base: path of its backing file
    """
    backing = ('-b', base, '-F', base_format) if base else ()
    run('qemu-img', 'create', '-q', '-f', image_format, *backing, *options,
        path, str(size))


def write(path, *writes, image_format='qcow2', options=''):
    """A guest writes.

    :param writes: (value of each byte, start, length)
    """
    commands = []
    for write in writes:
        commands += ['-c', 'write %s -P %d %d %d' % (options, *write)]
    run('qemu-io', '-f', image_format, *commands, path)


def info(path):
    return json.loads(run(
        'qemu-img', 'info', '--output=json', '-f', 'qcow2', path))


class Content:
    """What a guest sees in a disk now, kept."""

    def __init__(self, disk, kept):
        """Keep it.

        :param disk: path of a qcow2 image
        :param kept: path of a new file
        """
        self._kept = kept
        run('qemu-img', 'convert', '-f', 'qcow2', '-O', 'qcow2', disk, kept)

    def is_in(self, disk):
        """Whether it is in a disk: all of it and nothing else.

        :param disk: path of a qcow2 image, which is opened as a guest would
        """
        if info(disk)['virtual-size'] != info(self._kept)['virtual-size']:
            return False
        return subprocess.run(
            ('qemu-img', 'compare', '-q', '-f', 'qcow2', '-F', 'qcow2', disk,
             self._kept)).returncode == 0


class Story:
    """The disk of LP#1732428, step by step.

    A server was booted from an image, shelved and unshelved by a nova that did
    not rebase, and written to before and after.

    :ivar original: path of the base that it was booted from, in the cache
    :ivar snapshot: path of the base that it stands on, in the cache
    :ivar disk: path of its disk
    """

    def __init__(self, folder, size=24 * MEBIBYTE, options=(),
                 names=('original', 'snapshot', 'server')):
        """Make it.

        :param folder: path of instances_path
        :param size: of the disk, in bytes
        :param options: of qemu-img create for the disk
        :param names: names of the two bases, and of the server's folder
        """
        self.original = os.path.join(folder, '_base', names[0])
        self.snapshot = os.path.join(folder, '_base', names[1])
        self.disk = os.path.join(folder, names[2], 'disk')
        for path in (self.original, self.disk):
            os.mkdir(os.path.dirname(path))
        create(self.original, 16 * MEBIBYTE, image_format='raw')
        write(self.original, *(
            (1 + number, number * 2 * MEBIBYTE, MEBIBYTE)
            for number in range(6)), image_format='raw')
        create(self.disk, size, self.original)
        write(self.disk, (21, MEBIBYTE // 2, MEBIBYTE),
              (0, 4 * MEBIBYTE, 64 * KIBIBYTE))
        # shelve: nova flattens the disk to an image, and deletes it
        image = os.path.join(folder, 'uploaded')
        run('qemu-img', 'convert', '-f', 'qcow2', '-O', 'qcow2', self.disk,
            image)
        os.unlink(self.disk)
        # unshelve: it fetches that into the cache, as raw
        run('qemu-img', 'convert', '-f', 'qcow2', '-O', 'raw', image,
            self.snapshot)
        os.unlink(image)
        create(self.disk, size, self.snapshot, options=options)
        write(self.disk, (31, 6 * MEBIBYTE, 200 * KIBIBYTE),
              (0, 2 * MEBIBYTE, 128 * KIBIBYTE),
              (32, size - MEBIBYTE, MEBIBYTE // 2))
