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

"""One disk that stands on another base than its server's image."""

import dataclasses
import os

from oslo_utils import fileutils

from nova_specguard.disks import swap
from nova_specguard import exception

REBASE, FLATTEN = 'rebase', 'flatten'


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is to be done.

    :ivar chain: list of (path, format), the disk first
    :ivar base: (path, format) of what the disk shall stand on, or None
    :ivar needed: bytes that the copy takes at most
    :ivar free: bytes that there are in the disk's file system
    """

    chain: list
    base: tuple
    needed: int
    free: int

    @property
    def method(self):
        return REBASE if self.base else FLATTEN

    @property
    def path(self):
        """Path of the disk."""
        return self.chain[0][0]


class Repair:
    """Gives a disk the right base, or none; what is in it stays."""

    def __init__(self, copier):
        """Do nothing yet.

        :param copier: nova_specguard.disks.copy.Copier of the disk
        """
        self._copier = copier

    def plan(self, chain, base):
        """Look at what a repair takes. Writes nothing.

        :param chain: list of (path, format), the disk first
        :param base: (path, format) of what it shall stand on, or None
        :returns: Plan
        :raises NotRepairable: if qemu-img fails
        """
        needed, full = self._copier.measure(chain)
        if base is not None:
            # The copy begins as the disk is now. To it comes, at most, what
            # the old base has, to keep it, and zeros over what the new one
            # has.
            needed = os.stat(chain[0][0]).st_blocks * 512 + min(
                full, sum(self._copier.measure(below)[0]
                          for below in (chain[1:], [base])))
        status = os.statvfs(os.path.dirname(chain[0][0]))
        return Plan(chain, base, needed, status.f_bavail * status.f_frsize)

    def carry_out(self, plan, cluster_size, check, keeps_old):
        """Make the copy, look at it, and put it in the disk's place.

        :param plan: Plan
        :param cluster_size: of the disk, in bytes
        :param check: called before the exchange; raises what forbids it
        :param keeps_old: whether the old file stays under another name
        :raises NotRepairable: if it does not work out; the disk is as before
        :raises OSError: the same
        """
        if plan.needed > plan.free:
            raise exception.NotRepairable(
                reason='the copy needs up to %d bytes and there are %d' % (
                    plan.needed, plan.free))
        name = plan.path + swap.COPY
        try:
            self._make(plan, name, cluster_size)
            check()
            swap.put(plan.path, keeps_old)
        finally:
            fileutils.delete_if_exists(name)

    def _make(self, plan, name, cluster_size):
        new = [(name, plan.chain[0][1])]
        if plan.base:
            self._copier.copy(plan.path, name)
            self._copier.rebase(new + plan.chain[1:], plan.base)
            new.append(plan.base)
        else:
            self._copier.flatten(plan.chain, name, cluster_size)
        self._copier.check(new)
        self._copier.compare(plan.chain, new)
