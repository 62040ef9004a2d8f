# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The page of the reference that says what happens to which drift.

It is computed from the fields and from tests.functional.matrix, of which
test_matrix runs every case. SPECGUARD_WRITE_DOCS=1 writes it anew.
"""

import os

from nova_specguard import fields
from tests.functional import matrix
from tests.unit import base
from tests.unit.test_enforcement_table import list_table

PAGE = os.path.join(os.path.dirname(__file__), '..', '..', 'doc', 'source',
                    'reference', 'drifts.rst')

HEAD = '''\
======
Drifts
======

.. Written by tests/unit/test_drift_table.py; do not edit.
'''
CLASSES = '''
Upstream status
===============

Each drift class, how nova gets there, and what nova's tracker knows of it
(as far as searches of Launchpad, release notes and code have shown).
'''
TABLE = '''
Operation by operation
======================

What nova alone does with a server that has drifted, and what the guard makes
of it with its default options, in nova-conductor and nova-scheduler. Nova's
own failing code makes the drift; where none does, a row is edited (*row*).

The test of each line is ``tests.functional.test_matrix``, in the cases named
``OPERATION_untargeted_DRIFT_off`` (nova alone) and ``..._correct`` (guarded);
``tools/matrix.sh`` runs all of them, and those with a target host and the
other modes. Evacuation and rebuild of *missing group* without the guard are
not among them, since nova never ends them; ``test_operations`` has one.

*right*: the server lands where the right value allows it, with an allocation
of its own size, booked on its owner. A rebuild leaves the server on its host.
'''
# Made by an edit of the row, in tests.functional.drifts.
EDITED = ('extra specs', 'flavor too big', 'other project', 'other user',
          'missing group', 'left group', 'no is_bfv', 'wrong is_bfv')
OUTCOMES = {'101': 'corrected', '102': 'refused', '103': 'alerted'}


def classes():
    return [(field, drift_class) for field in fields.FIELDS
            for drift_class in field.CLASSES]


def case(operation, drift, mode):
    return matrix.Case(operation, 'untargeted', drift, mode)


def result(found):
    """What becomes of the server."""
    if found.stops_nova:
        if not found.ends:
            return 'AttributeError; stays in task_state rebuilding'
        return 'AttributeError; %s' % matrix.expected_status(found)
    healthy = case(found.operation, 'healthy', 'off')
    host = matrix.expected_host(found)
    if host is None:
        return 'no host is found; %s' % matrix.expected_status(found)
    right = matrix.DRIFTS[found.drift].right
    faults = []
    if host not in right and found.operation not in matrix.NEVER_MOVED:
        faults.append('wrong host')
    resources = matrix.expected_resources(found)
    if not resources:
        faults.append('no allocation')
    elif resources != matrix.expected_resources(healthy):
        faults.append('allocation of another size')
    if matrix.expected_consumer(found) != matrix.expected_consumer(healthy):
        faults.append('allocation of another owner')
    return ', '.join(faults) or 'right'


class DriftPageTest(base.TestCase):

    def upstream(self):
        return CLASSES + list_table(
            ['Class', 'Field', 'Severity', 'Cause', 'Upstream'],
            [['``%s``' % found.name, '``%s``' % field.NAME, found.severity,
              found.cause, found.upstream] for field, found in classes()])

    def table(self):
        rows = []
        for name, drift in matrix.DRIFTS.items():
            if name == 'healthy':
                continue
            label = '%s (``%s``%s)' % (
                name, drift.drift_class, ', row' if name in EDITED else '')
            for operation in matrix.OPERATIONS:
                guarded = case(operation, name, 'correct')
                alert = matrix.expected_alert(guarded)
                rows.append([
                    label, operation,
                    result(case(operation, name, 'off')),
                    '%s: %s' % (OUTCOMES[alert], result(guarded)) if alert
                    else 'not affected'])
        return TABLE + list_table(
            ['Drift', 'Operation', 'nova alone', 'With the guard'], rows)

    def test_page_says_what_the_tests_show(self):
        text = HEAD + self.upstream() + self.table()
        if os.environ.get('SPECGUARD_WRITE_DOCS') == '1':
            with open(PAGE, 'w') as page:
                page.write(text)
        with open(PAGE) as page:
            self.assertEqual(text, page.read())

    def test_every_drift_class_is_in_the_matrix(self):
        self.assertEqual(
            {found.name for _field, found in classes()},
            {drift.drift_class for drift in matrix.DRIFTS.values()} - {None})
