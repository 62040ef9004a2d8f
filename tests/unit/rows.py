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

"""Rows as every nova release writes them; tools/rows.py made them."""

import dataclasses
import json
import os
from unittest import mock

from nova import context as nova_context
from nova import objects
from oslo_versionedobjects import exception as ovo_exception

from nova_specguard.instances import CurrentInstance
from nova_specguard.surroundings import Surroundings

_DATA = os.path.join(os.path.dirname(__file__), 'data', 'rows')

RELEASES = sorted(
    (name[:-len('.jsonl')] for name in os.listdir(_DATA)),
    key=lambda release: int(release.partition('.')[0]))


def load(release):
    """The rows of a release.

    :returns: dict of name of the server to its rows
    """
    with open(os.path.join(_DATA, release + '.jsonl')) as lines:
        return {row['server']: row for row in map(json.loads, lines)}


def loaded_spec(row):
    """The request spec as this nova loads it.

    :returns: nova.objects.RequestSpec, or None where nova says that the row
        is too new for it
    """
    stored = {'id': 1, 'instance_uuid': row['instance']['uuid'],
              'spec': json.dumps(row['request_spec'])}
    context = nova_context.get_admin_context()
    # Of a group, nova takes no more than the uuid from the request spec.
    with mock.patch.object(
            objects.InstanceGroup, 'get_by_uuid',
            lambda context, uuid: objects.InstanceGroup(
                context, uuid=uuid, policy='anti-affinity',
                members=[row['instance']['uuid']])):
        try:
            return objects.RequestSpec._from_db_object(
                context, objects.RequestSpec(), stored)
        except ovo_exception.IncompatibleObjectVersion:
            return None


def current(row, as_objects):
    """The server as read from its cell, or as its row has it.

    :param as_objects: whether versioned objects are what nova would load, or
        else the stored primitives
    """
    instance, extra = row['instance'], row['instance_extra']
    image_meta = objects.ImageMeta.from_instance(objects.Instance(
        uuid=instance['uuid'], image_ref=instance['image_ref'],
        system_metadata=row['system_metadata']))
    values = {
        **instance, 'cell': 'cell1', 'image_meta': image_meta,
        'base_image_ref': row['system_metadata']['image_base_image_ref'],
        'is_volume_backed':
            row['root_device']['destination_type'] == 'volume',
        'surroundings': Surroundings(
            groups=tuple(row['groups']), zone=instance['availability_zone'],
            is_pin_known=True),
        'flavor': extra['flavor']['cur'],
        'numa_topology': extra['numa_topology'],
        'pci_requests': extra['pci_requests']}
    if as_objects:
        values.update(_objects(instance['uuid'], extra))
    # The rows have more than is compared.
    known = {field.name for field in dataclasses.fields(CurrentInstance)}
    return CurrentInstance(**{
        name: value for name, value in values.items() if name in known})


def _objects(uuid, extra):
    topology = extra['numa_topology']
    return {
        'flavor': objects.Flavor.obj_from_primitive(extra['flavor']['cur']),
        'numa_topology': topology and (
            objects.InstanceNUMATopology.obj_from_db_obj(
                nova_context.get_admin_context(), uuid,
                json.dumps(topology))),
        'pci_requests': objects.InstancePCIRequests.obj_from_db(
            None, uuid, json.dumps(extra['pci_requests']))}
