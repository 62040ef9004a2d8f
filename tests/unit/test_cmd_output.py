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

"""Output that has nowhere to go."""

import io
import os
import sys
from unittest import mock

import ddt
import fixtures
import testtools

from nova_specguard.cmd import main
from nova_specguard.cmd import output
from nova_specguard.cmd import status

FULL = 'cannot write the output: No space left on device\n'


def _print():
    print('text')
    return 3


def _interrupt():
    raise KeyboardInterrupt


class OutputTest(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.stderr = io.StringIO()
        self.useFixture(fixtures.MonkeyPatch('sys.stderr', self.stderr))

    def run_to(self, stream, program=_print):
        """Run a program.

        :returns: (exit code, what it says on stderr)
        """
        with mock.patch.object(sys, 'stdout', stream):
            return output.run(program, 127), self.stderr.getvalue()

    def test_all_is_well(self):
        stream = io.StringIO()
        self.assertEqual((3, ''), self.run_to(stream))
        self.assertEqual('text\n', stream.getvalue())

    def test_disk_that_is_full(self):
        with open('/dev/full', 'w') as stream:
            self.assertEqual((127, FULL), self.run_to(stream))

    def test_program_that_has_said_so(self):
        def failed():
            print('text')
            return 127
        with open('/dev/full', 'w') as stream:
            self.assertEqual((127, ''), self.run_to(stream, failed))

    def test_reader_that_has_gone(self):
        reader, writer = os.pipe()
        os.close(reader)
        with open(writer, 'w') as stream:
            self.assertEqual((141, ''), self.run_to(stream))

    def test_stdout_that_is_closed(self):
        self.assertEqual((127, 'stdout is closed\n'),
                         self.run_to(None, self.fail))

    def test_stderr_that_is_closed(self):
        with mock.patch.object(sys, 'stderr', None):
            self.assertEqual(3, self.run_to(io.StringIO())[0])
            sys.stderr.close()

    def test_stderr_that_is_full(self):
        with open('/dev/full', 'w') as stream:
            stream.write('text')
            with mock.patch.object(sys, 'stderr', stream):
                self.assertEqual(3, self.run_to(io.StringIO())[0])

    def test_interrupted(self):
        self.assertEqual((130, ''), self.run_to(io.StringIO(), _interrupt))


@ddt.ddt
class ProgramsTest(testtools.TestCase):

    @ddt.data((main, 127), (status, 255))
    @ddt.unpack
    def test_stdout_that_is_closed(self, program, code):
        with mock.patch.object(sys, 'stdout', None):
            self.assertEqual(code, program.main([]))
