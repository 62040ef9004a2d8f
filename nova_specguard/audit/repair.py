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
"""What a stored request spec becomes when fields of it are repaired.

In place: only what is wrong changes, all other bytes and all versions of
objects stay, so that every nova that could load the text still can.
"""

import json

from nova import objects
from nova.objects import base as nova_base
from oslo_serialization import jsonutils

from nova_specguard.audit import findings
from nova_specguard.audit import stored
from nova_specguard import exception
from nova_specguard import fields

_CHANGES = 'nova_object.changes'


def repaired(text, current, names, options):
    """Repair fields of a request spec, in memory.

    :param text: the stored text
    :param current: CurrentInstance with nova's objects
    :param names: NAMEs of fields that differ and are correctable
    :param options: nova_specguard.conf.Options
    :returns: the text to be stored
    :raises NotRepairable: if this could change more than the fields
    """
    primitive = _parse(text)
    if jsonutils.dumps(primitive) != text:
        raise exception.NotRepairable(
            reason='the text is not written as nova writes it')
    if stored.load_faults(primitive):
        raise exception.NotRepairable(reason='nova cannot load it')
    before = _load(text)
    after = _load(text)
    fields.apply(names, after, current, options)
    _leave_out_members(after)
    data = primitive[stored.DATA]
    old, new = (spec.obj_to_primitive()[stored.DATA]
                for spec in (before, after))
    for name, value in new.items():
        if name not in old or old[name] != value:
            data[name] = _merged(
                data.get(name),
                _primitive(getattr(after, name), value, data.get(name)))
    result = jsonutils.dumps(primitive)
    left = {difference.field for difference in fields.differences(
        json.loads(result), current, findings.OPERATION, options)}
    if left.intersection(names) or stored.load_faults(json.loads(result)):
        # of a version that cannot hold what the server has, for instance
        raise exception.NotRepairable(
            reason='it would still differ after the repair')
    return result


def _parse(text):
    return json.loads(text, object_pairs_hook=_without_duplicates)


def _without_duplicates(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        raise exception.NotRepairable(reason='the text has duplicate keys')
    return found


def _load(text):
    return objects.RequestSpec.obj_from_primitive(json.loads(text))


def _leave_out_members(spec):
    # As RequestSpec.save does: they are large, and stale at once.
    if 'instance_group' in spec and spec.instance_group:
        group = spec.instance_group = spec.instance_group.obj_clone()
        group.members = group.hosts = None


def _primitive(value, primitive, old):
    """What nova would store for a value, in the versions that are stored."""
    if not isinstance(value, nova_base.NovaObject):
        return primitive
    value = value.obj_clone()
    value.obj_reset_changes(recursive=True)
    if not isinstance(old, dict):
        return value.obj_to_primitive()
    return value.obj_to_primitive(
        target_version=old[stored.VERSION],
        version_manifest=stored.versions(old))


def _merged(old, new):
    """The new value with as much of the old text as possible."""
    if isinstance(old, dict) and isinstance(new, dict):
        # What is new to it comes last; of what changed, nova keeps a list.
        names = [name for name in old if name in new or name == _CHANGES]
        names += [name for name in new if name not in old]
        return {name: _merged(old.get(name), new.get(name, old.get(name)))
                for name in names}
    if (isinstance(old, list) and isinstance(new, list) and
            len(old) == len(new)):
        return [_merged(*pair) for pair in zip(old, new)]
    return old if old == new else new
