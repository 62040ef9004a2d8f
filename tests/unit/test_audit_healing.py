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

"""What an audit says that heal would do is what heal does."""

import copy
import datetime
import json

from nova.db.main import models
from oslo_serialization import jsonutils
from oslo_utils import timeutils
from oslo_utils import uuidutils

from nova_specguard.audit import classes
from nova_specguard.audit import report
from tests.unit import builders
from tests.unit import cloud
from tests.unit import command

DATA, VERSION = 'nova_object.data', 'nova_object.version'
# tests.unit.test_audit_allocations has placement.
CLASSES = set(report.CLASS_NAMES) - {
    found.name for found in classes.CLASSES[classes.ALLOCATION]}
LONG_AGO = timeutils.utcnow() - datetime.timedelta(days=3)


class Server:
    """A server to be damaged.

    :ivar row: as in tests.unit.rows
    :ivar spec: what its request spec says
    :ivar mapping: columns of its mapping
    :ivar migrations: columns of its migrations
    """

    def __init__(self, row):
        # of which no two parts are one
        self.row = json.loads(json.dumps(row))
        self.row['instance']['uuid'] = uuidutils.generate_uuid()
        self.spec = self.row['request_spec'][DATA]
        self.instance = self.row['instance']
        self.flavors = self.row['instance_extra']['flavor']
        self.mapping = {}
        self.migrations = []

    def text(self, change):
        self.row['request_spec'] = change(
            jsonutils.dumps(self.row['request_spec']))

    def constrain(self):
        self.spec['numa_topology'] = builders.stored(builders.constraints(
            builders.flavor(extra_specs={'hw:numa_nodes': '2'})))


def healthy():
    return Server(cloud.healthy())


def drifted():
    return Server(cloud.reported_case())


def instance(**values):
    def change(server):
        server.instance.update(values)
    return change


def spec(**values):
    def change(server):
        server.spec.update(values)
    return change


def extra_specs(server):
    server.spec['flavor'][DATA]['extra_specs'] = {'quota:cpu_shares': '1'}


def image(server):
    server.spec['image'][DATA]['id'] = builders.GROUP


def image_id(server):
    image(server)
    image_properties(server)
    server.row['events'] = ['rebuild']


def image_properties(server):
    server.spec['image'][DATA]['properties'][DATA]['os_distro'] = 'debian'
    server.row['system_metadata']['image_os_distro'] = 'fedora'


def requests(server):
    server.spec['pci_requests'] = builders.stored(builders.pci_requests(
        builders.pci_request()))


def requests_of_no_flavor(server):
    server.row['instance_extra']['pci_requests'] = [
        {'count': 1, 'spec': [], 'alias_name': 'gpu', 'request_id': None,
         'requester_id': None, 'numa_policy': None}]


def unreadable_requests(server):
    server.row['instance_extra']['pci_requests'] = [{'alias_name': None}]


def group(server):
    server.row['groups'] = [builders.GROUP]


def left_group(server):
    server.spec['instance_group'] = builders.stored(builders.server_group())


def no_is_bfv(server):
    server.spec.pop('is_bfv', None)


def spec_text(text):
    def change(server):
        server.row['request_spec'] = text
    return change


def newer(server):
    server.row['request_spec'][VERSION] = '1.999'


def newer_flavor(which):
    def change(server):
        flavor = server.flavors[which] = copy.deepcopy(server.flavors['cur'])
        flavor[VERSION] = '1.999'
    return change


def older_image(server):
    """Of a version that cannot hold what the server has."""
    image_properties(server)
    server.row['system_metadata']['image_hw_tpm_version'] = '2.0'
    server.spec['image'][DATA]['properties'][VERSION] = '1.20'


def without_old(server):
    del server.flavors['old']


def unreadable_image(server):
    server.row['system_metadata']['image_hw_numa_nodes'] = 'some'


def duplicate_key(server):
    server.text(lambda text: text.replace(
        '"num_instances": 1', '"num_instances": 1, "num_instances": 1'))


def other_spaces(server):
    server.text(lambda text: text + ' ')


def migration(status, time):
    def change(server):
        server.migrations.append({'status': status, 'updated_at': time})
    return change


def stashed(server):
    server.flavors['old'] = server.flavors['cur']


SERVERS = {
    'extra specs': (healthy, extra_specs),
    'topology': (healthy, Server.constrain),
    'topology and flavor': (drifted, Server.constrain),
    'requests': (healthy, requests),
    'requests of no flavor': (healthy, requests_of_no_flavor),
    'requests of no flavor, and flavor': (drifted, requests_of_no_flavor),
    'unreadable requests': (drifted, unreadable_requests),
    'image': (healthy, image),
    'image of a rebuild': (healthy, image_id),
    'properties': (healthy, image_properties),
    'properties of an older nova': (healthy, older_image),
    'project': (healthy, spec(project_id='other')),
    'user': (healthy, spec(user_id='other'), instance(user_id='a-user')),
    'hint': (healthy, spec(scheduler_hints={
        '_nova_check_type': ['rebuild']})),
    'group': (healthy, group),
    'left group': (healthy, left_group),
    'zone': (healthy, spec(availability_zone='az1')),
    'lost zone': (healthy, spec(availability_zone='az3')),
    'no is_bfv': (healthy, no_is_bfv),
    'no spec': (healthy, spec_text(None)),
    'no JSON': (healthy, spec_text('{')),
    'no spec text': (drifted, spec_text('{"nova_object.name": "Flavor"}')),
    'newer': (healthy, newer),
    'newer and flavor': (drifted, newer),
    'limits': (drifted, spec(limits={DATA: 1})),
    'no flavor': (healthy, lambda server: server.flavors.clear()),
    'newer flavor': (drifted, newer_flavor('cur')),
    'newer old flavor': (drifted, newer_flavor('old')),
    'without old flavor': (drifted, without_old),
    'unreadable image': (drifted, unreadable_image),
    'left-over flavor': (healthy, stashed),
    'columns': (healthy, instance(vcpus=1)),
    'flavor': (drifted,),
    'flavor and project': (drifted, spec(project_id='other')),
    'duplicate key': (drifted, duplicate_key),
    'other spaces': (drifted, other_spaces),
    'to be confirmed': (drifted, instance(vm_state='resized')),
    'to be confirmed, written by hand': (
        drifted, instance(vm_state='resized'), other_spaces),
    'in flight': (drifted, instance(task_state='resize_prep')),
    'stuck': (drifted, instance(task_state='resize_prep',
                                updated_at=LONG_AGO)),
    'migration in flight': (
        drifted, migration('migrating', timeutils.utcnow())),
    'stuck migration': (drifted, migration('migrating', LONG_AGO)),
    'healthy': (healthy,),
}
# Of several reasons each says the one that it sees first.
OTHER_REASONS = ('to be confirmed, written by hand', 'unreadable image')


class SameTest(command.CommandTestCase):

    def setUp(self):
        super().setUp()
        self.names = {}
        self.cell.add_aggregate('a', 'other', availability_zone='az1')
        self.cell.add_aggregate('b', 'compute-a2b1', availability_zone='az2')
        for name, (make, *changes) in SERVERS.items():
            server = make()
            for change in changes:
                change(server)
            events = server.row.pop('events', ())
            uuid = self.cell.add(server.row, **server.mapping)
            self.names[uuid] = name
            for values in server.migrations:
                self.cell.insert(
                    models.Migration, self.cell.mapping, deleted=0,
                    instance_uuid=uuid, migration_type='resize', **values)
            for event in events:
                self.add_rebuild(uuid)
        self.names[self.cell.add(healthy().row, is_mapped=False)] = 'orphan'

    def add_rebuild(self, uuid):
        self.cell.insert(
            models.InstanceAction, self.cell.mapping, id=1, action='rebuild',
            instance_uuid=uuid, request_id='req-1', deleted=0)
        self.cell.insert(
            models.InstanceActionEvent, self.cell.mapping, action_id=1,
            event='compute_rebuild_instance', result='Success', deleted=0)

    def rows(self, *arguments):
        self.run_command(*arguments, '-f', 'json')
        return {(self.names[row['instance_uuid']], row['drift_class']): row
                for row in json.loads(self.stdout.getvalue())}

    def both(self, *arguments):
        """What the audit says that heal would do, and what it does.

        :returns: two dicts of (server, drift class) to (whether it is
            repaired, why not)
        """
        audited = self.rows('audit', *arguments)
        healed = self.rows('heal', '--dry-run', *arguments)
        for name in OTHER_REASONS:
            for rows in (audited, healed):
                row = rows.get((name, 'flavor-other'))
                if row:
                    self.assertIsNotNone(row.pop('reason'))
        return ({key: (row['heal'] == 'repair', row.get('reason'))
                 for key, row in audited.items()},
                {key: (row['outcome'] == 'would be healed',
                       row.get('reason'))
                 for key, row in healed.items()})

    def test_all_classes(self):
        audited, healed = self.both()
        self.assertEqual(CLASSES, {found for _name, found in audited})
        self.assertEqual(
            set(self.names.values()) - {
                'healthy', 'in flight', 'migration in flight'},
            {name for name, _found in audited})
        self.assertEqual(healed, audited)

    def test_one_field(self):
        for name in ('flavor', 'numa_topology', 'project'):
            audited, healed = self.both('--field', name)
            self.assertNotEqual({}, audited)
            self.assertEqual(healed, audited)

    def test_what_has_to_wait(self):
        self.assertEqual(
            {('to be confirmed', 'flavor-other'),
             ('stuck', 'flavor-other')},
            {key for key, row in self.rows('audit').items()
             if row['heal'] == 'wait'})
