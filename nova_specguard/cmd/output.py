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

"""Programs whose output may have nowhere to go."""

import contextlib
import io
import os
import sys

# What a shell says of programs that SIGPIPE or SIGINT has ended.
BROKEN_PIPE = 141
INTERRUPTED = 130


def run(program, failed):
    """Run a program, and write out what it has printed.

    :param program: callable that returns an exit code
    :param failed: exit code for output that cannot be written
    :returns: exit code
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, 'w')
    if sys.stdout is None:
        print('stdout is closed', file=sys.stderr)
        return failed
    # Names of cells and flavors can be beyond the locale: an error after heal
    # has written would hide what it wrote.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors='backslashreplace')
    try:
        code = program()
    except BrokenPipeError:
        code = BROKEN_PIPE
    except KeyboardInterrupt:
        code = INTERRUPTED
    error = _flush(sys.stdout)
    if isinstance(error, BrokenPipeError):
        code = BROKEN_PIPE
    elif error is not None and code != failed:
        with contextlib.suppress(OSError):
            print(message(error), file=sys.stderr)
        code = failed
    _flush(sys.stderr)
    return code


def message(error):
    """What to say where the output cannot be written.

    :param error: OSError
    :returns: text
    """
    return 'cannot write the output: %s' % error.strerror


def _flush(stream):
    """Write out what a stream holds.

    :returns: OSError, or None
    """
    try:
        stream.flush()
    except OSError as exc:
        # At exit, the interpreter would try once more and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return exc
    return None
