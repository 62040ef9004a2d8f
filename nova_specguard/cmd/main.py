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

"""nova-specguard: find and repair request specs that have drifted."""

from importlib import metadata
import logging
import re
import sys

from cliff import app
from cliff import commandmanager
import nova.conf
from nova import config
from nova import objects
from oslo_config import cfg
from oslo_log import log as oslo_logging

from nova_specguard import alerts
from nova_specguard.cmd import databases
from nova_specguard.cmd import errors
from nova_specguard.cmd import output
from nova_specguard import reader

CONF = nova.conf.CONF
# Without any of these, oslo.log would write to stderr.
_DESTINATIONS = ('log_config_append', 'log_file', 'log_dir', 'use_syslog',
                 'use_journal')

# user:password@ of a URL
_SECRET = re.compile(r'(?<=://)[^\s/@]*(?:@[^\s/@]*)*@')


class _Formatter(logging.Formatter):
    """Makes messages fit for a terminal.

    Messages of database drivers have passwords, and names are free text.
    """

    def formatMessage(self, record):
        return reader.printable(super().formatMessage(record))

    def formatException(self, ei):
        return '\n'.join(map(
            reader.printable, super().formatException(ei).split('\n')))

    def format(self, record):
        return _SECRET.sub('***@', super().format(record))


class App(app.App):
    """The program."""

    NAME = 'nova-specguard'

    def __init__(self, **streams):
        super().__init__(
            description=__doc__, version=_version(),
            command_manager=commandmanager.CommandManager(
                'nova_specguard.commands'),
            deferred_help=True, **streams)
        self._error = None

    def build_option_parser(self, description, version, argparse_kwargs=None):
        parser = super().build_option_parser(
            description, version, argparse_kwargs)
        parser.add_argument(
            '--config-file', action='append', default=[], metavar='PATH',
            help='Configuration file of nova, can be repeated; by default '
                 'that of nova.')
        parser.add_argument(
            '--config-dir', action='append', default=[], metavar='DIR',
            help='Directory with configuration files of nova, can be '
                 'repeated.')
        return parser

    def configure_logging(self):
        super().configure_logging()
        for handler in logging.getLogger().handlers:
            handler.setFormatter(_Formatter(self.CONSOLE_MESSAGE_FORMAT))
            # The command's own output says the same.
            handler.addFilter(
                lambda record: record.name != alerts.LOGGER)
        if not self.options.debug:
            # What goes wrong in these comes back as an exception.
            for name in ('nova', 'oslo', 'oslo_config', 'oslo_db',
                         'oslo_messaging', 'oslo_versionedobjects',
                         'sqlalchemy', 'stevedore'):
                logging.getLogger(name).setLevel(logging.CRITICAL)

    def run(self, argv):
        try:
            result = super().run(argv)
        except SystemExit as exc:
            # of argparse: 0 after --help and --version
            return errors.BAD_ARGUMENTS if exc.code else 0
        except Exception:
            # With --debug, cliff logs it and raises it again.
            result = errors.CRASH
        if isinstance(self._error, errors.CommandError):
            return self._error.exit_code
        return result if self._error is None else errors.CRASH

    def initialize_app(self, argv):
        if not argv or argv[0] in ('help', 'complete'):
            return
        try:
            self._configure()
        except cfg.Error as exc:
            self._error = errors.CommandError(str(exc))
            raise self._error from None
        except Exception as exc:
            self._error = exc
            raise

    def _configure(self):
        arguments = [self.NAME]
        for path in self.options.config_file:
            arguments += ['--config-file', path]
        for path in self.options.config_dir:
            arguments += ['--config-dir', path]
        config.parse_args(arguments, configure_db=False)
        databases.configure()
        self._log_alerts()
        objects.register_all()

    def _log_alerts(self):
        """Have alerts go where the configuration sends nova's logs."""
        logging.getLogger(alerts.LOGGER).setLevel(logging.INFO)
        if not any(getattr(CONF, name) for name in _DESTINATIONS):
            return
        root = logging.getLogger()
        console = list(root.handlers)
        try:
            oslo_logging.setup(CONF, self.NAME)
        except (OSError, oslo_logging.LogConfigError) as exc:
            self.LOG.warning('Alerts are not logged: %s', exc)
        for handler in console:
            root.addHandler(handler)

    def interact(self):
        """There is no shell: without a command, say which there are."""
        self.parser.print_help(self.stderr)
        raise SystemExit(errors.BAD_ARGUMENTS)

    def run_subcommand(self, argv):
        try:
            self.command_manager.find_command(argv)
        except ValueError as exc:
            self.LOG.error(exc)
            return errors.BAD_ARGUMENTS
        return super().run_subcommand(argv)

    def clean_up(self, cmd, result, err):
        if isinstance(err, Exception) and not isinstance(
                err, BrokenPipeError):
            self._error = err


def _version():
    try:
        return metadata.version('nova-specguard')
    except metadata.PackageNotFoundError:
        # in a work tree
        return 'unknown'


def main(argv=None):
    """The entry point of the console script.

    :param argv: arguments, by default those of the process
    :returns: exit code
    """
    return output.run(
        lambda: App().run(sys.argv[1:] if argv is None else argv),
        errors.BAD_ARGUMENTS)
