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

"""Whatever text the columns hold, it is reported and does not end the audit.
"""

import copy
import json

import hypothesis
from hypothesis import strategies as st

from nova_specguard.audit import api_rows
from nova_specguard.audit import audit
from nova_specguard.audit import bulk
from nova_specguard.audit import cell_rows
from nova_specguard.audit import findings
from nova_specguard.audit import report
from nova_specguard.audit import server as audit_server
from tests.unit import base
from tests.unit import cloud

ROW = cloud.healthy()
SPEC, EXTRA = ROW['request_spec'], ROW['instance_extra']

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children) |
    st.dictionaries(st.text(), children), max_leaves=5)


def paths(value, path=()):
    """Where something is in what a text says."""
    yield path
    items = (value.items() if isinstance(value, dict) else
             enumerate(value) if isinstance(value, list) else ())
    for key, item in items:
        yield from paths(item, path + (key,))


def replaced(value, path, new):
    """What a text says, with something else in one place."""
    if not path:
        return new
    value = copy.deepcopy(value)
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return value


def mutated(value):
    """Texts that once said this."""
    text = json.dumps(value)
    return st.one_of(
        st.integers(0, len(text)).map(lambda end: text[:end]),
        st.text(),
        st.integers(1, 100000).map(lambda depth: '[' * depth + text),
        st.tuples(st.sampled_from(list(paths(value))), VALUES).map(
            lambda pair: json.dumps(replaced(value, *pair))))


class FakeCell:
    """A cell with one server in it."""

    name = 'cell1'

    def root_destinations(self, uuids):
        return dict.fromkeys(uuids, 'local')

    def is_rebuilt(self, uuid):
        return True


class FuzzTest(base.TestCase):

    def found(self, spec=json.dumps(SPEC), **extra):
        """What is found of a server with these texts."""
        columns = dict.fromkeys(cell_rows.Row._fields)
        columns.update(ROW['instance'])
        columns.update({name: json.dumps(value)
                        for name, value in EXTRA.items()})
        columns['image_metadata'] = json.dumps(ROW['system_metadata'])
        columns.update(extra)
        server = audit_server.Server(
            api_rows.Mapped(1, columns['uuid'], 'p', spec, ()),
            cell_rows.Row(**columns), 'cell1')
        options = self.options()
        bulk.Reader(self.context, FakeCell(), ({}, set()), options).read(
            [server])
        found = findings.of(server, options)
        for difference in found:
            json.dumps(report.row(
                audit.Finding(server.row.uuid, difference)))
        return [difference.drift_class.name for difference in found]

    def test_untouched(self):
        self.assertEqual([], self.found())

    @hypothesis.settings(max_examples=100, deadline=None, database=None)
    @hypothesis.given(mutated(SPEC))
    def test_request_spec(self, text):
        found = self.found(text)
        try:
            says = json.loads(text)
        except (ValueError, RecursionError):
            says = None
        if not isinstance(says, dict):
            self.assertEqual(['spec-unreadable'], found)

    @hypothesis.settings(max_examples=50, deadline=None, database=None)
    @hypothesis.given(mutated(EXTRA['flavor']))
    def test_flavor(self, text):
        found = self.found(flavor=text)
        try:
            says = json.loads(text)
        except (ValueError, RecursionError):
            says = None
        if not isinstance(says, dict):
            self.assertEqual(['instance-unreadable'], found)

    @hypothesis.settings(max_examples=30, deadline=None, database=None)
    @hypothesis.given(mutated([]), mutated(None))
    def test_pci_requests_and_topology(self, pci_requests, numa_topology):
        self.found(pci_requests=pci_requests, numa_topology=numa_topology)
