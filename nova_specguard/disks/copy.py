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

"""Making a copy of a disk with qemu-img that stands on another base, or none.

No name of a file and no format that is written in an image is followed: each
call names the whole chain.
"""

import json
import os
import re
import subprocess
import tempfile

from nova.privsep import qemu
from oslo_concurrency import processutils
from oslo_utils import units

from nova_specguard import exception

_PROGRESS = re.compile(rb'\((\d+)\.\d+/100%\)\r?')
# An exit code of qemu-img check.
_LEAKS = 3


def name(chain):
    """What qemu-img is given in place of a file name.

    :param chain: list of (path, format), the disk first
    :returns: str
    """
    node = None
    for path, image_format in reversed(chain):
        below, node = node, {
            'driver': image_format,
            'file': {'driver': 'file', 'filename': path}}
        # raw knows no backing; null keeps qcow2 from opening what its header
        # names.
        if image_format == 'qcow2':
            node['backing'] = below
    return 'json:' + json.dumps(node)


class Copier:
    """qemu-img for one disk."""

    def __init__(self, virtual_size, is_direct, show):
        """Do nothing yet.

        :param virtual_size: of the disk, in bytes
        :param is_direct: whether to keep out of the host's page cache
        :param show: called with what is done and how much of it, in percent
        """
        # nova's limit of time is meant for reading a header.
        limits = qemu.QEMU_IMG_LIMITS
        self._limits = processutils.ProcessLimits(
            address_space=limits.address_space,
            cpu_time=limits.cpu_time * (1 + virtual_size // units.Gi))
        self._from = ['-T', 'none' if is_direct else 'writeback']
        self._to = ['-t', 'none' if is_direct else 'writeback', *self._from]
        self._show = show

    def measure(self, chain):
        """How much space a copy without a base needs.

        :param chain: list of (path, format), the image first
        :returns: (bytes for what is in it, bytes if it were full)
        :raises NotRepairable: if qemu-img fails
        """
        found = json.loads(self._run(
            'measure', '--output=json', '-O', 'qcow2', name(chain)))
        return found['required'], found['fully-allocated']

    def copy(self, source, target):
        """Copy a file byte by byte.

        :raises NotRepairable: if qemu-img fails
        """
        self._run('convert', '-p', *self._to, '-f', 'raw', '-O', 'raw',
                  source, target, step='copy')

    def rebase(self, chain, base):
        """Give an image another base, and keep what is in it.

        :param chain: list of (path, format), the image first
        :param base: (path, format)
        :raises NotRepairable: if qemu-img fails
        """
        self._run('rebase', '-p', *self._to, '-b', base[0], '-F', base[1],
                  name(chain), step='rebase')

    def flatten(self, chain, target, cluster_size):
        """Write what is in an image to a new one without a base.

        :param chain: list of (path, format), the image first
        :param target: path of the new file
        :param cluster_size: in bytes
        :raises NotRepairable: if qemu-img fails
        """
        self._run('convert', '-p', *self._to, '-O', 'qcow2',
                  '-o', 'cluster_size=%d' % cluster_size,
                  name(chain), target, step='flatten')

    def check(self, chain):
        """Make sure that an image is consistent; it may waste space.

        :param chain: list of (path, format), the image first
        :raises NotRepairable: if it is not, or qemu-img fails
        """
        self._run('check', *self._from, name(chain), step='check',
                  expected=(0, _LEAKS))

    def compare(self, chain, other):
        """Make sure that a guest sees the same in two images.

        :param chain: list of (path, format), the image first
        :param other: the same of the other image
        :raises NotRepairable: if it does not, or qemu-img fails
        """
        self._run('compare', '-p', *self._from, name(chain), name(other),
                  step='compare')

    def _run(self, command, *arguments, step=None, expected=(0,)):
        """Run qemu-img; it does not outlive this process.

        :returns: what it has written to its output
        """
        line = ['setpriv', '--pdeathsig', 'KILL', 'prlimit',
                *self._limits.prlimit_args(), 'qemu-img', command, *arguments]
        output = b''
        with tempfile.TemporaryFile() as errors, subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=errors, env={**os.environ, 'LC_ALL': 'C'}) as process:
            try:
                stdout = process.stdout.fileno()
                for chunk in iter(lambda: os.read(stdout, 4096), b''):
                    output += chunk
                    shown = _PROGRESS.findall(chunk)
                    if shown:
                        self._show(step, int(shown[-1]))
            except BaseException:
                process.kill()
                raise
            process.wait()
            errors.seek(0)
            said = errors.read()
        if process.returncode not in expected:
            raise exception.NotRepairable(reason='qemu-img %s: %s' % (
                command, _why(process.returncode, said or output)))
        return output


def _why(code, said):
    if code < 0:
        return ('ended by signal %d, which nova\'s limits do, [libvirt] '
                'images_cpu_time_limit and images_address_space_limit'
                % -code)
    lines = _PROGRESS.sub(b'', said).decode(errors='replace').split('\n')
    return ' '.join(line.strip() for line in lines if line.strip())
