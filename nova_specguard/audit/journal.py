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
"""The undo journal: what heal wrote in place of what.

A file of JSON lines. Each is on the disk before the row is written, so that a
heal which is killed at any moment can be undone.
"""

import contextlib
import dataclasses
import json
import os

from oslo_utils import timeutils

_VERSION = 1


class JournalUnreadable(Exception):
    """A line of a journal is none of this program's; its message says which.
    """


@dataclasses.dataclass(frozen=True)
class Entry:
    """One row that was to be written.

    :ivar instance_uuid: UUID of the server
    :ivar cell: name of its cell
    :ivar fields: NAMEs of the fields that were repaired
    :ivar old: text that was there
    :ivar new: text that takes its place
    """

    instance_uuid: str
    cell: str
    fields: list
    old: str
    new: str


class Journal:
    """A journal that is being written."""

    def __init__(self, path):
        """Create a journal, readable by its owner only.

        :param path: of a file that does not exist yet
        :raises OSError: if it exists or cannot be created
        """
        self.path = path
        self._handle = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._failure = None
        # the name of the file, too
        folder = os.open(os.path.dirname(path) or '.', os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def write(self, entry):
        """Write an entry, down to the disk.

        :param entry: Entry
        :raises OSError: if it, or one before it, cannot be written
        """
        if self._failure is not None:
            # Of that one there may be a part, which no other can follow.
            raise self._failure
        line = {'version': _VERSION, 'time': timeutils.utcnow().isoformat(),
                **dataclasses.asdict(entry)}
        left = (json.dumps(line) + '\n').encode('ascii')
        try:
            while left:
                left = left[os.write(self._handle, left):]
            os.fsync(self._handle)
        except OSError as exc:
            self._failure = exc
            raise

    def close(self):
        # All entries are on the disk already.
        with contextlib.suppress(OSError):
            os.close(self._handle)


def read(path):
    """Read a journal.

    A last line that is not whole is left out: heal was killed before it wrote
    the row.

    :param path: of the file
    :returns: list of Entry, the last that was written first
    :raises JournalUnreadable: if any other line is not whole
    :raises OSError: if the file cannot be read
    """
    with open(path, encoding='ascii', errors='replace') as journal:
        lines = journal.read().split('\n')
    # what follows the last end of a line, if only nothing
    lines.pop()
    return [_entry(number, line)
            for number, line in reversed(list(enumerate(lines, 1)))]


def _entry(number, line):
    try:
        values = json.loads(line)
        if values['version'] != _VERSION:
            raise JournalUnreadable(
                'line %d was written by another version' % number)
        entry = Entry(**{field.name: values[field.name]
                         for field in dataclasses.fields(Entry)})
        # Edited by hand, it can be of any type, or beyond UTF-8.
        if not isinstance(entry.fields, list):
            raise TypeError
        ''.join([entry.instance_uuid, entry.cell, entry.old, entry.new,
                 *entry.fields]).encode()
        return entry
    except (ValueError, KeyError, TypeError, RecursionError):
        raise JournalUnreadable(
            'line %d is no entry of a journal' % number) from None
