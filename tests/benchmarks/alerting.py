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

"""How many lines a second mtail reads with our program.

Prints a table in reStructuredText; exits with 1 if the bar is not held.
"""

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from tests.alerting import base
from tests.alerting import chain
from tests.benchmarks import guard

ROUNDS = 3
BAR = 2000
CODES = 11


def burst(directory, count):
    """Have alerts of every code logged through rsyslog.

    :param count: how many of each
    :returns: list of the lines
    """
    with (chain.Rsyslog(directory) as rsyslog,
          chain.Burst(rsyslog.socket, count) as running):
        expected = running.expected()
        # an alert, or what looks like one
        total = sum(expected['alerts'].values()) + count

        def lines():
            with open(rsyslog.output) as file:
                found = file.readlines()
            return found if len(found) >= total else None

        return chain.eventually(lines, 'last line')


def read(path, directory):
    """Have mtail read a file to its end.

    :returns: (seconds by the clock, seconds of the processors)
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    subprocess.run(
        [base.program('mtail'), '--one_shot', '--logtostderr',
         '--unix_socket', os.path.join(
             directory, str(time.monotonic_ns())),
         '--progs', base.path('specguard.mtail'), '--logs', path],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    clock = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return clock, (after.ru_utime + after.ru_stime -
                   before.ru_utime - before.ru_stime)


def measure(lines, directory):
    """Measure some times, without the start of mtail.

    :returns: (lines a second by the clock, by the processors)
    """
    paths = []
    for name, written in (('empty', ()), ('full', lines)):
        paths.append(os.path.join(directory, name))
        with open(paths[-1], 'w') as file:
            file.writelines(written)
    rates = []
    for _round in range(ROUNDS):
        empty, full = (read(path, directory) for path in paths)
        rates.append([len(lines) / (after - before)
                      for before, after in zip(empty, full)])
    return [statistics.median(values) for values in zip(*rates)]


def main():
    parser = argparse.ArgumentParser(
        prog='tools/benchmark.sh alerting',
        description=__doc__.splitlines()[0])
    parser.add_argument(
        '--events', type=int, default=2000,
        help='how many alerts of each code; default: 2000')
    events = parser.parse_args().events
    print('%s, Python %s\n' % (
        subprocess.run([base.program('mtail'), '--version'], check=True,
                       stdout=subprocess.PIPE, text=True).stdout.strip(),
        platform.python_version()))
    rows, held = [], []
    with tempfile.TemporaryDirectory() as directory:
        lines = burst(directory, events)
        others = [line for line in lines if ' nova.api ' in line]
        alerts = [line for line in lines if ' nova.api ' not in line]
        for name, chosen in (('alerts', alerts),
                             ('other lines', others * CODES)):
            clock, processor = measure(chosen, directory)
            held.append(processor >= BAR)
            rows.append((name, len(chosen), '%.0f' % clock,
                         '%.0f' % processor, BAR, guard.verdict(held[-1])))
    print(guard.table(
        ('What', 'Lines', 'Lines/s', 'Lines/s of CPU', 'Bar', 'Verdict'),
        rows))
    return 0 if all(held) else 1


if __name__ == '__main__':
    sys.exit(main())
