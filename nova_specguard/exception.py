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

"""One class per cause."""

from nova import exception
from nova.i18n import _

# A nova that the guard does not fit, not a database that cannot be read.
FAULTS_OF_CODE = (AttributeError, ImportError, NameError)


class SpecGuardException(exception.NovaException):
    """Base of all exceptions of the guard; none of them leaves it."""

    msg_fmt = _('An unknown exception of the guard occurred.')


class InstanceGone(SpecGuardException):
    """The server, or its mapping to a cell, does not exist (any more).

    nova says so itself a moment later; there is nothing to guard.
    """

    msg_fmt = _('Server %(instance)s is in no cell.')


class Unverifiable(SpecGuardException):
    """The current instance could not be established.

    ``kwargs['cell']`` names its cell, as far as it is known.
    """

    msg_fmt = _('The server could not be verified.')


class LookupTimedOut(Unverifiable):
    """The databases did not answer within ``[specguard] lookup_timeout``."""

    msg_fmt = _('the databases of nova did not answer in %(timeout)s s')


class LookupFailed(Unverifiable):
    """Reading the mapping or the cell raised.

    Only the class of the cause is kept: messages of database drivers can
    carry a connection URL and with it a password.
    """

    msg_fmt = _('reading the server raised %(cause)s')


class FlavorMissing(Unverifiable):
    """The cell has no usable flavor for the server."""

    msg_fmt = _('the cell database has no flavor for the server')


class HookMismatch(SpecGuardException):
    """A function of nova is not what the guard was written for."""

    msg_fmt = _('%(hook)s does not fit nova %(version)s: %(reason)s')


class DatabaseUnreadable(SpecGuardException):
    """Reading the API database or a cell raised, or there was no answer.

    Only the class of the cause is kept, as in LookupFailed.
    """

    msg_fmt = _('%(database)s could not be read: %(cause)s')


class NotRepairable(SpecGuardException):
    """A row is left as it is."""

    msg_fmt = _('%(reason)s')


class NotIdle(NotRepairable):
    """A row is left as it is until nova has ended what it does."""


class NotReached(NotRepairable):
    """A row is left as it is because a database could not be used."""


class FactsUnreadable(SpecGuardException):
    """A file of facts is none, or one of another release."""

    msg_fmt = _('no file of "disks export": %(reason)s')


class DiskException(SpecGuardException):
    """A disk, or a file below it, was not read."""


class QemuImgAsRoot(DiskException):
    """A bug of qemu-img would be one of the whole host."""

    msg_fmt = _('qemu-img is not run as root: run this as the user of '
                'nova-compute')


class QemuImgMissing(DiskException):
    """A program is not installed."""

    msg_fmt = _('%(program)s is not installed')


class DiskMissing(DiskException):
    """There is no such file."""

    msg_fmt = _('%(path)s does not exist')


class DiskUnreadable(DiskException):
    """The operating system does not let us read a file."""

    msg_fmt = _('%(path)s could not be read: %(cause)s')


class QemuImgFailed(DiskUnreadable):
    """qemu-img has ended with an error."""

    msg_fmt = _('qemu-img info of %(path)s failed: %(cause)s')


class QemuImgTimedOut(DiskUnreadable):
    """qemu-img did not end."""

    msg_fmt = _('qemu-img info of %(path)s did not end in %(timeout)s s')


class QemuImgOverLimits(DiskUnreadable):
    """qemu-img was ended by the limits that nova sets for it."""

    msg_fmt = _("qemu-img info of %(path)s was ended by signal %(signal)s, as "
                "nova's limits of memory and processor time do")


class DiskUnsafe(DiskException):
    """What nobody should open."""


class DiskNotAFile(DiskUnsafe):
    """A symbolic link, FIFO, device or folder."""

    msg_fmt = _('%(path)s is no regular file')


class DiskFormatOther(DiskUnsafe):
    """The header is not of the format that is on record."""

    msg_fmt = _('%(path)s has no %(format)s header, but that is the format on '
                'record')


class DiskDataFile(DiskUnsafe):
    """Guest data in another file, which old releases of qemu open."""

    msg_fmt = _('%(path)s has an external data file, which nova never makes')
