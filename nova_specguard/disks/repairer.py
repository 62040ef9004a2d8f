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

"""Whether the disk of a server may be repaired now, and doing it."""

import contextlib
import dataclasses
import errno
import os
import typing

from nova.compute import vm_states
import nova.conf
from oslo_concurrency import lockutils

from nova_specguard.disks import audit
from nova_specguard.disks import bases
from nova_specguard.disks import chain
from nova_specguard.disks import copy
from nova_specguard.disks import findings
from nova_specguard.disks import header
from nova_specguard.disks import image_lock
from nova_specguard.disks import qemu_img
from nova_specguard.disks import repair
from nova_specguard.disks import swap
from nova_specguard import exception

CONF = nova.conf.CONF

REPAIRED, WOULD_REPAIR, LEFT = 'repaired', 'would be repaired', 'left'
NOTHING = 'nothing to repair'

_REPAIRABLE = (findings.BASE_OTHER, findings.CHAIN)
# One for all servers: two repairs at a time would each count on the space
# that the other one is about to take.
_LOCK = 'specguard-disks-repair'


@dataclasses.dataclass(frozen=True)
class Result:
    """What became of a disk.

    :ivar outcome: REPAIRED, WOULD_REPAIR, LEFT or NOTHING
    :ivar found: list of nova_specguard.disks.findings.Finding, what was wrong
        with it
    :ivar plan: what was to be done, or None if it did not get so far
    :ivar reason: why it was left, or None
    """

    outcome: str
    found: list
    plan: typing.Optional[repair.Plan]
    reason: typing.Optional[str] = None


class Repairer:
    """Repairs the disk of one server, if it may be now."""

    def __init__(self, uuid, facts, announce, show):
        """Do nothing yet.

        :param uuid: UUID of a server in facts
        :param facts: nova_specguard.disks.facts.Facts
        :param announce: called with the Plan before anything is written
        :param show: called with what is done and how much of it, in percent
        """
        self._uuid = uuid
        self._facts = facts
        self._server = facts.servers[uuid]
        self._announce = announce
        self._show = show
        self._cache = os.path.join(
            CONF.instances_path, CONF.image_cache.subdirectory_name)
        self._folder = os.path.join(CONF.instances_path, uuid)
        self._disk = os.path.join(self._folder, 'disk')
        self._reader = chain.Reader(self._cache)

    def repair(self, method, keeps_old, is_dry_run):
        """Repair the disk, or say why not.

        :param method: repair.REBASE, repair.FLATTEN, or None for the first
            where it can be done
        :param keeps_old: whether the old file stays under another name
        :param is_dry_run: whether to write nothing
        :returns: Result
        """
        self._found, self._plan = [], None
        try:
            with contextlib.ExitStack() as stack:
                if not is_dry_run:
                    stack.enter_context(_alone())
                    swap.tidy(self._disk)
                outcome = self._repair(method, keeps_old, is_dry_run)
        except (exception.NotRepairable, exception.DiskException) as exc:
            return self._result(LEFT, exc.format_message())
        except OSError as exc:
            return self._result(LEFT, str(exc))
        return self._result(outcome)

    def _result(self, outcome, reason=None):
        return Result(outcome, self._found, self._plan, reason)

    def _repair(self, method, keeps_old, is_dry_run):
        self._audit()
        if not self._found:
            if not (keeps_old or is_dry_run):
                swap.discard_old(self._disk)
            return NOTHING
        self._check(keeps_old)
        with image_lock.ImageLock(self._disk) as lock:
            # From now on nobody writes.
            read = self._reader.read(self._disk, header.QCOW2)
            if read.reason:
                raise exception.NotRepairable(reason=read.reason)
            info = self._info()
            base = self._base(method)
            repairing = repair.Repair(copy.Copier(
                info.virtual_size,
                _is_direct(read.files + ([base] if base else [])),
                self._show))
            self._plan = repairing.plan(read.files, base)
            self._announce(self._plan)
            if is_dry_run:
                return WOULD_REPAIR
            repairing.carry_out(self._plan, info.details['cluster-size'],
                                lock.check, keeps_old)
        return REPAIRED

    def _audit(self):
        """Look at the disk as an audit does.

        Sets what was found.

        :raises NotRepairable: if there is nothing to be said of it
        """
        known = dataclasses.replace(
            self._facts, servers={self._uuid: self._server})
        about = [finding for finding in audit.Audit(
            known, CONF.instances_path).run(lambda: None)
            if finding.path in (self._folder, self._disk)]
        if not about:
            raise exception.NotRepairable(
                reason='there is no %s' % self._folder)
        for finding in about:
            if finding.state == findings.FOUND:
                self._found.append(finding)
            elif finding.state != findings.CLEAN:
                raise exception.NotRepairable(reason=finding.reason)

    def _check(self, keeps_old):
        """Make sure that the disk may be repaired.

        :raises NotRepairable: if not
        """
        for finding in self._found:
            if finding.drift_class not in _REPAIRABLE:
                raise exception.NotRepairable(reason=finding.reason)
        if self._server.vm_state != vm_states.STOPPED:
            raise exception.NotRepairable(
                reason='the server was %s: stop it, and export the facts '
                       'again' % self._server.vm_state)
        for path in (self._folder, self._disk):
            owner = os.lstat(path).st_uid
            if owner != os.geteuid():
                raise exception.NotRepairable(
                    reason='%s belongs to user %d and this is run by %d: let '
                           'both be the user of nova-compute'
                           % (path, owner, os.geteuid()))
        if keeps_old:
            swap.check_none_kept(self._disk)

    def _info(self):
        """What the header of the disk says.

        :returns: nova_specguard.disks.qemu_img.Info
        :raises NotRepairable: if there is something that would get lost
        """
        info = qemu_img.info(self._disk, header.QCOW2)
        if info.is_encrypted or info.details.get('snapshots'):
            raise exception.NotRepairable(
                reason='%s is encrypted or has internal snapshots, as nova '
                       'makes none' % self._disk)
        return info

    def _base(self, method):
        """What the disk shall stand on.

        :returns: (path, format), or None for nothing
        :raises NotRepairable: if it cannot be what was asked for
        """
        if method == repair.FLATTEN:
            return None
        try:
            return self._usable_base()
        except (exception.DiskException, exception.NotRepairable) as exc:
            if method == repair.REBASE:
                raise exception.NotRepairable(
                    reason='no base to rebase to: %s' % exc.format_message())
            return None

    def _usable_base(self):
        names = bases.names(self._server, 'disk')
        if not names:
            raise exception.NotRepairable(
                reason='nova knows no image of the server')
        path = os.path.join(self._cache, names[0])
        named = header.naming_format(path)
        if named and (named != header.QCOW2 or CONF.force_raw_images):
            raise exception.NotRepairable(
                reason='%s begins as an image of format %s does' % (
                    path, named))
        read = self._reader.read(path, named or header.RAW)
        if read.reason or len(read.files) > 1:
            raise exception.NotRepairable(
                reason=read.reason or '%s has a base itself' % path)
        return read.files[0]


@contextlib.contextmanager
def _alone():
    """Only one repair is in this context, on all hosts of instances_path.

    :raises NotRepairable: if another one is
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(lockutils.lock(
                _LOCK, 'nova-', external=True, blocking=False,
                lock_path=os.path.join(CONF.instances_path, 'locks')))
        except lockutils.AcquireLockFailedException:
            raise exception.NotRepairable(
                reason='another repair is under way: wait for its end')
        yield


def _is_direct(files):
    """Whether files can be read past the host's page cache."""
    try:
        for path, _format in files:
            os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError as exc:
        if exc.errno != errno.EINVAL:
            raise
        return False
    return True
