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

"""Running nova-specguard in the test's process."""

import gc
import io
import logging
import sys
from unittest import mock

import fixtures
from nova import config
from oslo_config import cfg
from oslo_log import log as oslo_logging

from nova_specguard.cmd import databases
from nova_specguard.cmd import main
from tests.unit import cloud
from tests.unit import test_instances


class Terminal(io.StringIO):

    def isatty(self):
        return True


# A colour, the start of a line, another direction of writing, and more.
HOSTILE = 'a\x1b[31m\r\n\u202e\x9b\u200b\udce9b'
ESCAPED = r'a\u001b[31m\r\n\u202e\u009b\u200b\udce9b'


class Program:
    """To be mixed into a test case, in front of it."""

    def setUp(self):
        # Before anybody parses arguments.
        oslo_logging.register_options(cfg.CONF)
        super().setUp()
        self.parse_args = self.useFixture(
            fixtures.MockPatchObject(config, 'parse_args')).mock
        self.useFixture(fixtures.MockPatchObject(databases, 'configure'))
        self.addCleanup(gc.unfreeze)
        root = logging.getLogger()
        self.addCleanup(root.setLevel, root.level)
        self.addCleanup(setattr, root, 'handlers', root.handlers)
        root.handlers = []
        for name in ('nova', 'oslo', 'oslo_config', 'oslo_db',
                     'oslo_messaging', 'sqlalchemy', 'stevedore'):
            logger = logging.getLogger(name)
            self.addCleanup(logger.setLevel, logger.level)

    def run_command(self, *arguments, terminal=False):
        """Run the program.

        :returns: its exit code
        """
        self.stdout = io.StringIO()
        self.stderr = Terminal() if terminal else io.StringIO()
        # argparse and formatters write to these themselves
        with mock.patch.object(sys, 'stdout', self.stdout):
            with mock.patch.object(sys, 'stderr', self.stderr):
                code = main.main(list(arguments))
        for stream in (self.stdout, self.stderr):
            self.assertNotIn(test_instances.PASSWORD, stream.getvalue())
        return code

    def assert_printable(self):
        """Nothing that was printed does anything to a terminal."""
        for stream in (self.stdout, self.stderr):
            self.assertTrue(
                stream.getvalue().replace('\n', '').isprintable(),
                ascii(stream.getvalue()))


class CommandTestCase(Program, cloud.CloudTestCase):
    pass
