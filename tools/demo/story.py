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

"""What the demonstration prints: paragraphs, log lines, the closing table."""

import os
import textwrap
import time

BREACH = 'BREACH'
_RED, _GREEN, _BOLD, _FAINT = '31;1', '32', '1', '2'
_COLUMNS = ('step', 'expected', 'happened', 'ok?')


class Story:
    """Tells what happens, and keeps the score.

    :param out: the stream to write to, which a nova test may not replace
    """

    def __init__(self, out):
        self._out = out
        self._started = time.monotonic()
        self._scene = 0
        self._steps = []
        if os.environ.get('NO_COLOR'):
            self._is_coloured = False
        else:
            self._is_coloured = bool(
                os.environ.get('FORCE_COLOR') or out.isatty())

    def _coloured(self, colour, text):
        return '\033[%sm%s\033[0m' % (colour, text) if (
            self._is_coloured and colour) else text

    def _print(self, text=''):
        print(text, file=self._out, flush=True)

    def _paragraph(self, text, colour=None):
        for line in textwrap.wrap(' '.join(text.split()), 79):
            self._print(self._coloured(colour, line))

    def scene(self, title):
        self._scene += 1
        self._print()
        self._paragraph('%d. %s' % (self._scene, title), _BOLD)

    def tell(self, text):
        self._paragraph(text)

    def good(self, text):
        self._paragraph(text, _GREEN)

    def breach(self, text):
        self._paragraph('%s: %s' % (BREACH, text), _RED)

    def quote(self, lines):
        """Show what is found elsewhere as it is: rows, log lines."""
        for line in lines:
            self._print('  ' + self._coloured(_FAINT, line))

    def step(self, name, expected, happened):
        """Score a step; it is right if what happened is what was expected."""
        self._steps.append(
            ('%d %s' % (self._scene, name), expected, happened,
             'yes' if happened == expected else 'NO'))

    def end(self):
        """Print the table.

        :returns: whether all steps ended as they should
        """
        rows = [_COLUMNS, *self._steps]
        widths = [max(map(len, column)) for column in zip(*rows)]
        rows.insert(1, tuple('-' * width for width in widths))
        self._print()
        for row in rows:
            cells = [self._coloured(_colour_of(cell), cell.ljust(width))
                     for cell, width in zip(row, widths)]
            self._print('  '.join(cells).rstrip())
        good = [step for step in self._steps if step[-1] == 'yes']
        self._print()
        self._paragraph('%d of %d steps ended as they should, in %.0f seconds.'
                        % (len(good), len(self._steps),
                           time.monotonic() - self._started))
        return len(good) == len(self._steps)


def _colour_of(cell):
    if BREACH in cell or cell == 'NO':
        return _RED
    return _GREEN if cell == 'yes' else None
