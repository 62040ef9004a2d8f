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

"""What the documentation has people type and write, for tests to do it."""

import collections
import functools
import os
import re
import subprocess
import textwrap

import fixtures

SOURCE = os.path.join(
    os.path.dirname(os.path.dirname(__file__)), 'doc', 'source')
ON_CALL = 'operate/on-call.rst'
ALERTING = 'operate/alerting.rst'

_LOGS = '/var/log/nova'
_PLACEHOLDERS = ('INSTANCE', 'REQUEST_ID', 'JOURNAL', 'MAIN_PID', 'SILENCE_ID')
_UNDERLINE = re.compile(r'([-=])\1+$')
_DIRECTIVE = re.compile(r'( *)\.\. code-block:: (\w+)$')
_PROMPT = re.compile(r'[$#] ')

Block = collections.namedtuple('Block', 'section language text')


def blocks(page):
    """The code blocks of a page.

    :param page: path below doc/source
    :returns: list of Block; section is the title above it
    """
    with open(os.path.join(SOURCE, page)) as source:
        lines = source.read().splitlines()
    found = []
    section = None
    for number, line in enumerate(lines):
        if number and _UNDERLINE.match(line):
            section = lines[number - 1]
        directive = _DIRECTIVE.match(line)
        if directive:
            indent, language = directive.groups()
            found.append(Block(
                section, language, _body(lines[number + 1:], len(indent))))
    return found


def _body(lines, indent):
    body = []
    for line in lines:
        if line and not line.startswith(' ' * (indent + 1)):
            break
        body.append(line)
    return textwrap.dedent('\n'.join(body)).strip('\n') + '\n'


def commands(text):
    """The commands of a console block, without prompts.

    :param text: of the block
    :returns: list of lines
    """
    lines = re.sub(r'\\\n\s*', '', text).splitlines()
    return [line[2:] for line in lines if _PROMPT.match(line)]


def steps(page, section):
    """What a section has people do, in order.

    :param page: path below doc/source
    :param section: its title
    :returns: list of (language, text): one for each command, and one for each
        block of a configuration file
    """
    found = []
    for block in blocks(page):
        if block.section == section:
            if block.language == 'ini':
                found.append(('ini', block.text))
            elif block.language == 'console':
                found += [('console', line) for line in commands(block.text)]
    return found


def follows(section):
    """The test does all that a section of the page ON_CALL says.

    :param section: its title
    """
    def decorate(test):
        @functools.wraps(test)
        def follow(self, *args):
            self.steps = steps(ON_CALL, section)
            test(self, *args)
            self.assertEqual([], self.steps, 'left out')
        follow.section = section
        return follow
    return decorate


class Reader:
    """A person who reads the page. To be mixed into a test case.

    :ivar steps: what is still to be done in the section
    :ivar values: dict of placeholders of the page to what they stand for
    """

    def setUp(self):
        super().setUp()
        self.values = {}
        self.directory = self.useFixture(fixtures.TempDir()).path

    def do(self, beginning):
        """The next step of the section.

        :param beginning: how its text begins
        :returns: what the program of a command returns; of a shell's, output
        """
        language, text = self.steps.pop(0)
        self.assertEqual(beginning, text[:len(beginning)])
        if language == 'ini':
            return self.write_config(text)
        program = text.split()[0]
        return getattr(self, 'run_' + program.replace('-', '_'))(text)

    def filled_in(self, text):
        for name, value in self.values.items():
            text = re.sub(r'\b%s\b' % name, value, text)
        for name in _PLACEHOLDERS:
            self.assertNotRegex(text, r'\b%s\b' % name)
        return text

    def run_grep(self, text):
        text = self.filled_in(text).replace(_LOGS, self.directory)
        return subprocess.run(
            ['bash', '-c', text], check=True, capture_output=True,
            text=True).stdout
