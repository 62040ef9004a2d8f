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

"""Database servers of the tests' own, with nova's schemas.

They keep their data in a temporary directory, and listen on a socket in it
only: no port is taken.
"""

import atexit
import contextlib
import glob
import os
import shutil
import signal
import subprocess
import tempfile
import time

from nova.db.api import api as api_db
from nova.db.main import api as main_db
from nova.db import migration
from oslo_db.sqlalchemy import enginefacade
import sqlalchemy
from sqlalchemy import exc as sqlalchemy_exc

# Seconds that a server may take to start.
_PATIENCE = 60
# nova's fixtures have each test use another, and remove it.
_DIRECTORY = tempfile.gettempdir()

API = 'nova_api'
# What nova.conf names, which is no cell that servers are in.
DEFAULT = 'nova_cell0'
CELLS = ('nova_cell1', 'nova_cell2')


class Server:
    """A database server with an API database and three cells'.

    It is started by the first test of a process that asks for it, and ends
    with the process.

    :cvar package: its Debian package
    :cvar account: as whom it runs for root, as whom no database server runs
    :cvar directories: where its programs are, beside the PATH
    :cvar stop_signal: what ends it without waiting for connections
    :cvar maintenance: name of a database that is always there
    :ivar api: transaction context of the API database
    :ivar default: transaction context of the database in nova.conf
    :ivar cell1: transaction context of the first cell's
    """

    package = account = maintenance = None
    directories = ()
    stop_signal = signal.SIGTERM

    _started = {}

    @classmethod
    def get(cls):
        """The server of this process."""
        if cls not in cls._started:
            cls._started[cls] = cls()
        return cls._started[cls]

    def __init__(self):
        self._directory = tempfile.mkdtemp(
            prefix='specguard-', dir=_DIRECTORY)
        self._pid = os.getpid()
        self._process = None
        atexit.register(self._stop)
        self._owner = {}
        if os.geteuid() == 0:
            shutil.chown(self._directory, self.account, self.account)
            self._owner = {'user': self.account, 'group': self.account,
                           'extra_groups': ()}
        self._start()
        self.api, self.default, self.cell1, _cell2 = map(
            self._migrated, (API, DEFAULT, *CELLS))

    def url(self, name):
        """The SQLAlchemy URL of a database."""
        raise NotImplementedError()

    def connection(self, name):
        """A context manager that gives a connection, in autocommit mode."""
        engine = sqlalchemy.create_engine(
            self.url(name), isolation_level='AUTOCOMMIT',
            poolclass=sqlalchemy.pool.NullPool)
        return engine.connect()

    @contextlib.contextmanager
    def paused(self):
        """Have it accept connections, and answer nothing."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def empty(self):
        """Delete all rows."""
        for name in (API, DEFAULT, *CELLS):
            with self.connection(name) as connection:
                tables = sqlalchemy.inspect(connection).get_table_names()
                self._delete(connection, [
                    table for table in tables if table != 'alembic_version'])

    def _start(self):
        log = os.path.join(self._directory, 'log')
        with open(log, 'wb') as output:
            subprocess.run(
                self._prepare(), check=True, cwd=self._directory,
                stdout=output, stderr=output, **self._owner)
            self._process = subprocess.Popen(
                self._serve(), cwd=self._directory, stdout=output,
                stderr=output, **self._owner)
        give_up = time.monotonic() + _PATIENCE
        while True:
            try:
                with self.connection(self.maintenance) as connection:
                    for name in (API, DEFAULT, *CELLS):
                        connection.execute(sqlalchemy.text(
                            self._create % name))
                return
            except sqlalchemy_exc.OperationalError as exc:
                if (self._process.poll() is None and
                        time.monotonic() < give_up):
                    time.sleep(0.05)
                    continue
                with open(log) as lines:
                    raise RuntimeError('no %s: %s\n%s' % (
                        self.package, exc, lines.read()))

    def _migrated(self, name):
        manager = enginefacade.transaction_context()
        manager.configure(connection=self.url(name))
        database, owner = (('api', api_db) if name == API
                           else ('main', main_db))
        replaced = owner.context_manager.patch_factory(manager)
        try:
            migration.db_sync(database=database)
        finally:
            replaced()
        return manager

    def _stop(self):
        # A forked child ends, too.
        if os.getpid() != self._pid:
            return
        if self._process is not None:
            self._process.send_signal(self.stop_signal)
            self._process.wait()
        shutil.rmtree(self._directory)

    def _program(self, name):
        path = os.pathsep.join((os.environ['PATH'], *self.directories))
        found = shutil.which(name, path=path)
        if found is None:
            raise RuntimeError(
                'no program %s: install the package %s' % (
                    name, self.package))
        return found


class MariaDB(Server):

    package = 'mariadb-server'
    account = 'mysql'
    directories = ('/usr/sbin',)
    maintenance = ''
    _create = 'CREATE DATABASE %s CHARACTER SET utf8mb3'

    @property
    def socket(self):
        return os.path.join(self._directory, 'socket')

    def url(self, name):
        return 'mysql+pymysql://root@localhost/%s?unix_socket=%s' % (
            name, self.socket)

    def _prepare(self):
        return [self._program('mariadb-install-db'), '--no-defaults',
                '--datadir=%s/data' % self._directory, '--skip-test-db',
                '--auth-root-authentication-method=normal']

    def _serve(self):
        return [self._program('mariadbd'), '--no-defaults',
                '--datadir=%s/data' % self._directory,
                '--socket=%s' % self.socket, '--skip-networking',
                '--innodb-flush-log-at-trx-commit=0']

    @staticmethod
    def _delete(connection, tables):
        connection.execute(sqlalchemy.text('SET foreign_key_checks = 0'))
        for table in tables:
            connection.execute(sqlalchemy.text('DELETE FROM ' + table))


class PostgreSQL(Server):

    package = 'postgresql'
    account = 'postgres'
    directories = sorted(glob.glob('/usr/lib/postgresql/*/bin'))
    stop_signal = signal.SIGINT
    maintenance = 'postgres'
    _create = 'CREATE DATABASE %s'

    def url(self, name):
        return 'postgresql+psycopg2://nova@/%s?host=%s' % (
            name, self._directory)

    def _prepare(self):
        return [self._program('initdb'), '--username=nova', '--auth=trust',
                '--encoding=UTF8', '--locale=C.UTF-8', '--no-sync',
                '--pgdata=%s/data' % self._directory]

    def _serve(self):
        return [self._program('postgres'), '-D', self._directory + '/data',
                '-k', self._directory, '-c', 'listen_addresses=',
                '-c', 'fsync=off']

    @staticmethod
    def _delete(connection, tables):
        connection.execute(sqlalchemy.text('TRUNCATE ' + ', '.join(
            '"%s"' % table for table in tables)))
