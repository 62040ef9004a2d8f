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

"""How fast the audit is, on a MariaDB that this fills.

Prints a table in reStructuredText; exits with 1 if a bar is not held.
"""

import argparse
import copy
import gc
import json
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

from nova import config
from nova import context as nova_context
from nova.db.api import models as api_models
from nova.db.main import models
from nova import objects
from nova import version
from oslo_utils import timeutils
import pymysql
import sqlalchemy

from nova_specguard.audit import audit
from nova_specguard.audit import cell_rows
from nova_specguard.audit import selection
from nova_specguard import conf
from tests.benchmarks import guard
from tests import databases
from tests.unit import cloud

ROUNDS = 3
LOOP = 2000
PAGE = 500
DRIFTED = 500
FLOOR_BAR = 0.7
LOOP_BAR = 100
MEMORY_BAR = 60 << 20

_IMPORT = """
from nova import config
from nova.db.api import api
from nova.db.main import api
from nova import objects
objects.register_all()
"""
_AUDIT = """
from nova_specguard.cmd import main
# it finds drift
assert main.main(sys.argv[1:]) == 3
"""
# Not ru_maxrss, in which a child begins with what its parent has.
_MEMORY = """
import sys
{}
with open('/proc/self/status') as lines:
    print(*[line.split()[1] for line in lines if line.startswith('VmHWM')],
          file=sys.stderr)
"""


class Filler:
    """Fills the databases with servers of the reported case.

    They differ in what servers of a cloud differ in: ids, project, user, host,
    20 flavors and 20 images; and in the order of what nova writes from sets,
    which is another in each process of nova.
    """

    BATCH = 1000

    def __init__(self, server):
        self._chance = random.Random(0)
        self._case = cloud.reported_case()
        self._images = [self._uuid() for _image in range(20)]
        self._owners = [(self._uuid(), self._uuid())
                        for _project in range(100)]
        self._engines = {
            name: sqlalchemy.create_engine(server.url(name))
            for name in (databases.API, *databases.CELLS)}
        context = nova_context.get_admin_context()
        self.cells = []
        self.uuids = []
        for name in databases.CELLS:
            mapping = objects.CellMapping(
                context, uuid=self._uuid(), name=name,
                transport_url='none:///',
                database_connection=server.url(name))
            mapping.create()
            self.cells.append(mapping)

    def fill(self, count):
        """Add servers, the first half to the first cell.

        :returns: how many of them have drifted
        """
        for start in range(0, count, self.BATCH):
            rows = [self._row_of(number) for number in range(
                start, min(start + self.BATCH, count))]
            self.uuids.extend(row['instance']['uuid'] for row in rows)
            self._insert(self.cells[start * len(self.cells) // count], rows)
        return len(range(0, count, DRIFTED))

    def _uuid(self):
        return str(uuid.UUID(int=self._chance.getrandbits(128), version=4))

    def _shuffle(self, primitive):
        """Change the order of the lists that nova makes of sets."""
        if isinstance(primitive, dict):
            for name, value in primitive.items():
                if name == 'nova_object.changes':
                    self._chance.shuffle(value)
                else:
                    self._shuffle(value)

    def _row_of(self, number):
        row = copy.deepcopy(self._case)
        spec = row['request_spec']['nova_object.data']
        flavors = row['instance_extra']['flavor']
        if number % DRIFTED:
            flavors['new'] = None
            spec['flavor'] = copy.deepcopy(flavors['cur'])
        for flavor in (spec['flavor'], flavors['cur']):
            flavor['nova_object.data']['id'] += number % 20
            flavor['nova_object.data']['name'] += str(number % 20)
        image = self._images[number // 20 % 20]
        spec['image']['nova_object.data']['id'] = image
        row['system_metadata']['image_base_image_ref'] = image
        project, user = self._owners[number % 100]
        server = self._uuid()
        spec.update(id=spec['id'] + number, project_id=project, user_id=user,
                    instance_uuid=server)
        spec['pci_requests']['nova_object.data']['instance_uuid'] = server
        self._shuffle(row['request_spec'])
        row['instance'].update(
            uuid=server, image_ref=image, project_id=project, user_id=user,
            host='compute%d' % (number // 30),
            instance_type_id=flavors['cur']['nova_object.data']['id'])
        return row

    def _insert(self, cell, rows):
        tables = {}
        now = timeutils.utcnow()

        def add(model, row, **values):
            tables.setdefault(model.__table__, []).append({
                'created_at': now, 'instance_uuid': row['instance']['uuid'],
                **values})
        for row in rows:
            add(api_models.InstanceMapping, row, cell_id=cell.id,
                project_id=row['instance']['project_id'],
                queued_for_delete=False)
            add(api_models.RequestSpec, row,
                spec=json.dumps(row['request_spec']))
            add(models.InstanceExtra, row, deleted=0, **{
                name: value if value is None else json.dumps(value)
                for name, value in row['instance_extra'].items()})
            for key, value in row['system_metadata'].items():
                add(models.InstanceSystemMetadata, row, deleted=0, key=key,
                    value=value)
            add(models.BlockDeviceMapping, row, deleted=0, boot_index=0,
                uuid=row['instance']['uuid'], **row['root_device'])
        # referred to by the others
        self._execute(cell, models.Instance.__table__, [
            {'created_at': now, 'updated_at': now, 'deleted': 0,
             'hidden': False, **row['instance']} for row in rows])
        for table, values in tables.items():
            self._execute(cell, table, values)

    def _execute(self, cell, table, values):
        name = (databases.API if table.metadata is
                api_models.RequestSpec.metadata else cell.name)
        with self._engines[name].begin() as connection:
            connection.execute(table.insert(), values)


def floor(server, with_metadata):
    """Nothing but the reading and parsing, in one thread.

    :returns: how many servers were read
    """
    read = 0
    api, *cells = [
        pymysql.connect(unix_socket=server.socket, user='root', database=name)
        for name in (databases.API, *databases.CELLS)]
    ids = [row[0] for row in _fetch(
        api, 'SELECT id FROM cell_mappings ORDER BY id', ())]
    for cell_id, cell in zip(ids, cells):
        last = 0
        while True:
            mapped = _fetch(api, _FLOOR_API, (cell_id, last, PAGE))
            if not mapped:
                break
            last = mapped[-1][0]
            for row in mapped:
                json.loads(row[3])
            uuids = [row[1] for row in mapped]
            for row in _fetch(cell, _FLOOR_CELL, (uuids,)):
                json.loads(row[-3])
            if with_metadata:
                _fetch(cell, _FLOOR_METADATA, (uuids,))
            read += len(mapped)
    return read


_FLOOR_API = """
SELECT im.id, im.instance_uuid, im.project_id, rs.spec
FROM instance_mappings im
LEFT JOIN request_specs rs ON rs.instance_uuid = im.instance_uuid
WHERE im.cell_id = %s AND im.queued_for_delete = 0 AND im.id > %s
ORDER BY im.id LIMIT %s"""
_FLOOR_CELL = 'SELECT ' + ', '.join(
    ('i.' if name in models.Instance.__table__.c else 'e.') + name
    for name in cell_rows.Row._fields if name != 'image_metadata') + """
FROM instances i
LEFT JOIN instance_extra e ON e.instance_uuid = i.uuid AND e.deleted = 0
WHERE i.uuid IN %s"""
_FLOOR_METADATA = """
SELECT instance_uuid, `key`, value FROM instance_system_metadata
WHERE instance_uuid IN %s AND deleted = 0 AND `key` LIKE 'image\\_%%'"""


def _fetch(connection, query, arguments):
    with connection.cursor() as cursor:
        cursor.execute(query, arguments)
        return cursor.fetchall()


def audited(expected):
    """The audit.

    :param expected: how many servers have drifted
    :returns: how many servers were looked at
    """
    running = audit.Audit(selection.Selection(), conf.options(), 86400)
    found = {finding.instance_uuid for finding in running.run(lambda: None)}
    if len(found) != expected or running.unreadable:
        sys.exit('%d servers found, expected %d; %s' % (
            len(found), expected, running.unreadable))
    return running.checked


def loop(uuids):
    """The obvious loop over nova's objects.

    :returns: how many servers were looked at
    """
    context = nova_context.get_admin_context()
    for server in uuids:
        mapping = objects.InstanceMapping.get_by_instance_uuid(
            context, server)
        with nova_context.target_cell(context, mapping.cell_mapping) as cell:
            instance = objects.Instance.get_by_uuid(
                cell, server, expected_attrs=['flavor'])
        spec = objects.RequestSpec.get_by_instance_uuid(context, server)
        spec.flavor.flavorid == instance.flavor.flavorid
    return len(uuids)


def memory(code, *arguments):
    """The most memory that a program had, in bytes."""
    done = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', _MEMORY.format(code),
         *arguments],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return int(done.stderr.splitlines()[-1]) * 1024


def measure(server, path, count):
    """Measure all of it with so many servers.

    :param path: of a configuration of nova
    :returns: whether the bars are held
    """
    began = time.monotonic()
    filler = Filler(server)
    drifted = filler.fill(count)
    print('\n%d servers, filled in %.0f s\n' % (
        count, time.monotonic() - began))
    first = filler.uuids[:LOOP]
    rates = {}
    gc.collect()
    gc.freeze()
    for number in range(ROUNDS):
        for name, function, arguments in (
                ('floor', floor, (server, True)),
                ('floor without system_metadata', floor, (server, False)),
                ('audit', audited, (drifted,)),
                ('loop over objects', loop, (first[number::ROUNDS],))):
            began = time.monotonic()
            done = function(*arguments)
            rates.setdefault(name, []).append(
                done / (time.monotonic() - began))
    added = memory(_AUDIT, '--config-file', path, 'audit') - memory(_IMPORT)
    rows, held = [], []
    for name, bar in (('floor', FLOOR_BAR),
                      ('floor without system_metadata', None),
                      ('loop over objects', LOOP_BAR), ('audit', None)):
        ratios = [ours / theirs
                  for ours, theirs in zip(rates['audit'], rates[name])]
        ratio = statistics.median(ratios)
        held.append(bar is None or ratio >= bar)
        rows.append((name, '%.0f' % statistics.median(rates[name]),
                     '%.2f' % ratio, bar or '',
                     guard.verdict(held[-1]) if bar else ''))
    print(guard.table(('What', 'Servers/s', 'Audit by it', 'Bar', 'Verdict'),
                      rows))
    held.append(added <= MEMORY_BAR)
    print('\nMemory of the audit: %.0f MiB more than nova has imported, '
          'bar %d MiB, %s' % (added / 2 ** 20, MEMORY_BAR >> 20,
                              guard.verdict(held[-1])))
    server.empty()
    return all(held)


def main():
    parser = argparse.ArgumentParser(
        prog='tools/benchmark.sh audit', description=__doc__.splitlines()[0])
    parser.add_argument(
        'servers', type=int, nargs='*', default=[10000, 200000],
        help='how many servers to fill the database with; '
             'default: 10000 200000')
    counts = parser.parse_args().servers
    print('nova %s, Python %s' % (
        version.version_string(), platform.python_version()))
    server = databases.MariaDB.get()
    with tempfile.NamedTemporaryFile('w', suffix='.conf') as file:
        file.write('[api_database]\nconnection = %s\n' % server.url(
            databases.API))
        file.flush()
        config.parse_args(['nova', '--config-file', file.name])
        held = [measure(server, file.name, count) for count in counts]
    return 0 if all(held) else 1


if __name__ == '__main__':
    sys.exit(main())
