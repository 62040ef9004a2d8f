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

"""etc/alerting with the programs that it is written for."""

import logging
import os
import re
import shutil
import subprocess

import fixtures
from oslo_config import cfg
from oslo_context import context as oslo_context
from oslo_log import formatters
from oslo_log import log
import testtools

FILES = os.path.join(
    os.path.dirname(__file__), '..', '..', 'etc', 'alerting')
_SAMPLE = re.compile(r'(\w+)(?:\{(.*)\})? (\S+)\Z')
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"(?:,|\Z)')


def program(name):
    """The path of a program of one of the Debian packages.

    :raises RuntimeError: if it is not there
    """
    found = shutil.which(
        name, path=os.pathsep.join((os.environ['PATH'], '/usr/sbin')))
    if found is None:
        raise RuntimeError(
            'no program %s: install the packages logrotate, mtail, '
            'prometheus, prometheus-alertmanager and rsyslog' % name)
    return found


def path(name):
    """The path of a file of etc/alerting."""
    return os.path.realpath(os.path.join(FILES, name))


def labels(**values):
    """Labels as the keys of :func:`samples` hold them; empty is missing."""
    return frozenset((name, value) for name, value in values.items() if value)


def samples(text):
    """Read metrics in Prometheus' text format.

    :returns: dict of the metric's name to dict of labels to value; without
        ``prog``, which is mtail's name for the program
    """
    metrics = {}
    for line in text.splitlines():
        if not line or line.startswith('#'):
            continue
        name, inside, value = _SAMPLE.match(line).groups()
        values = dict(_LABEL.findall(inside or ''))
        values.pop('prog', None)
        metrics.setdefault(name, {})[labels(**values)] = float(value)
    return metrics


class TestCase(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path

    def run_program(self, name, *arguments, **kwargs):
        """Run a program to its end, which has to be a good one.

        :returns: subprocess.CompletedProcess
        """
        done = subprocess.run(
            [program(name), *arguments], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, **kwargs)
        self.assertEqual(0, done.returncode, done.stdout)
        return done

    def file(self, name, text):
        """Write a file into the test's directory.

        :returns: its path
        """
        written = os.path.join(self.directory, name)
        os.makedirs(os.path.dirname(written), exist_ok=True)
        with open(written, 'w') as file:
            file.write(text)
        return written

    def counted(self, *lines, log_name='alerts.log'):
        """What mtail makes of lines of a log.

        :returns: as :func:`samples`
        """
        log_file = self.file(log_name, ''.join(
            line + '\n' for line in lines))
        done = subprocess.run(
            [program('mtail'), '--one_shot', '--one_shot_format=prometheus',
             '--logtostderr', '--stderrthreshold=ERROR',
             # it listens even then
             '--unix_socket', os.path.join(
                 self.directory, self.getUniqueString('socket')),
             '--progs', path('specguard.mtail'), '--logs', log_file],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertNotIn('rror', done.stderr)
        return samples(done.stdout)


class NovaLog:
    """Formats a line as a service of nova does that has no options set."""

    def __init__(self):
        conf = cfg.ConfigOpts()
        log.register_options(conf)
        conf([], default_config_files=[], default_config_dirs=[])
        self._formatter = formatters.ContextFormatter(
            datefmt=conf.log_date_format, config=conf)

    def line(self, message, logger='nova.specguard', level=logging.ERROR):
        """Format a line.

        :returns: text, which has more than one line if the message has
        """
        record = logging.LogRecord(
            logger, level, __file__, 1, '%s', (message,), None)
        record.context = oslo_context.RequestContext(
            user_id='d7451e969b3f4229bd1869ed9ad591f3',
            project_id='b18c2da2dbfa45138fb6077eafb2aa51', overwrite=False)
        return self._formatter.format(record)
