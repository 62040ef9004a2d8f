# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Comparison of nova's tests with the guard and without it.

Of the streams that stestr writes, the first pair is of all tests, and a second
one is of those that were worth another run.
"""

import argparse
import collections
import dataclasses
import enum
import os
import re
import sys

import subunit
import testtools

EXPECTED = os.path.join(os.path.dirname(__file__), 'expected.txt')

# What a test with the guard brings along: the log of the guard.
DETAIL = 'specguard'
UNGUARDED = 'a scheduler ran without the guard'
NOT_RUN = 'was not run with the guard'

_ALERT = re.compile(r'SPECGUARD-[1-9]\d\d\b')
_NEVER_EXPECTED = 'SPECGUARD-202'
_SERVICE = re.compile(r'SPECGUARD-002 service=(\S+)')


class Verdict(enum.Enum):
    PASSED = 'passed'
    SKIPPED = 'skipped'
    EXPECTED = 'expected'
    BASELINE = 'fails without the guard too'
    FAILED = 'FAILED'


@dataclasses.dataclass
class Outcome:
    """How one run of a test ended."""

    status: str
    lines: list = dataclasses.field(default_factory=list)
    traceback: str = ''


def judge(baseline, guarded, expected):
    """What the runs of one test say about the guard.

    :param baseline: outcomes without the guard, in order
    :param guarded: outcomes with the guard, in order
    :param expected: dict of what is expected to its reason
    :returns: Verdict, list of what to say about it
    """
    lines = [line for outcome in guarded for line in outcome.lines]
    wrong, known = [], []
    for line in lines:
        if line == UNGUARDED:
            wrong.append(line)
        elif _ALERT.match(line):
            reason = _reason(line, expected)
            (known if reason else wrong).append(reason or line)
    if not guarded:
        wrong.append(NOT_RUN)
    if wrong:
        return Verdict.FAILED, wrong

    last = guarded[-1]
    failed_baseline = any(run.status == 'failed' for run in baseline)
    if last.status == 'failed':
        if failed_baseline:
            return Verdict.BASELINE, known
        if 'fails' in expected:
            return Verdict.EXPECTED, [expected['fails']] + known
        return Verdict.FAILED, [
            '%d of %d runs failed with the guard, 0 of %d without it' % (
                sum(run.status == 'failed' for run in guarded),
                len(guarded), len(baseline)), last.traceback]
    if last.status == 'skipped':
        if baseline and baseline[-1].status == 'passed':
            return Verdict.FAILED, ['skipped with the guard only']
        return Verdict.SKIPPED, known
    if len(baseline) > 1 or len(guarded) > 1:
        known.append('passed when it was run again, not in the first run')
    return Verdict.PASSED, known


def _reason(line, expected):
    if line.startswith(_NEVER_EXPECTED):
        return None
    words = set(line.split())
    return next((reason for what, reason in expected.items()
                 if words.issuperset(what.split())), None)


def deserves_another_run(baseline, guarded, expected):
    """Whether it can be chance that a test failed with the guard only."""
    return (judge(baseline, guarded, expected)[0] is Verdict.FAILED and
            (not guarded or guarded[-1].status == 'failed'))


def read_expected(lines):
    """Parse the list of what is expected of nova's tests.

    :returns: dict of test id to dict of what is expected to its reason
    """
    expected = collections.defaultdict(dict)
    test = None
    for line in lines:
        text = line.strip()
        if not text or text.startswith('#'):
            continue
        if not line[0].isspace():
            test = text
            continue
        what, separator, reason = text.partition(': ')
        if not (test and separator and
                (what == 'fails' or _ALERT.match(what))):
            raise ValueError('neither a test nor "what: reason": %s' % text)
        expected[test][what] = reason
    return expected


def read_streams(paths):
    """Collect the outcomes of each test.

    A test that began and never ended is a failed one.

    :returns: dict of test id to its outcomes, in the order of the streams
    """
    outcomes = collections.defaultdict(list)
    statuses = {'success': 'passed', 'xfail': 'passed', 'skip': 'skipped'}

    def ended(test):
        if test['status'] == 'exists':
            # stestr announces what it is about to run.
            return
        details = {name: test['details'][name].as_text()
                   for name in {DETAIL, 'traceback'} & set(test['details'])}
        outcomes[test['id']].append(Outcome(
            statuses.get(test['status'], 'failed'),
            details.get(DETAIL, '').splitlines(),
            details.get('traceback', '')))

    for path in paths:
        result = testtools.StreamToDict(ended)
        result.startTestRun()
        with open(path, 'rb') as stream:
            subunit.ByteStreamToStreamResult(
                stream, non_subunit_name='text').run(result)
        result.stopTestRun()
    return outcomes


def _summary(outcomes):
    statuses = collections.Counter(
        runs[-1].status for runs in outcomes.values())
    return ', '.join('%d %s' % (statuses[status], status)
                     for status in ('passed', 'failed', 'skipped'))


def _services(outcomes):
    """How many tests each service asked the guard in."""
    counts = collections.Counter()
    for runs in outcomes.values():
        found = _SERVICE.findall('\n'.join(runs[-1].lines))
        counts.update(set(found))
    return counts


def report(baseline, guarded, expected):
    """Print what the runs of all tests say about the guard.

    :returns: whether nothing speaks against it
    """
    counts = collections.Counter()
    for test in sorted(baseline.keys() | guarded.keys()):
        verdict, remarks = judge(baseline.get(test, []),
                                 guarded.get(test, []),
                                 expected.get(test, {}))
        counts[verdict] += 1
        if verdict not in (Verdict.PASSED, Verdict.SKIPPED) or remarks:
            print('%s: %s' % (verdict.value, test))
            for line in '\n'.join(remarks).splitlines()[-30:]:
                print('    ' + line)
    print('without the guard: ' + _summary(baseline))
    print('with the guard: ' + _summary(guarded))
    services = _services(guarded)
    for service, count in sorted(services.items()):
        print('%s asked the guard in %d tests' % (service, count))
    if not services:
        print('FAILED: nobody asked the guard')
        counts[Verdict.FAILED] += 1
    if not counts[Verdict.PASSED] + counts[Verdict.EXPECTED]:
        print('FAILED: no test passed with the guard')
        counts[Verdict.FAILED] += 1
    passed, failed = counts[Verdict.PASSED], counts[Verdict.FAILED]
    print('%d passed, %d failed' % (passed, failed))
    return not failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument(
        '--again', action='store_true',
        help='only list the tests that deserve another run')
    parser.add_argument('--baseline', action='append', default=[])
    parser.add_argument('--guarded', action='append', default=[])
    arguments = parser.parse_args()
    baseline = read_streams(arguments.baseline)
    guarded = read_streams(arguments.guarded)
    with open(EXPECTED) as lines:
        expected = read_expected(lines)
    if not arguments.again:
        return 0 if report(baseline, guarded, expected) else 1
    for test in sorted(baseline.keys() | guarded.keys()):
        if deserves_another_run(baseline.get(test, []), guarded.get(test, []),
                                expected.get(test, {})):
            print(test)
    return 0


if __name__ == '__main__':
    sys.exit(main())
