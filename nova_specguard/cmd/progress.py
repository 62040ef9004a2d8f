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

"""A progress bar."""

import time

_WIDTH = 30
# Seconds between two drawings.
_INTERVAL = 0.2


class Bar:
    """Draws how far something is; on anything but a terminal nothing."""

    def __init__(self, stream, text=None):
        """Begin.

        :param stream: where to draw, usually stderr
        :param text: function as line() that makes the text
        """
        self._text = text or line
        self._stream = stream if stream.isatty() else None
        self._begun = self._drawn = time.monotonic()

    def show(self, done, total):
        """Draw, if it is time to.

        :param done: how many are done
        :param total: of how many
        """
        now = time.monotonic()
        if self._stream is None or now - self._drawn < _INTERVAL:
            return
        self._drawn = now
        self._stream.write('\r' + self._text(done, total, now - self._begun))
        self._stream.flush()

    def clear(self):
        """Leave the line as it was before."""
        if self._stream is not None:
            self._stream.write('\r\x1b[K')
            self._stream.flush()


def line(done, total, seconds):
    """The text of a progress bar.

    :param done: how many are done
    :param total: of how many
    :param seconds: since the beginning
    :returns: text of always the same length for the same total
    """
    done = min(done, total)
    rate = done / seconds if seconds else 0
    left = '%d:%02d' % divmod((total - done) / rate, 60) if rate else '-:--'
    return '%s %*d/%d servers, %6d/s, %6s left' % (
        drawn(done, total), len(str(total)), done, total, rate, left)


def drawn(done, total):
    """The bar alone.

    :param done: how many are done
    :param total: of how many
    :returns: text of always the same length
    """
    filled = _WIDTH * done // total if total else _WIDTH
    return '[%s%s]' % ('#' * filled, '-' * (_WIDTH - filled))
