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

"""What a compute host has to know of its servers, as a file.

A compute host has no database. A controller writes the file, with
``nova-specguard disks export``; ``nova-specguard disks audit`` reads it.
"""

import dataclasses
import json
import typing

from nova_specguard import exception

VERSION = 1


@dataclasses.dataclass(frozen=True)
class Server:
    """A server whose folder can be on the host.

    :ivar host: compute service that the server is on; another one if its
        folder is kept for a resize that waits to be confirmed
    :ivar image_ref: id of the image that nova takes the disk to be made of
    :ivar base_image_ref: id that a disk is rebased to when it is unshelved
    :ivar root_gb: of the flavor; as the others None if that is unreadable
    :ivar swap_mb: of the flavor
    :ivar ephemeral_gb: of the flavor
    :ivar ephemerals_gb: sizes of the ephemeral block devices, in order
    :ivar swaps_mb: sizes of the swap block devices
    :ivar is_encrypted: whether nova encrypts a local disk
    :ivar migration: status of a migration that has not ended, or None
    """

    project_id: typing.Optional[str]
    host: typing.Optional[str]
    vm_state: typing.Optional[str]
    task_state: typing.Optional[str]
    image_ref: typing.Optional[str]
    base_image_ref: typing.Optional[str]
    os_type: typing.Optional[str]
    root_gb: typing.Optional[int]
    swap_mb: typing.Optional[int]
    ephemeral_gb: typing.Optional[int]
    ephemerals_gb: list
    swaps_mb: list
    is_volume_backed: bool
    is_encrypted: bool
    migration: typing.Optional[str]


@dataclasses.dataclass(frozen=True)
class Facts:
    """The servers of one compute host at one time.

    :ivar host: name of the compute service
    :ivar cell: name of its cell
    :ivar time: seconds since the epoch, before anything was read
    :ivar servers: dict of UUID to Server
    """

    host: str
    cell: str
    time: int
    servers: dict

    def dump(self):
        """The text of the file.

        :returns: str
        """
        return json.dumps({'version': VERSION, **dataclasses.asdict(self)},
                          indent=1, sort_keys=True) + '\n'


def load(text):
    """Read the text of a file.

    :param text: what Facts.dump() has made
    :returns: Facts
    :raises FactsUnreadable: if it is no such text, or of another version
    """
    try:
        values = json.loads(text)
        version = values.pop('version')
        if version != VERSION:
            raise exception.FactsUnreadable(
                reason='version %s, this release reads %s'
                       % (version, VERSION))
        servers = {uuid: Server(**server)
                   for uuid, server in values.pop('servers').items()}
        return Facts(servers=servers, **values)
    except (AttributeError, KeyError, RecursionError, TypeError,
            ValueError) as exc:
        raise exception.FactsUnreadable(
            reason='%s: %s' % (type(exc).__name__, exc)) from None
