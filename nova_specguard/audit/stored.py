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

"""What a stored text says, and whether this nova can load it."""

import functools
import json

from nova.objects import base as nova_base
from nova.objects import fields as nova_fields
from nova.objects import request_spec
from oslo_versionedobjects import exception as ovo_exception

from nova_specguard.audit import classes
from nova_specguard import reader

NAME, VERSION, DATA = (
    'nova_object.name', 'nova_object.version', 'nova_object.data')

# What parsing any text can raise: not JSON, not UTF-8, nested too deeply.
_UNPARSABLE = (ValueError, RecursionError)


def _types():
    """Which types a field of a RequestSpec can be stored as."""
    types = {}
    for name, field in request_spec.RequestSpec.fields.items():
        if isinstance(field, (nova_fields.ObjectField,
                              nova_fields.DictOfListOfStringsField)):
            types[name] = (dict,)
        elif isinstance(field, (nova_fields.ListOfStringsField,
                                nova_fields.ListOfObjectsField)):
            types[name] = (list,)
        else:
            types[name] = (str, int, bool)
    return types


_TYPES = _types()


@functools.lru_cache(maxsize=1024)
def parse(text):
    """Parse a text that many servers have alike; do not change the result.

    :param text: str, or None
    :returns: what the text says; None for one that cannot be parsed
    """
    try:
        return None if text is None else json.loads(text)
    except _UNPARSABLE:
        return None


def parse_spec(text):
    """Parse a request spec.

    :param text: str
    :returns: (primitive, or None if it is none; list of findings)
    """
    newer = None
    try:
        try:
            primitive = _DECODER.decode(text)
        except _Newer:
            primitive = json.loads(text)
            newer = _newer(primitive)
    except _UNPARSABLE as exc:
        return None, [_unreadable(type(exc).__name__)]
    if (not isinstance(primitive, dict) or
            primitive.get(NAME) != 'RequestSpec' or
            not isinstance(primitive.get(DATA), dict)):
        return None, [_unreadable('not a RequestSpec')]
    if newer:
        return primitive, [classes.finding(
            classes.SPEC, classes.SPEC_NEWER, *newer)]
    if _is_suspicious(primitive[DATA]):
        return primitive, load_faults(primitive)
    return primitive, []


def load_faults(primitive):
    """Have nova load a request spec, in memory.

    :param primitive: of a RequestSpec
    :returns: list of the finding if nova cannot
    """
    try:
        request_spec.RequestSpec.obj_from_primitive(primitive)
    except Exception as exc:
        # whatever nova runs into, nova-api would too
        return [_unreadable(type(exc).__name__)]
    return []


def _unreadable(reason):
    return classes.finding(
        classes.SPEC, classes.SPEC_UNREADABLE, reader.short(reason), None)


def _is_suspicious(data):
    """Whether it takes nova's own code to know that nova can load it."""
    for name, value in data.items():
        if value is not None and name in _TYPES and not isinstance(
                value, _TYPES[name]):
            return True
    return False


def versions(primitive):
    """The versions of the objects in a primitive.

    :param primitive: anything that JSON can say
    :returns: dict of name to version
    """
    return dict(_objects(primitive))


class _Newer(Exception):
    """There is something that this nova does not know."""


def _check(primitive):
    if NAME in primitive and _newest_if_unknown(
            str(primitive[NAME]), str(primitive.get(VERSION))):
        raise _Newer()
    return primitive


# Looks at each object while it is made, which is faster than to walk through
# them all afterwards.
_DECODER = json.JSONDecoder(object_hook=_check)


def _newer(primitive):
    """Find what this nova does not know.

    :returns: (object and version that is stored, and that this nova has), or
        None
    """
    for name, version in _objects(primitive):
        newest = _newest_if_unknown(name, version)
        if newest:
            return '%s %s' % (name, version), newest
    return None


def _objects(primitive):
    """Name and version of each object in a primitive."""
    found = [primitive]
    for value in found:
        if value.__class__ is dict and NAME in value:
            yield str(value[NAME]), str(value.get(VERSION))
            value = value.get(DATA)
        if value.__class__ is dict:
            value = value.values()
        elif value.__class__ is not list:
            continue
        found.extend(inner for inner in value
                     if inner.__class__ in (dict, list))


@functools.lru_cache(maxsize=1024)
def _newest_if_unknown(name, version):
    try:
        nova_base.NovaObject.obj_class_from_name(name, version)
    except ovo_exception.IncompatibleObjectVersion as exc:
        return '%s %s' % (name, exc.kwargs['supported'])
    except ovo_exception.UnsupportedObjectError:
        return '%s unknown' % name
    except (TypeError, ValueError):
        # not a version: for load_faults() to find
        return None
    return None
