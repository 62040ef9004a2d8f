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

"""A cloud in a JSON file, with as much of ``openstack`` as the exercise needs.

``cloud.py openstack ARGUMENT...`` is the client, ``cloud.py mysql`` the one of
the database.
"""

import argparse
import json
import os
import re
import sys

PATH = os.environ['CLOUD']
LOG = os.environ['CLOUD_LOG']


def passes(host, wanted):
    """As ComputeCapabilitiesFilter reads the property."""
    operator, *words = wanted.split()
    if operator == 's==':
        return [host] == words
    return host in words


def fitting(cloud, flavor, without=None):
    wanted = cloud['flavors'][flavor]['properties']['capabilities:host']
    return [host for host in cloud['hosts']
            if host != without and passes(host, wanted)]


def alert(cloud, code, server):
    with open(LOG, 'a') as log:
        log.write('WARNING nova.specguard [None req-1 - -] SPECGUARD-%s '
                  'operation=live-migration instance=%s fields=flavor\n'
                  % (code, server))


def flavor_create(cloud, args):
    cloud['flavors'][args.name] = {'disk': args.disk, 'properties': {}}


def flavor_set(cloud, args):
    key, _equals, value = args.property.partition('=')
    cloud['flavors'][args.name]['properties'][key] = value
    cloud['seen'].append(value)


def flavor_delete(cloud, args):
    del cloud['flavors'][args.name]


def server_create(cloud, args):
    uuid = '%08d' % (len(cloud['servers']) + 1)
    cloud['servers'][uuid] = {
        'flavor': args.flavor, 'spec': args.flavor, 'status': 'ACTIVE',
        'host': fitting(cloud, args.flavor)[0]}
    print(uuid)


def server_show(cloud, args):
    server = cloud['servers'][args.name]
    print('_os_ext_srv_attr_host="%s"' % server['host'])
    print('_os_ext_sts_task_state="None"')
    print('_status="%s"' % server['status'])


def server_delete(cloud, args):
    del cloud['servers'][args.name]


def server_resize(cloud, args):
    server = cloud['servers'][args.name]
    smaller = (cloud['flavors'][args.flavor]['disk']
               < cloud['flavors'][server['flavor']]['disk'])
    if not fitting(cloud, args.flavor, without=server['host']):
        return
    server['spec'] = args.flavor
    if not (smaller and cloud['refuses_smaller_disk']):
        server['status'] = 'VERIFY_RESIZE'


def server_migrate(cloud, args):
    server = cloud['servers'][args.name]
    flavor = server['spec']
    if flavor != server['flavor'] and cloud['guard']:
        alert(cloud, cloud['guard'], args.name)
        if cloud['guard'] == '102':
            return
        if cloud['guard'] == '101':
            flavor = server['flavor']
    elif cloud['always_alerts']:
        alert(cloud, '101', args.name)
    hosts = fitting(cloud, flavor, without=server['host'])
    if hosts and not cloud['stays']:
        server['host'] = hosts[0]


def compute_service_list(cloud, args):
    for host in cloud['hosts']:
        print(host, 'enabled', 'up')
    print('dead', 'enabled', 'down')


def image_list(cloud, args):
    print('\n'.join(cloud['images']))


COMMANDS = {
    ('flavor', 'create'): flavor_create,
    ('flavor', 'set'): flavor_set,
    ('flavor', 'delete'): flavor_delete,
    ('server', 'create'): server_create,
    ('server', 'show'): server_show,
    ('server', 'delete'): server_delete,
    ('server', 'resize'): server_resize,
    ('server', 'migrate'): server_migrate,
    ('compute', 'service', 'list'): compute_service_list,
    ('image', 'list'): image_list,
}


def openstack(cloud, arguments):
    common = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    common.add_argument('--os-compute-api-version')
    _common, arguments = common.parse_known_args(arguments)
    parser = argparse.ArgumentParser(allow_abbrev=False)
    subparsers = parser.add_subparsers(required=True)
    for words, function in COMMANDS.items():
        command = subparsers.add_parser(' '.join(words), allow_abbrev=False)
        command.set_defaults(function=function)
        command.add_argument('-f', choices=['value', 'shell'])
        command.add_argument('-c', action='append')
        for option in ('--ram', '--vcpus', '--property', '--image', '--flavor',
                       '--nic', '--prefix', '--service', '--status'):
            command.add_argument(option)
        command.add_argument('--disk', type=int)
        for option in ('--wait', '--live-migration'):
            command.add_argument(option, action='store_true')
        if words[-1] != 'list':
            command.add_argument('name')
    for words in COMMANDS:
        if tuple(arguments[:len(words)]) == words:
            args = parser.parse_args(
                [' '.join(words), *arguments[len(words):]])
            args.function(cloud, args)
            return
    sys.exit('no such command: %s' % arguments)


def mysql(cloud):
    """Copy the flavor from one spec to another."""
    source, target = re.findall(r"instance_uuid = '(\d+)'", sys.stdin.read())
    cloud['servers'][target]['spec'] = cloud['servers'][source]['spec']


def main():
    with open(PATH) as cloud_file:
        cloud = json.load(cloud_file)
    if sys.argv[1] == 'mysql':
        mysql(cloud)
    else:
        openstack(cloud, sys.argv[2:])
    with open(PATH, 'w') as cloud_file:
        json.dump(cloud, cloud_file)


main()
