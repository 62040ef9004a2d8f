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

"""The scenes of the demonstration, each on a cloud of its own.

All that a scene tells and scores it has read back: the host from nova's API,
rows from the databases, the reserved size from placement, alerts from the log.
"""

import io
import json
import logging
import pathlib

import fixtures
import nova.conf
from nova.db.main import api as main_db
from nova import objects
from oslo_log import formatters

from tests.functional import base
from tests.functional import world
from tools.demo import story

CONF = nova.conf.CONF
# The flavor column of instance_extra and the spec column of request_specs, as
# the bug report has them.
CASE = pathlib.Path(__file__).parent / 'case'
VENDORS = {world.AMD: 'AMD', world.INTEL: 'Intel'}


class FailedResize(base.TestCase):
    """Drift as nova makes it, and the live migration after it."""

    hosts = ('amd1', 'amd2', 'intel1', 'intel2')
    is_guarded = True
    options = {}
    history = """
        Once more a resize of an a2.medium on %s, an %s host, to e2.medium
        fails:"""

    def setUp(self):
        if not self.is_guarded:
            self.useFixture(fixtures.MonkeyPatch(
                'tests.functional.fixtures.GUARDED', False))
        super().setUp()
        self.set_guard(**self.options)

    def play(self):
        server = self.make_drift()
        self.story.tell(self.history % self.host_and_vendor(server))
        rows = self.rows(server)
        self.story.quote('%-50s %s' % row for row in rows.items())
        self.story.step('drift', 'a2.medium ACTIVE on amd1, spec e2.medium',
                        '%s, spec %s' % (self.state(server),
                                         self.spec_flavor(server)))

        self.story.tell('An operator live migrates the server to wherever '
                        'nova finds room.')
        log = self.guard_log()
        self.live_migrate(server)
        self.assertEqual(rows, self.rows(server))
        self.tell_end(server, log.getvalue().splitlines())
        self.story.step('live migration', self.lands, '%s, %d GB%s' % (
            self.state(server), self.reserved_disk(server),
            ' ' + story.BREACH if self.is_breach(server) else ''))
        alerts = ['SPECGUARD-%s %s' % (alert['code'], alert.get('outcome'))
                  for alert in self.alerts.incidents]
        self.story.step('reported as', self.reported, ', '.join(
            [self.ending(server), *(alerts or ['no alert'])]))

    def make_drift(self):
        return self.fail_resize(self.boot_reported_case(), world.E2_MEDIUM)

    def tell_end(self, server, log_lines):
        host, vendor = self.host_and_vendor(server)
        status = self.ending(server)
        if log_lines:
            self.story.tell('The log says:')
            self.story.quote(log_lines)
        else:
            self.story.tell('The log says nothing about it.')
        if self.is_breach(server):
            self.story.breach("""
                the server is now on %s, an %s host, where no a2 server may
                run. nova went by the second row and looked for a place for
                an e2.medium. It reserved %d GB for a disk of %d GB, and it
                calls the migration "%s".""" % (
                host, vendor, self.reserved_disk(server),
                self.instance_of(server).flavor.root_gb, status))
        elif status == 'completed':
            self.story.good("""
                The server is now on %s, an %s host, and %d GB are reserved
                for its disk. Both rows are as they were: the guard corrects
                the request, not the database.""" % (
                host, vendor, self.reserved_disk(server)))
        else:
            self.story.good("""
                nova found no host and calls the migration "%s". The server is
                on %s, an %s host, and it is %s.""" % (
                status, host, vendor, self.show(server)['status']))

    def guard_log(self):
        """Collect what the guard logs from now on, in nova's format."""
        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        handler.setFormatter(formatters.ContextFormatter(
            datefmt=CONF.log_date_format, config=CONF))
        self.useFixture(fixtures.LogHandler(
            handler, 'nova.specguard', nuke_handlers=False))
        return stream

    # Facts

    def host_and_vendor(self, server):
        host = self.host_of(server)
        return host, VENDORS[world.VENDORS[host]]

    def is_breach(self, server):
        return world.VENDORS[self.host_of(server)] != world.AMD

    def ending(self, server):
        """The status of the newest migration."""
        return self.admin_api.api_get(
            '/os-migrations?instance_uuid=' + server['id']
        ).body['migrations'][0]['status']

    def reserved_disk(self, server):
        return self.allocation(server, self.host_of(server)).get('DISK_GB', 0)

    def state(self, server):
        shown = self.show(server)
        return '%s %s on %s' % (
            self.instance_of(server).flavor.name, shown['status'],
            shown['OS-EXT-SRV-ATTR:host'])

    def rows(self, server):
        """The flavor as both databases hold it."""
        with self.cell_of(server) as cell_context:
            extra = main_db.instance_extra_get_by_instance_uuid(
                cell_context, server['id'], columns=['flavor'])
        rows = {
            'instance_extra, flavor.cur (what the server is):':
                json.loads(extra['flavor'])['cur'],
            'request_specs, spec.flavor (what nova goes by):':
                self.spec_of(server)['flavor']}
        return {label: '%(name)s, id %(id)d, %(root_gb)d GB' %
                flavor['nova_object.data'] for label, flavor in rows.items()}


class ReportedRows(FailedResize):
    """The rows of the reported server in place of this cloud's own."""

    history = """
        A server on %s, an %s host, is given the rows of the server in the bug
        report. Only what has to match this cloud is adapted in them: the ids
        of the server, its image and its project."""

    def _configure_nova(self):
        super()._configure_nova()
        # The reported flavors name no CPU vendor: the filters of that cloud
        # went by the flavor itself. This one of nova's goes by its name.
        self.flags(group='filter_scheduler', enabled_filters=[
            *CONF.filter_scheduler.enabled_filters,
            'AggregateTypeAffinityFilter'])

    def _create_aggregates(self):
        super()._create_aggregates()
        for vendor in VENDORS:
            names = [f.name for f in world.FLAVORS if f.vendor == vendor]
            self._aggregate(
                'flavors-' + vendor,
                [h for h in self.hosts if world.VENDORS[h] == vendor],
                instance_type=','.join(names))

    def make_drift(self):
        server = self.boot()
        spec = (CASE / 'request_spec.json').read_text()
        reported = json.loads(spec)['nova_object.data']
        for theirs, ours in (
                (reported['instance_uuid'], server['id']),
                (reported['image']['nova_object.data']['id'], base.IMAGE),
                (reported['project_id'], server['tenant_id'])):
            spec = spec.replace(theirs, ours)
        objects.RequestSpec._save_in_db(
            self.context, server['id'], {'spec': spec})

        flavors = (CASE / 'instance_extra_flavor.json').read_text()
        flavor_id = json.loads(flavors)['cur']['nova_object.data']['id']
        with self.cell_of(server) as cell_context:
            main_db.instance_extra_update_by_uuid(
                cell_context, server['id'], {'flavor': flavors})
            main_db.instance_update(
                cell_context, server['id'], {'instance_type_id': flavor_id})
        return server


class WithoutGuard(FailedResize):
    title = 'nova without the guard'
    is_guarded = False
    history = """
        A server runs on %s, an %s host. Its flavor is a2.medium; it was an
        e2.medium once, and now its owner wants that back. The resize fails
        on the compute host, because a disk cannot shrink, and nova leaves
        the server as it was. But nova keeps the flavor in two rows. It wrote
        e2.medium into the second before it tried, and never takes that
        back:"""
    lands = 'a2.medium ACTIVE on intel1, 25 GB ' + story.BREACH
    reported = 'completed, no alert'


class WithGuard(FailedResize):
    title = 'The same with the guard'
    lands = 'a2.medium ACTIVE on amd2, 80 GB'
    reported = 'completed, SPECGUARD-101 corrected'


class WithGuardThatOnlyRefuses(FailedResize):
    title = 'The same with a guard that may not correct (correct = false)'
    options = {'correct': False}
    lands = 'a2.medium ACTIVE on amd1, 80 GB'
    reported = 'error, SPECGUARD-102 refused'


class ReportedRowsWithoutGuard(ReportedRows):
    title = 'The rows of the bug report, without the guard'
    is_guarded = False
    lands = WithoutGuard.lands
    reported = WithoutGuard.reported


class ReportedRowsWithGuard(ReportedRows):
    title = 'The rows of the bug report, with the guard'
    lands = WithGuard.lands
    reported = WithGuard.reported


ALL = (WithoutGuard, WithGuard, WithGuardThatOnlyRefuses,
       ReportedRowsWithoutGuard, ReportedRowsWithGuard)
