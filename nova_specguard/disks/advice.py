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

"""What is safe now with a disk that was found, and when that ends."""

import os

from nova_specguard.disks import bases
from nova_specguard.disks import findings


def safe_until(drift_class, disk, read, cache):
    """Tell an operator what may be done.

    :param drift_class: DriftClass of the finding
    :param disk: name of the disk's file, as ``disk``
    :param read: nova_specguard.disks.chain.Chain
    :param cache: path of the folder of nova's image cache
    :returns: text
    """
    if drift_class is findings.HEADER:
        return ('all that nova does, which takes it for raw; ends with a tool '
                'that guesses the format')
    if drift_class is findings.UNSAFE:
        return ('nothing: do not start, move or snapshot the server before '
                'somebody has looked at the disk')
    if drift_class is findings.BASE_MISSING:
        return ('a guest that runs goes on, as long as it has the file still '
                'open; ends when it is stopped, rebooted hard or moved: it '
                'will not start again')
    if drift_class is findings.CHAIN and read.drift_class:
        return 'nothing: qemu can hardly open it'
    if drift_class is findings.CHAIN:
        return 'to run and to start here; %s' % ' '.join(
            _lower(path, cache) for path, _format in read.files[2:])
    return 'to run and to start here; ends when the server is moved: %s' % (
        _after_move(disk, read.base, cache))


def _after_move(disk, base, cache):
    if os.path.dirname(base) != cache:
        return 'nova does not take %s along' % base
    age = bases.min_age(os.path.basename(base))
    if age is None:
        return 'the other host has no %s' % os.path.basename(base)
    if disk == 'disk':
        return ('nova deletes %s here %d s after no disk has used it' % (
            base, age))
    # Of other disks than "disk", nova only knows the name that they should
    # have.
    return ('the other host has no %s; or earlier, as nova deletes it %d s '
            'after no server here should have a disk on it' % (
                os.path.basename(base), age))


def _lower(path, cache):
    if os.path.dirname(path) != cache:
        return 'nova does not know of %s, and moves the server without it.' % (
            path)
    age = bases.min_age(os.path.basename(path))
    if age is None:
        return 'nova does not move %s along.' % path
    return ('Nova does not see that %s is used, and deletes it %d s after no '
            'server here had its image and no disk stood directly on it.' % (
                path, age))
