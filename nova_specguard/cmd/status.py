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
"""nova-specguard-status: is everything in place?

Run it with the configuration files of one service, as nova-status.
"""

import sys
import time
import traceback

import nova.conf
from nova import config
from nova import objects
from oslo_config import cfg
from oslo_messaging import opts as messaging_opts
from oslo_upgradecheck import upgradecheck

from nova_specguard import alerts
from nova_specguard.audit import report
from nova_specguard.cmd import databases
from nova_specguard.cmd import output
from nova_specguard import reader
from nova_specguard.upgrade_check import configuration
from nova_specguard.upgrade_check import databases as database_checks

CONF = nova.conf.CONF
ERROR = 255

CHECKS = (
    ('Scheduler filter', configuration.check_filter),
    ('Notification drivers', configuration.check_driver),
    ('Hooks', configuration.check_hooks),
    ('Options', configuration.check_options),
    ('Databases', database_checks.check_databases),
    ('Request specs of a newer nova', database_checks.check_versions),
    ('Request specs without is_bfv', database_checks.check_is_bfv),
)


class Checks(upgradecheck.UpgradeCommands):
    """The checks, and what they found.

    :ivar results: list of (name, Result) of the checks that have run
    """

    def __init__(self, service=None):
        """Prepare the checks.

        :param service: one of configuration.SERVICES if the files are those
            of this service only
        """
        super().__init__()
        self._service = service
        self.results = []

    @property
    def _upgrade_checks(self):
        # The base class prints the results and forgets them.
        return tuple((name, (Checks._run, {'name': name, 'check': check}))
                     for name, check in CHECKS)

    def _run(self, name, check):
        result = check(self._service)
        result.details = reader.printable(alerts.mask(result.details))
        self.results.append((name, result))
        return result


def metrics(results, files, now):
    """The results for Prometheus.

    :param results: list of (name, Result)
    :param files: names of the configuration files and directories: several
        services of a host can have some of their own
    :param now: seconds since the epoch
    :returns: text in the exposition format
    """
    name = 'nova_specguard_upgrade_check'
    files = report.escaped(','.join(files))
    lines = ['# HELP %s 0 success, 1 warning, 2 failure.' % name,
             '# TYPE %s gauge' % name]
    lines += ['%s{check="%s",files="%s"} %d' % (
        name, check.lower().replace(' ', '_'), files, result.code)
        for check, result in results]
    lines += ['# HELP %s_last_run_timestamp_seconds When it ended.' % name,
              '# TYPE %s_last_run_timestamp_seconds gauge' % name,
              '%s_last_run_timestamp_seconds{files="%s"} %d' % (
                  name, files, now)]
    return '\n'.join(lines) + '\n'


def _check():
    checks = Checks(CONF.command.service)
    code = checks.check()
    if CONF.command.textfile:
        report.replace_file(CONF.command.textfile, metrics(
            checks.results, CONF.config_file + CONF.config_dir, time.time()))
    return code


def _add_parsers(subparsers):
    parser = subparsers.add_parser(
        'upgrade', description='Is everything in place, and does it fit?')
    parser.add_argument('action', choices=['check'])
    parser.add_argument(
        '--json', action='store_true',
        help='Print JSON instead of a table.')
    parser.add_argument(
        '--service', choices=configuration.SERVICES,
        help='The configuration files are those of this service only.')
    parser.add_argument(
        '--textfile', metavar='FILE.prom',
        help='Also write the results to a file for the textfile collector of '
             'the Prometheus node exporter.')
    parser.set_defaults(action_fn=_check)


def main(argv=None):
    """The entry point of the console script.

    :param argv: arguments, by default those of the process
    :returns: exit code: 0 success, 1 warning, 2 failure, 255 an error
    """
    return output.run(lambda: _run(
        sys.argv if argv is None else ['nova-specguard-status', *argv]),
        ERROR)


def _run(argv):
    try:
        CONF.register_cli_opt(cfg.SubCommandOpt(
            'command', title='Commands', handler=_add_parsers))
        config.parse_args(argv, configure_db=False, init_rpc=False)
        # transport_url, with which nova completes the URLs of cells
        CONF.register_opts(dict(messaging_opts.list_opts())[None])
        databases.configure()
        objects.register_all()
        # where the base class looks for --json
        upgradecheck.CONF = CONF
        return CONF.command.action_fn()
    except SystemExit as exc:
        # of argparse: 2 is the result of a check
        return ERROR if exc.code else 0
    except BrokenPipeError:
        raise
    except (cfg.Error, OSError) as exc:
        print('Error: %s' % reader.printable(alerts.mask(exc)),
              file=sys.stderr)
        return ERROR
    except Exception:
        print('Error:\n%s' % alerts.mask(traceback.format_exc()),
              file=sys.stderr)
        # as upgradecheck: not to be confused with the result of a check
        return ERROR
