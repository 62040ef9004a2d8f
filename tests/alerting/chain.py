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

"""The way of an alert: rsyslog, mtail, Prometheus, Alertmanager, a receiver.

Real programs, with the files of etc/alerting, on free ports of the loopback
interface and in one temporary directory.
"""

import json
import multiprocessing
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import fixtures
import yaml

from tests.alerting import base
from tests.alerting import burst
from tests.alerting import receiver

ROOT = os.path.join(os.path.dirname(__file__), '..', '..')
PATIENCE = 120


def eventually(function, what, patience=PATIENCE):
    """Ask again and again until there is an answer.

    :param function: callable; what it returns is an answer if it is true
    :param what: what is waited for, for the exception
    :param patience: seconds
    :returns: the answer
    :raises TimeoutError: if there is none
    """
    give_up = time.monotonic() + patience
    while time.monotonic() < give_up:
        answer = function()
        if answer:
            return answer
        time.sleep(0.05)
    raise TimeoutError('no %s in %d s' % (what, patience))


def get(url):
    """What is behind a URL: text, or None while there is nothing."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as response:
            return response.read().decode()
    except (urllib.error.URLError, ConnectionError):
        return None


def _free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


class Program(fixtures.Fixture):
    """A program that runs until the end of the test.

    :cvar name: of its binary
    :ivar url: where it answers, if it has a port
    """

    name = None
    ready = None

    def __init__(self, directory):
        self.directory = os.path.join(directory, type(self).__name__.lower())

    def _setUp(self):
        os.mkdir(self.directory)
        self.port = _free_port()
        self.url = 'http://127.0.0.1:%d' % self.port
        self._log = os.path.join(self.directory, 'log')
        with open(self._log, 'wb') as output:
            self.process = subprocess.Popen(
                [base.program(self.name), *self.arguments()],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT)
        self.addCleanup(self._stop)
        eventually(self._is_ready, 'start of ' + self.name)

    def _is_ready(self):
        if self.process.poll() is not None:
            with open(self._log) as log:
                raise RuntimeError('%s has ended: %s' % (
                    self.name, log.read()))
        return self.is_ready()

    def _stop(self):
        self.process.kill()
        self.process.wait()

    def is_ready(self):
        return get(self.url + self.ready) is not None

    def file(self, name, text):
        """Write a file into its directory.

        :returns: its path
        """
        written = os.path.join(self.directory, name)
        with open(written, 'w') as file:
            file.write(text)
        return written


class Rsyslog(Program):
    """rsyslogd with a socket of its own instead of /dev/log.

    :ivar socket: path of the socket
    :ivar output: path of the file that rsyslog.conf writes
    :ivar followed: path of its name for mtail
    """

    name = 'rsyslogd'

    def arguments(self):
        self.socket = os.path.join(self.directory, 'socket')
        self.output = self.file('alerts.log', '')
        self.followed = os.path.join(self.directory, 'mtail.log')
        os.link(self.output, self.followed)
        conf = self.file('rsyslog.conf', '\n'.join((
            'global(maxMessageSize="64k" workDirectory="%s")'
            % self.directory,
            'module(load="imuxsock" SysSock.Use="off")',
            'input(type="imuxsock" Socket="%s")' % self.socket,
            self._here('rsyslog.conf'))))
        return ('-n', '-f', conf, '-i', os.path.join(self.directory, 'pid'))

    def _here(self, name):
        with open(base.path(name)) as file:
            return file.read().replace(
                '/var/log/nova-specguard', self.directory)

    def is_ready(self):
        return os.path.exists(self.socket)

    def rotate(self):
        """Rotate the file, by logrotate with the file of etc/alerting."""
        conf = self.file('logrotate.conf', self._here('logrotate').replace(
            '/usr/lib/rsyslog/rsyslog-rotate',
            'kill -HUP %d' % self.process.pid))
        os.chmod(conf, 0o644)
        subprocess.run(
            [base.program('logrotate'), '--force', '--state',
             os.path.join(self.directory, 'logrotate.state'), conf],
            check=True)


class Mtail(Program):

    name = 'mtail'
    ready = '/metrics'

    def __init__(self, directory, log):
        super().__init__(directory)
        self._read = log

    def arguments(self):
        return ('--address', '127.0.0.1', '--port', str(self.port),
                '--logtostderr', '--progs', base.path('specguard.mtail'),
                '--logs', self._read)

    def samples(self):
        return base.samples(get(self.url + '/metrics'))

    def total(self):
        """How many lines with a code were read."""
        return sum(self.samples().get(
            'nova_specguard_alerts_total', {}).values())


class Prometheus(Program):
    """Prometheus that looks each second.

    :param rules: the groups of specguard.rules.yml, in place of these
    """

    name = 'prometheus'
    ready = '/-/ready'

    def __init__(self, directory, mtail, alertmanager, rules):
        super().__init__(directory)
        self._mtail = mtail
        self._alertmanager = alertmanager
        self._rules = rules

    def arguments(self):
        rules = self.file('rules.yml', yaml.safe_dump(self._rules))
        conf = self.file('prometheus.yml', yaml.safe_dump({
            'global': {'scrape_interval': '1s', 'evaluation_interval': '1s'},
            'rule_files': [rules],
            'scrape_configs': [{
                'job_name': 'mtail', 'static_configs': [
                    {'targets': [_host(self._mtail)]}]}],
            'alerting': {'alertmanagers': [{'static_configs': [
                {'targets': [_host(self._alertmanager)]}]}]}}))
        return ('--config.file=' + conf,
                '--web.listen-address=127.0.0.1:%d' % self.port,
                '--storage.tsdb.path=' + os.path.join(
                    self.directory, 'data'))

    def samples(self, query):
        """The result of a query: dict of labels to value."""
        answer = json.loads(get('%s/api/v1/query?%s' % (
            self.url, urllib.parse.urlencode({'query': query}))))
        found = {}
        for sample in answer['data']['result']:
            labels = {name: value
                      for name, value in sample['metric'].items()
                      if name not in ('__name__', 'instance', 'job', 'prog')}
            found[base.labels(**labels)] = float(sample['value'][1])
        return found


class Alertmanager(Program):
    """Alertmanager with alertmanager.yml, which waits for nothing."""

    name = 'prometheus-alertmanager'
    ready = '/-/ready'

    def __init__(self, directory, pager):
        super().__init__(directory)
        self._pager = pager

    def arguments(self):
        with open(base.path('alertmanager.yml')) as file:
            conf = yaml.safe_load(file)
        for named in conf['receivers']:
            for webhook in named['webhook_configs']:
                webhook['url'] = '%s/%s' % (self._pager.url, named['name'])
        (ours,) = conf['route']['routes']
        for route in (ours, *ours['routes']):
            route.update(group_wait='0s', group_interval='1s')
        return ('--config.file=' + self.file(
                    'alertmanager.yml', yaml.safe_dump(conf)),
                '--web.listen-address=127.0.0.1:%d' % self.port,
                '--cluster.listen-address=',
                '--storage.path=' + os.path.join(self.directory, 'data'))


class Receiver(Program):
    """What a pager would get."""

    name = sys.executable
    ready = '/'

    def arguments(self):
        self._file = self.file('received', '')
        return ('-m', receiver.__name__, str(self.port), self._file)

    def received(self):
        """List of (name of the receiver, notification)."""
        with open(self._file) as lines:
            return [json.loads(line) for line in lines]

    def alerts(self):
        """The last state of each alert.

        :returns: dict of (name, labels) to (status, receiver, annotations)
        """
        last = {}
        for name, notification in self.received():
            for alert in notification['alerts']:
                labels = {key: value
                          for key, value in alert['labels'].items()
                          if key not in ('alertname', 'job')}
                last[alert['labels']['alertname'], base.labels(**labels)] = (
                    alert['status'], name, alert['annotations'])
        return last


class Chain(fixtures.Fixture):
    """All of it.

    :param rules: as for Prometheus; by default those of specguard.rules.yml
    """

    def __init__(self, rules=None):
        self._rules = rules or load_rules()

    def _setUp(self):
        directory = self.useFixture(fixtures.TempDir()).path
        self.pager = self.useFixture(Receiver(directory))
        self.rsyslog = self.useFixture(Rsyslog(directory))
        self.mtail = self.useFixture(Mtail(directory, self.rsyslog.followed))
        alertmanager = self.useFixture(
            Alertmanager(directory, self.pager))
        self.prometheus = self.useFixture(Prometheus(
            directory, self.mtail, alertmanager, self._rules))
        # increase() needs what there was before the first alert, and the
        # first look is seconds after the start.
        eventually(
            lambda: self.prometheus.samples('nova_specguard_refused_total'),
            'first look of Prometheus')


def load_rules():
    """The groups of specguard.rules.yml."""
    with open(base.path('specguard.rules.yml')) as file:
        return yaml.safe_load(file)


class Burst(fixtures.Fixture):
    """Alerts of every code, logged by a child of this process.

    :param path: of the syslog socket
    :param count: how many of each code
    """

    def __init__(self, path, count):
        self._path = path
        self._count = count

    def _setUp(self):
        self._result = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'expected')
        # Forked, since importing nova takes longer than all of the test.
        self._process = multiprocessing.get_context('fork').Process(
            target=burst.main,
            args=(self._path, self._count, self._result))
        self._process.start()
        self.addCleanup(self._process.join)
        self.addCleanup(self._process.kill)

    def expected(self):
        """Wait for its end.

        :returns: dict of what has to be counted, as burst.Burst has it: each
            a dict of tuple of labels to number
        """
        self._process.join()
        if self._process.exitcode:
            raise RuntimeError('the burst has failed')
        with open(self._result) as file:
            return {name: {tuple(labels): number for labels, number in items}
                    for name, items in json.load(file).items()}


def _host(program):
    return program.url.rpartition('/')[2]
