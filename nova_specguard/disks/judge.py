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

"""What the chain of a disk means for its server."""

import dataclasses
import os
import typing

from nova_specguard.disks import bases
from nova_specguard.disks import chain
from nova_specguard.disks import findings
from nova_specguard.disks import header
from nova_specguard.fields import base


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One thing to say of a disk.

    :ivar state: of findings
    :ivar reason: one line
    :ivar drift_class: DriftClass, if the state is FOUND
    """

    state: str
    reason: typing.Optional[str] = None
    drift_class: typing.Optional[base.DriftClass] = None


class Judge:
    """Compares chains with what nova makes."""

    def __init__(self, cache, images):
        """Do nothing yet.

        :param cache: path of the folder of nova's image cache
        :param images: dict of name of a base to id of the image
        """
        self._cache = cache
        self._images = images

    def judge(self, server, disk, read):
        """What there is to say of a disk.

        :param server: nova_specguard.disks.facts.Server
        :param disk: name of its file, as ``disk``
        :param read: nova_specguard.disks.chain.Chain
        :returns: list of Verdict, at least one
        """
        is_gone = read.drift_class is findings.BASE_MISSING and not read.files
        if read.is_unreadable or is_gone:
            return [Verdict(findings.UNREADABLE, read.reason)]
        if read.drift_class:
            return [_found(read.drift_class, read.reason)]
        path, image_format = read.files[0]
        if image_format == header.RAW:
            return [_raw(path)]
        if len(read.files) == 1:
            return [Verdict(findings.CLEAN, 'stands on no base')]
        found = []
        if len(read.files) > chain.DEPTH:
            found.append(_found(
                findings.CHAIN, '%d files where nova makes %d: %s' % (
                    len(read.files), chain.DEPTH,
                    ', '.join(path for path, _format in read.files))))
        names = bases.names(server, disk)
        if names:
            found.extend(self._compare(server, names, read.files[-1][0]))
        elif not found:
            return [Verdict(findings.NOT_APPLICABLE, (
                'the image of a rescue is in no database'
                if disk.endswith('.rescue') else
                'nova makes no such disk of what is known of the server'))]
        return found or [Verdict(findings.CLEAN)]

    def _compare(self, server, names, lowest):
        folder, name = os.path.split(lowest)
        if folder == self._cache and bases.is_one(name, names):
            return
        if name in self._images:
            text = 'the base of image %s' % self._images[name]
        else:
            text = 'no base of an image that a server here names'
        expected = os.path.join(self._cache, names[0])
        yield _found(findings.BASE_OTHER, '%s is %s; nova goes by %s, which '
                     'is %s in the cache' % (
                         lowest, text, self._images.get(names[0], names[0]),
                         'also' if os.path.exists(expected) else 'not'))


def _found(drift_class, reason):
    return Verdict(findings.FOUND, reason, drift_class)


def _raw(path):
    named = header.naming_format(path)
    if named is None:
        return Verdict(findings.CLEAN, 'raw: stands on no base')
    return _found(findings.HEADER, 'recorded as raw, and begins as an image '
                  'of format %s does: not opened' % named)
