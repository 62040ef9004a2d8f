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

"""The page of the reference that says what is done about which verdict.

It is computed from guard.enforce. SPECGUARD_WRITE_DOCS=1 writes it anew.
"""

import itertools
import os
import textwrap

from nova_specguard.fields import base as fields_base
from nova_specguard import guard
from nova_specguard.operation import Operation
from tests.unit import base
from tests.unit import builders

PAGE = os.path.join(os.path.dirname(__file__), '..', '..', 'doc', 'source',
                    'reference', 'enforcement.rst')
MODES = ('enforce', 'warn', 'off')
BOOLEANS = (True, False)
# The modes of a column, beside the operation's name.
WRITTEN = {'evacuate': 'enforce'}

HEAD = '''\
===========
Enforcement
===========

.. Written by tests/unit/test_enforcement_table.py; do not edit.

What the guard does about a verdict, as ``nova_specguard.guard.enforce``
decides it. *corrected* (101): in memory, before the request goes on. *refused*
(102): the move finds no host. *allowed* (103): alerted, unchanged. *none*: not
even alerted. A consistent request is let through without an alert.
'''
MODE = '''
The mode that holds
===================

``mode = off`` wins over everything. Otherwise a mode in ``operation_modes`` or
``field_modes`` overrides ``mode``; of two the more lenient holds.
'''
DRIFT = '''
A field that differs
====================

*Can be corrected*: the difference has an expected value that can be put in,
and the service that looks at the request may do it (:doc:`index` says which
for each field). *Can be refused*: nova alone could not have done the move
right.
'''
LINKED = '''
Fields that hang together
=========================

What shapes others (``flavor``; extra specs and image properties of NUMA or
PCI) and what is derived from it (``numa_topology``, ``pci_requests``), where
both differ: the outcome of the one, of the other. Modes that are not named are
``enforce``.
'''
UNVERIFIABLE = '''
A server that could not be verified
===================================

Alert 201. nova-scheduler cannot always tell which operation it is; then the
request is refused only if each one that it can be would be.
'''


def difference(field='project', **kwargs):
    return fields_base.Difference(
        field, fields_base.DriftClass('class', 'info', ''), '', '', **kwargs)


class Column:
    """An operation, with or without its mode written in the options."""

    def __init__(self, operations, written=None):
        self.operations = frozenset(operations)
        self.written = written or {}

    @property
    def title(self):
        title = ' or '.join(sorted(self.operations))
        return ' '.join([title] + [
            '(``%s:%s``)' % pair for pair in self.written.items()])


COLUMNS = []
for _operation in Operation:
    COLUMNS.append(Column({_operation}))
    if _operation in WRITTEN:
        COLUMNS.append(Column({_operation},
                              {_operation.value: WRITTEN[_operation]}))
EITHER = [Column({Operation.LIVE_MIGRATION, Operation.EVACUATE}),
          Column({Operation.LIVE_MIGRATION, Operation.EVACUATE}, WRITTEN)]


def list_table(header, rows):
    text = '\n.. list-table::\n   :header-rows: 1\n\n'
    for row in [header] + rows:
        for index, cell in enumerate(row):
            text += textwrap.fill(
                cell, 79, initial_indent='     - ' if index else '   * - ',
                subsequent_indent=' ' * 7, break_on_hyphens=False) + '\n'
    return text


def merged(rows, columns):
    """Columns that say the same become one.

    :param rows: list of (label, one cell for each column)
    """
    same = {}
    for index, column in enumerate(columns):
        cells = tuple(row[1][index] for row in rows)
        same.setdefault(cells, []).append(column.title)
    header = ['Case'] + [', '.join(titles) for titles in same.values()]
    return list_table(header, [
        [label] + [cells[index] for cells in same]
        for index, (label, _cells) in enumerate(rows)])


class EnforcementPageTest(base.TestCase):

    def outcomes(self, column, differences, may_correct=True, **options):
        operation, = column.operations
        enforcement = guard.enforce(
            guard.Finding(operation, builders.current(), differences),
            self.options(**{'operation_modes': column.written,
                            'field_modes': {}, **options}),
            lambda found: may_correct)
        return [next((word for word, done in (
            ('corrected', enforcement.correct),
            ('refused', enforcement.refuse),
            ('allowed', enforcement.allow)) if found in done), 'none')
            for found in differences]

    def only(self, values):
        """All the cases of one cell have the same outcome."""
        values = set(values)
        self.assertEqual(1, len(values), values)
        return values.pop()

    def mode_that_holds(self):
        names = {'refused': 'enforce', 'allowed': 'warn', 'none': 'off'}
        column = Column({Operation.LIVE_MIGRATION})

        def cell(operation_mode, field_mode):
            found = {}
            for mode in ('enforce', 'warn'):
                (outcome,) = self.outcomes(
                    column, (difference(is_correctable=False),), mode=mode,
                    operation_modes={'live-migration': operation_mode}
                    if operation_mode else {},
                    field_modes={'project': field_mode} if field_mode else {})
                found[mode] = names[outcome]
            if found == {'enforce': 'enforce', 'warn': 'warn'}:
                return '``mode``'
            return self.only(found.values())

        self.assertEqual({'none'}, {
            outcome for column in COLUMNS
            for modes in itertools.product(MODES, repeat=2)
            for outcome in self.outcomes(
                column, (difference(),), mode='off',
                operation_modes={str(*column.operations): modes[0]},
                field_modes={'project': modes[1]})})
        chosen = (None,) + MODES
        return MODE + list_table(
            ['``operation_modes``'] + ['``field_modes``: %s' % (
                mode or 'not in it') for mode in chosen],
            [[operation_mode or 'not in it'] + [
                cell(operation_mode, field_mode) for field_mode in chosen]
             for operation_mode in chosen])

    def field_that_differs(self):
        every = list(itertools.product(BOOLEANS, repeat=3))
        can, cannot = every[:1], every[1:]

        def cell(column, mode, cases, refusable):
            written = dict.fromkeys(column.written, mode)
            return self.only(
                outcome
                for is_correctable, may_correct, correct in cases
                for is_refusable in refusable
                for outcome in self.outcomes(
                    column, (difference(is_correctable=is_correctable,
                                        is_refusable=is_refusable),),
                    may_correct, mode=mode, correct=correct,
                    operation_modes=written))

        rows = (
            ('enforce; can be corrected, ``correct = true``', 'enforce',
             can, BOOLEANS),
            ('enforce; cannot be corrected or ``correct = false``; can be '
             'refused', 'enforce', cannot, (True,)),
            ('enforce; cannot be corrected or ``correct = false``; cannot be '
             'refused', 'enforce', cannot, (False,)),
            ('warn', 'warn', every, BOOLEANS),
            ('off', 'off', every, BOOLEANS))
        return DRIFT + merged(
            [(label, [cell(column, *case) for column in COLUMNS])
             for label, *case in rows], COLUMNS)

    def linked_fields(self):
        shaping = difference('flavor', shapes_others=True)
        derived = difference('numa_topology', is_derived=True)
        fixed = difference('numa_topology', is_derived=True,
                           is_correctable=False)

        def cell(column, second, modes):
            return ', '.join(self.outcomes(
                column, (shaping, second), field_modes=dict(modes)))

        rows = [('both can be corrected', derived, {}),
                ('the derived one cannot be corrected', fixed, {})]
        rows += [('``%s:%s``' % pair, derived, (pair,))
                 for pair in itertools.product(
                     ('flavor', 'numa_topology'), ('warn', 'off'))]
        rows.append(('``flavor:warn,numa_topology:off``', derived,
                     {'flavor': 'warn', 'numa_topology': 'off'}))
        return LINKED + merged(
            [(label, [cell(column, *case) for column in COLUMNS])
             for label, *case in rows], COLUMNS)

    def server_not_verified(self):
        columns = COLUMNS + EITHER

        def cell(column, **options):
            return guard.enforce(
                guard.Finding(Operation.UNKNOWN, unverifiable='no answer',
                              candidates=column.operations),
                self.options(**{'operation_modes': column.written,
                                **options}),
                lambda found: True).unverifiable or 'none'

        def row(mode, on_unverifiable):
            return [cell(
                column, mode=mode, on_unverifiable=on_unverifiable,
                operation_modes=dict.fromkeys(column.written, mode))
                for column in columns]

        rows = [('enforce, ``on_unverifiable = refuse``',
                 row('enforce', 'refuse')),
                ('enforce, ``on_unverifiable = allow``',
                 row('enforce', 'allow'))]
        for mode in ('warn', 'off'):
            self.assertEqual(row(mode, 'refuse'), row(mode, 'allow'))
            rows.append((mode, row(mode, 'refuse')))
        return UNVERIFIABLE + merged(rows, columns)

    def test_page_says_what_the_code_does(self):
        page = HEAD + ''.join((
            self.mode_that_holds(), self.field_that_differs(),
            self.linked_fields(), self.server_not_verified()))
        if os.environ.get('SPECGUARD_WRITE_DOCS') == '1':
            with open(PAGE, 'w') as written:
                written.write(page)
        with open(PAGE) as written:
            self.assertEqual(page, written.read())
