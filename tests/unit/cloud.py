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

"""Servers as raw rows, in an API database and two cells."""

import json

from nova import context as nova_context
from nova.db.api import api as api_db
from nova.db.api import models as api_models
from nova.db.main import api as main_db
from nova.db.main import models
from oslo_utils import timeutils
from oslo_utils import uuidutils
import sqlalchemy as sa

from nova_specguard.audit import audit
from nova_specguard.audit import selection
from tests.unit import builders
from tests.unit import test_instances

DAY = 24 * 60 * 60


def reported_case():
    """The rows of the reported server, in the form of tests.unit.rows."""
    spec = builders.load('request_spec.json')
    image = spec['nova_object.data']['image']['nova_object.data']
    properties = image['properties']['nova_object.data']
    return {
        'request_spec': spec,
        'instance': {
            'uuid': builders.UUID, 'image_ref': image['id'],
            'project_id': spec['nova_object.data']['project_id'],
            'user_id': spec['nova_object.data'].get('user_id'),
            'host': 'compute-a2b1', 'vm_state': 'active', 'task_state': None,
            'instance_type_id': 982},
        'instance_extra': {
            'flavor': builders.load('instance_extra_flavor.json'),
            'numa_topology': None, 'pci_requests': []},
        'system_metadata': {
            'image_base_image_ref': image['id'],
            **{'image_' + name: str(value)
               for name, value in properties.items()}},
        'root_device': {'source_type': 'image', 'destination_type': 'local'},
        'groups': []}


def healthy(**instance):
    """A server whose copies agree."""
    row = reported_case()
    flavors = row['instance_extra']['flavor']
    flavors['new'] = None
    row['request_spec']['nova_object.data']['flavor'] = flavors['cur']
    row['instance'].update({'uuid': uuidutils.generate_uuid(), **instance})
    return row


class Cloud(test_instances.Cell):
    """A second cell, and servers."""

    def _setUp(self):
        super()._setUp()
        self.other = self.add_cell('cell2')

    def insert(self, model, cell=None, **values):
        """Insert a row, into a cell or else the API database."""
        if cell is None:
            return self._insert(api_db.get_engine(), model, values)
        with nova_context.target_cell(self.context, cell) as context:
            return self._insert(
                main_db.get_engine(context=context), model, values)

    def _insert(self, engine, model, values):
        values.setdefault('created_at', timeutils.utcnow())
        with engine.begin() as connection:
            connection.execute(model.__table__.insert(), [values])

    def add(self, row, cell=None, **mapping):
        """Insert a server's rows.

        :param row: as in tests.unit.rows, with texts or what they say
        """
        cell = cell or self.mapping
        instance, uuid = row['instance'], row['instance']['uuid']
        if mapping.pop('is_mapped', True):
            self.insert(api_models.InstanceMapping, instance_uuid=uuid,
                        cell_id=cell.id, project_id=instance['project_id'],
                        **{'queued_for_delete': False, **mapping})
        if row['request_spec'] is not None:
            self.insert(api_models.RequestSpec, instance_uuid=uuid,
                        spec=_text(row['request_spec']))
        self.insert(models.Instance, cell, **{
            'updated_at': timeutils.utcnow(), 'deleted': 0, 'hidden': False,
            **instance})
        extra = {name: _text(value)
                 for name, value in row['instance_extra'].items()}
        self.insert(models.InstanceExtra, cell, instance_uuid=uuid, deleted=0,
                    **extra)
        for key, value in row['system_metadata'].items():
            self.insert(models.InstanceSystemMetadata, cell, deleted=0,
                        instance_uuid=uuid, key=key, value=value)
        if row['root_device']:
            self.insert(models.BlockDeviceMapping, cell, deleted=0,
                        instance_uuid=uuid, boot_index=0,
                        uuid=uuidutils.generate_uuid(), **row['root_device'])
        for group in row['groups']:
            self.add_to_group(group, uuid)
        return uuid

    def change_spec_row(self, **values):
        """Change columns of all request specs."""
        with api_db.get_engine().begin() as connection:
            connection.execute(sa.update(
                api_models.RequestSpec.__table__).values(**values))

    def clear_times(self, model):
        """As rows are that other programs have written."""
        with nova_context.target_cell(self.context, self.mapping) as context:
            with main_db.get_engine(context=context).begin() as connection:
                connection.execute(sa.update(model.__table__).values(
                    created_at=None, updated_at=None))


def _text(value):
    return value if isinstance(value, (str, type(None))) else json.dumps(
        value)


class CloudTestCase(test_instances.InstancesTestCase):

    cell_fixture = Cloud

    def audit(self, stuck_after=DAY, with_allocations=False, **selected):
        """Run an audit.

        :returns: list of Finding
        """
        self.audited = audit.Audit(
            selection.Selection(**{
                name: value if name == 'max_count' else frozenset(value)
                for name, value in selected.items()}),
            self.options(), stuck_after, with_allocations)
        return list(self.audited.run(lambda: None))

    def found(self, *args, **kwargs):
        """What an audit finds.

        :returns: dict of UUID to list of names of drift classes
        """
        found = {}
        for finding in self.audit(*args, **kwargs):
            found.setdefault(finding.instance_uuid, []).append(
                finding.difference.drift_class.name)
        return found
