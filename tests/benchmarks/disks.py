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

"""How fast the audit of disks is, beside a bare loop of the same qemu-img.

Fills a folder as nova's with servers, and goes through it in turn: the audit,
a loop that runs qemu-img once for the whole chain of each disk, and a loop
that runs it once for each file of each chain, which is safe where the first is
not. Prints a table in reStructuredText; exits with 1 if a bar is not held.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time

from nova import version

from nova_specguard.disks import audit
from nova_specguard.disks import findings
from tests.benchmarks import guard
from tests import compute_host

ROUNDS = 3
BAR = 2
# Servers of one image.
_ALIKE = 50

_QEMU_IMG = ('qemu-img', 'info', '--force-share', '--output=json')


def fill(host, count):
    """Make the folders, each with a qcow2 disk and a config drive.

    :returns: list of (path of the disk, path of its base)
    """
    made = []
    for number in range(0, count, _ALIKE):
        image = 'image %d' % number
        base = host.add_base(compute_host.base_name(image))
        first = host.add_server(
            {'disk': {'base': base}, 'disk.config': {'image_format': 'raw'}},
            image_ref=image)
        made.append((host.folder(first, 'disk'), base))
        for _other in range(min(_ALIKE, count - number) - 1):
            uuid = host.add_server(image_ref=image)
            for name in ('disk', 'disk.config'):
                shutil.copy(host.folder(first, name), host.folder(uuid, name))
            host.record(uuid, {'disk': 'qcow2', 'disk.config': 'raw'})
            made.append((host.folder(uuid, 'disk'), base))
    return made


def _info(*arguments):
    return json.loads(subprocess.run(
        _QEMU_IMG + arguments, stdout=subprocess.PIPE, check=True).stdout)


def whole_chains(made):
    for disk, _base in made:
        _info('-f', 'qcow2', '--backing-chain', disk)


def each_file(made):
    for disk, base in made:
        _info('-f', 'qcow2', disk)
        _info('-f', 'raw', base)


def audited(host, count):
    running = audit.Audit(host.facts, host.path)
    clean = [finding for finding in running.run(lambda: None)
             if finding.state == findings.CLEAN]
    if len(clean) != count:
        sys.exit('%d of %d disks are clean' % (len(clean), count))


def measure(count):
    """Measure with a number of folders.

    :returns: whether the bar is held
    """
    rates = {}
    with compute_host.Unprivileged(), compute_host.ComputeHost() as host:
        made = fill(host, count)
        for _round in range(ROUNDS):
            for name, function, arguments in (
                    ('loop, whole chains', whole_chains, (made,)),
                    ('audit', audited, (host, count)),
                    ('loop, each file', each_file, (made,))):
                began = time.monotonic()
                function(*arguments)
                rates.setdefault(name, []).append(
                    count / (time.monotonic() - began))
    rows, held = [], []
    for name, bar in (('loop, whole chains', BAR), ('loop, each file', BAR),
                      ('audit', None)):
        ratio = statistics.median(
            ours / theirs
            for ours, theirs in zip(rates['audit'], rates[name]))
        held.append(bar is None or ratio >= bar)
        rows.append((name, '%.0f' % statistics.median(rates[name]),
                     '%.2f' % ratio, bar or '',
                     guard.verdict(held[-1]) if bar else ''))
    print(guard.table(('What', 'Folders/s', 'Audit by it', 'Bar', 'Verdict'),
                      rows))
    return all(held)


def main():
    parser = argparse.ArgumentParser(
        prog='tools/benchmark.sh disks', description=__doc__.splitlines()[0])
    parser.add_argument(
        'folders', type=int, nargs='?', default=1000,
        help='how many servers have a folder; default: 1000')
    count = parser.parse_args().folders
    print('nova %s, Python %s, %d cores, %s' % (
        version.version_string(), platform.python_version(), os.cpu_count(),
        subprocess.run(('qemu-img', '--version'), text=True,
                       stdout=subprocess.PIPE).stdout.splitlines()[0]))
    return 0 if measure(count) else 1


if __name__ == '__main__':
    sys.exit(main())
