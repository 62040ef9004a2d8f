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

"""Doing what doc/source/operate/on-call.rst says."""

import contextlib
import io
import logging
import os
import re
import shlex
import sys
from unittest import mock

from nova.cmd import manage
import nova.conf
from nova import utils
from oslo_log import formatters

from nova_specguard.cmd import status
from tests.functional import drifts
from tests.functional import test_faults
from tests import pages
from tests.unit import command

CONF = nova.conf.CONF

TEXTFILES = '/var/lib/prometheus/node-exporter'


class OnCallTestCase(pages.Reader, command.Program, drifts.Drifts,
                     test_faults.FaultTestCase):
    """The page and nova's services, which log to a file."""

    def setUp(self):
        super().setUp()
        # The journal of heal goes there.
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.directory)
        self._log_to_file()
        self.write_config('')
        self.addCleanup(
            setattr, CONF, 'default_config_files', CONF.default_config_files)
        CONF.default_config_files = [self.config_file]

    def _log_to_file(self):
        handler = logging.FileHandler(
            os.path.join(self.directory, 'nova.log'))
        handler.setLevel(logging.INFO)
        handler.setFormatter(formatters.ContextFormatter(config=CONF))
        logging.getLogger().addHandler(handler)
        self.addCleanup(handler.close)
        self.addCleanup(logging.getLogger().removeHandler, handler)

    @property
    def config_file(self):
        return os.path.join(self.directory, 'nova.conf')

    def write_config(self, text):
        # What a test has set would hold against the file.
        CONF.clear_override('mode', group='specguard')
        with open(self.config_file, 'w') as written:
            written.write(text)

    def about(self, server):
        self.server = server
        self.values['INSTANCE'] = server['id']

    # Programs

    def run_kill(self, text):
        self.assertEqual('kill -HUP MAIN_PID', text)
        # nova's services do this when they get the signal.
        CONF.mutate_config_files()

    def run_nova_specguard(self, text):
        arguments = shlex.split(self.filled_in(text).replace(
            TEXTFILES, self.directory))[1:]
        level = logging.getLogger('nova').level
        with mock.patch.object(sys, 'stdin', command.Terminal('y\n')):
            code = self.run_command(*arguments)
        logging.getLogger('nova').setLevel(level)
        return code

    def run_nova_specguard_status(self, text):
        """:returns: dict of check to (its result, details)"""
        service = re.fullmatch(
            'nova-specguard-status upgrade check(?: --service ([a-z]+))?',
            text).group(1)
        checks = status.Checks(service)
        with contextlib.redirect_stdout(io.StringIO()):
            checks.check()
        return {name: (result.code.name, result.details)
                for name, result in checks.results}

    def run_nova_manage(self, text):
        flags = shlex.split(text.removeprefix(
            'nova-manage placement heal_allocations '))
        self.assertEqual(['--instance', 'INSTANCE', '--force'], flags[:3])
        with contextlib.redirect_stdout(io.StringIO()) as stdout:
            manage.PlacementCommands().heal_allocations(
                instance_uuid=self.server['id'], force=True, verbose=True,
                dry_run=flags[3:] == ['--dry-run'])
        return stdout.getvalue()

    def run_journalctl(self, text):
        """:returns: lines of what services have written on stderr"""
        program, _pager, option, pattern = shlex.split(text)
        self.assertEqual(('journalctl', '-g'), (program, option))
        return [line for line in self.stderr_of_services.splitlines()
                if re.search(pattern, line)]

    # The OpenStack client

    def run_openstack(self, text):
        version, line = re.fullmatch(
            'openstack (?:--os-compute-api-version ([0-9.]+) )?(.*)',
            text).groups()
        done = {
            'resource provider allocation show INSTANCE':
                self._show_allocations,
            'server event show INSTANCE REQUEST_ID': self._show_event,
            'server list --all-projects': self._list_servers,
            'server migrate --live-migration INSTANCE':
                lambda: self.live_migrate(self.server),
            'server show INSTANCE': lambda: self.show(self.server),
        }[line]
        with utils.temporary_mutation(
                self.admin_api, microversion=version or self.microversion):
            return done()

    def _show_allocations(self):
        return self._get_allocations_by_server_uuid(self.server['id'])

    def _show_event(self):
        return self.admin_api.api_get(
            '/servers/%s/os-instance-actions/%s' % (
                self.server['id'], self.values['REQUEST_ID'])).body[
                    'instanceAction']

    def _list_servers(self):
        return self.admin_api.api_get(
            '/servers/detail?all_tenants=1').body['servers']
