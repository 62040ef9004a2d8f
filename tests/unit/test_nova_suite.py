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

import contextlib
import io
import os
import tempfile

import subunit
import testtools

from tests.nova_suite import compare

Verdict = compare.Verdict

PASSED = compare.Outcome('passed', ['SPECGUARD-002 service=nova-scheduler'])
FAILED = compare.Outcome('failed', traceback='the traceback')
SKIPPED = compare.Outcome('skipped')

DRIFT = 'SPECGUARD-103 operation=evacuate fields=image instance=an-instance'
FAULT = 'SPECGUARD-202 operation=evacuate error=KeyError'


def logged(*lines, status='passed'):
    return compare.Outcome(status, list(lines))


class JudgeTest(testtools.TestCase):

    def assert_verdict(self, verdict, baseline, guarded, expected=(),
                       again=False):
        """:returns: what is said about it"""
        found, remarks = compare.judge(baseline, guarded, dict(expected))
        self.assertIs(verdict, found)
        self.assertEqual(again, compare.deserves_another_run(
            baseline, guarded, dict(expected)))
        return '\n'.join(remarks)

    def test_passes_with_and_without_the_guard(self):
        self.assertEqual(
            '', self.assert_verdict(Verdict.PASSED, [PASSED], [PASSED]))

    def test_passes_with_the_guard_only(self):
        self.assert_verdict(Verdict.PASSED, [FAILED], [PASSED])
        self.assert_verdict(Verdict.PASSED, [], [PASSED])

    def test_fails_with_the_guard_only(self):
        self.assertIn('the traceback', self.assert_verdict(
            Verdict.FAILED, [PASSED], [FAILED], again=True))

    def test_fails_without_the_guard_too(self):
        self.assert_verdict(Verdict.BASELINE, [FAILED], [FAILED])

    def test_failure_is_expected(self):
        self.assertEqual('a reason', self.assert_verdict(
            Verdict.EXPECTED, [PASSED], [FAILED], {'fails': 'a reason'}))

    def test_fails_with_the_guard_twice(self):
        compare_again = compare.judge(
            [PASSED, PASSED], [FAILED, FAILED], {})
        self.assertIs(Verdict.FAILED, compare_again[0])
        self.assertIn('2 of 2 runs failed', compare_again[1][0])

    def test_passes_when_run_again(self):
        self.assertIn('run again', self.assert_verdict(
            Verdict.PASSED, [PASSED, PASSED], [FAILED, PASSED]))

    def test_fails_without_the_guard_when_run_again(self):
        self.assert_verdict(
            Verdict.BASELINE, [PASSED, FAILED], [FAILED, FAILED])

    def test_skipped(self):
        self.assert_verdict(Verdict.SKIPPED, [SKIPPED], [SKIPPED])

    def test_skipped_with_the_guard_only(self):
        self.assert_verdict(Verdict.FAILED, [PASSED], [SKIPPED])

    def test_not_run_with_the_guard(self):
        self.assertIn(compare.NOT_RUN, self.assert_verdict(
            Verdict.FAILED, [PASSED], [], again=True))

    def test_scheduler_without_the_guard(self):
        for status in ('passed', 'failed', 'skipped'):
            self.assert_verdict(
                Verdict.FAILED, [FAILED],
                [logged(compare.UNGUARDED, status=status)],
                {'fails': 'a reason', compare.UNGUARDED: 'a reason'},
                again=status == 'failed')

    def test_false_alarm(self):
        self.assertEqual(DRIFT, self.assert_verdict(
            Verdict.FAILED, [PASSED], [logged(DRIFT)]))

    def test_false_alarm_of_a_test_that_fails_anyway(self):
        self.assert_verdict(
            Verdict.FAILED, [FAILED], [logged(DRIFT, status='failed')],
            {'fails': 'a reason'}, again=True)

    def test_false_alarm_in_one_of_two_runs(self):
        self.assert_verdict(
            Verdict.FAILED, [PASSED, PASSED],
            [logged(DRIFT, status='failed'), PASSED])

    def test_alert_is_expected(self):
        for what in ('SPECGUARD-103', 'SPECGUARD-103 fields=image'):
            self.assertEqual('a reason', self.assert_verdict(
                Verdict.PASSED, [PASSED], [logged(DRIFT)],
                {what: 'a reason'}))

    def test_another_alert_is_expected(self):
        for what in ('fails', 'SPECGUARD-101', 'SPECGUARD-103 fields=flavor'):
            self.assert_verdict(
                Verdict.FAILED, [PASSED], [logged(DRIFT)],
                {what: 'a reason'})

    def test_fault_is_never_expected(self):
        self.assert_verdict(
            Verdict.FAILED, [PASSED], [logged(FAULT)],
            {'SPECGUARD-202': 'a reason', FAULT: 'a reason'})

    def test_life_signs_are_no_alerts(self):
        self.assert_verdict(
            Verdict.PASSED, [PASSED],
            [logged('SPECGUARD-001 service=nova-scheduler checked=1')])


class ReportTest(testtools.TestCase):

    def report(self, *args):
        """:returns: whether nothing failed, the last line"""
        with contextlib.redirect_stdout(io.StringIO()) as output:
            succeeded = compare.report(*args)
        return succeeded, output.getvalue().splitlines()[-1]

    def test_counts_tests_with_the_guard(self):
        self.assertEqual((False, '2 passed, 1 failed'), self.report(
            {'a': [PASSED], 'b': [FAILED], 'c': [PASSED], 'd': [FAILED],
             'e': [SKIPPED], 'f': [PASSED]},
            {'a': [PASSED], 'b': [PASSED], 'c': [FAILED], 'd': [FAILED],
             'e': [SKIPPED], 'f': [FAILED]},
            {'f': {'fails': 'a reason'}}))

    def test_all_is_well(self):
        self.assertEqual(
            (True, '1 passed, 0 failed'),
            self.report({'a': [PASSED]}, {'a': [PASSED]}, {}))

    def test_nothing_passed(self):
        failed = logged(*PASSED.lines, status='failed')
        self.assertEqual(
            (False, '0 passed, 1 failed'),
            self.report({'a': [FAILED]}, {'a': [failed]}, {}))

    def test_nobody_asked_the_guard(self):
        self.assertEqual(
            (False, '1 passed, 1 failed'),
            self.report({'a': [PASSED]}, {'a': [logged()]}, {}))


class ExpectedTest(testtools.TestCase):

    def test_read(self):
        self.assertEqual(
            {'a.Test.test_a': {'fails': 'it says: no', 'SPECGUARD-103 x=y':
                               'another reason'},
             'a.Test.test_b': {'fails': 'a third'}},
            compare.read_expected([
                '# a comment\n', '\n', 'a.Test.test_a\n',
                '    fails: it says: no\n',
                '    SPECGUARD-103 x=y: another reason\n',
                'a.Test.test_b\n', '    fails: a third\n']))

    def test_test_or_reason_is_missing(self):
        for lines in (['a.Test.test_a', '    fails'], ['  fails: a reason'],
                      ['a.Test.test_a', '    fails:'],
                      ['a.Test.test_a', '    operation=evacuate: a reason'],
                      ['a.Test.test_a', '    : a reason']):
            self.assertRaises(ValueError, compare.read_expected, lines)

    def test_file_can_be_read(self):
        with open(compare.EXPECTED) as lines:
            compare.read_expected(lines)


class StreamTest(testtools.TestCase):

    def read(self, *events):
        stream = io.BytesIO()
        writer = subunit.StreamResultToBytes(stream)
        for event in events:
            writer.status(**event)
        handle, path = tempfile.mkstemp()
        self.addCleanup(os.unlink, path)
        with os.fdopen(handle, 'wb') as file:
            file.write(stream.getvalue())
        return compare.read_streams([path])

    def test_statuses(self):
        outcomes = self.read(*(
            {'test_id': status, 'test_status': status}
            for status in ('exists', 'success', 'xfail', 'skip', 'fail',
                           'uxsuccess', 'inprogress')))
        self.assertEqual(
            {'success': ['passed'], 'xfail': ['passed'], 'skip': ['skipped'],
             'fail': ['failed'], 'uxsuccess': ['failed'],
             'inprogress': ['failed']},
            {test: [run.status for run in runs]
             for test, runs in outcomes.items()})

    def test_log_and_traceback(self):
        details = {compare.DETAIL: b'a line\nanother', 'traceback': b'where'}
        outcomes = self.read(
            *({'test_id': 'a', 'file_name': name, 'file_bytes': text,
               'mime_type': 'text/plain;charset=utf8', 'eof': True}
              for name, text in details.items()),
            {'test_id': 'a', 'test_status': 'fail'})
        self.assertEqual(
            {'a': [compare.Outcome('failed', ['a line', 'another'],
                                   'where')]},
            outcomes)
