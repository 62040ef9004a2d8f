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
"""nova-specguard disks repair."""

from nova_specguard import alerts
from nova_specguard.cmd import base
from nova_specguard.cmd import errors
from nova_specguard.cmd import progress
from nova_specguard.disks import facts
from nova_specguard.disks import qemu_img
from nova_specguard.disks import repair
from nova_specguard.disks import repairer
from nova_specguard import exception


class Repair(base.Command):
    """Give the disk of a stopped server the base that nova takes it to have.

    Run it on the server's compute host as the user of nova-compute. Works on
    a copy in the server's folder, and exchanges the files only when qemu-img
    has found that a guest sees the same in both. The old file stays beside
    it, as disk.specguard-old, until --discard-old. Each repair is alerted as
    SPECGUARD-402 or 403 where nova's logs go.

    Exit codes: 0 repaired, or there was nothing to repair; 3 the disk is left
    as it is, or would be changed without --dry-run; 127 bad arguments; 255 an
    unexpected error.
    """

    COLUMNS = ('instance_uuid', 'project_id', 'host', 'drift_class', 'method',
               'base', 'bytes_needed', 'bytes_free', 'outcome', 'reason')
    TABLE_COLUMNS = ('instance_uuid', 'drift_class', 'method', 'bytes_needed',
                     'bytes_free', 'outcome', 'reason')

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'uuid', metavar='UUID', type=base.instance_uuid,
            help='UUID of the server.')
        parser.add_argument(
            '--facts', required=True, metavar='FILE',
            help='What "disks export" on a controller has written for this '
                 'host, after the server was stopped.')
        how = parser.add_mutually_exclusive_group()
        how.add_argument(
            '--rebase', action='store_const', dest='method',
            const=repair.REBASE,
            help="Onto the base of the server's image, from the image cache "
                 '(default: this, where the base is there, else --flatten).')
        how.add_argument(
            '--flatten', action='store_const', dest='method',
            const=repair.FLATTEN, help='Onto nothing.')
        parser.add_argument(
            '--discard-old', action='store_true',
            help='Keep no old file, and remove that of an earlier repair.')
        parser.add_argument(
            '--dry-run', action='store_true',
            help='Show what would be done, and write nothing.')
        return parser

    def take_action(self, parsed_args):
        known = _facts(parsed_args)
        self._step = None
        self._bar = progress.Bar(self.app.stderr, self._line)
        repairing = repairer.Repairer(
            parsed_args.uuid, known, self._announce, self._show)
        result = repairing.repair(
            parsed_args.method, not parsed_args.discard_old,
            parsed_args.dry_run)
        self._bar.clear()
        if result.found and not parsed_args.dry_run:
            _alert(result)
        self._exit_code = 0 if result.outcome in (
            repairer.REPAIRED, repairer.NOTHING) else base.DRIFT
        return self.COLUMNS, [_row(parsed_args.uuid, known, result)]

    def _announce(self, plan):
        self.app.LOG.info(
            '%s by %s: the copy takes up to %d bytes, there are %d.',
            plan.path, plan.method, plan.needed, plan.free)

    def _show(self, step, percentage):
        self._step = step
        self._bar.show(percentage, 100)

    def _line(self, done, total, seconds):
        return '%s %3d %% %-7s' % (
            progress.drawn(done, total), done, self._step)


def _facts(parsed_args):
    """What is known of the servers of this host.

    :returns: Facts, with the server
    :raises CommandError: if it cannot be read, or the server is not in it
    """
    path = parsed_args.facts
    try:
        qemu_img.check_user()
        with open(path, encoding='utf-8') as read:
            known = facts.load(read.read())
    except exception.QemuImgAsRoot as exc:
        raise errors.CommandError(exc.format_message())
    except exception.FactsUnreadable as exc:
        raise errors.CommandError('%s: %s' % (path, exc.format_message()))
    except (OSError, UnicodeDecodeError) as exc:
        raise errors.CommandError('cannot read %s: %s' % (path, exc))
    if parsed_args.uuid not in known.servers:
        raise errors.CommandError(
            'no server %s on %s in %s' % (parsed_args.uuid, known.host, path))
    return known


def _alert(result):
    alerts.at_rest(
        alerts.DISK_REPAIRED if result.outcome == repairer.REPAIRED
        else alerts.DISK_NOT_REPAIRED,
        'disks-repair', result.outcome, result.found[0],
        [finding.difference for finding in result.found], result.reason)


def _row(uuid, known, result):
    plan = result.plan
    return (uuid, known.servers[uuid].project_id, known.host,
            ','.join(finding.drift_class.name for finding in result.found),
            plan and plan.method, plan and plan.base and plan.base[0],
            plan and plan.needed, plan and plan.free, result.outcome,
            result.reason)
