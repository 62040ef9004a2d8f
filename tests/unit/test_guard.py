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

import itertools
from unittest import mock

from nova_specguard import exception
from nova_specguard.fields import base as fields_base
from nova_specguard import guard
from nova_specguard import instances
from nova_specguard.operation import Operation
from tests.unit import base
from tests.unit import builders

MODES = ('enforce', 'warn', 'off')
UNSET = None
BOOLEANS = (True, False)
MOVES = [found for found in Operation if found != Operation.UNKNOWN]


def difference(field='flavor', correctable=True, **kwargs):
    return fields_base.Difference(
        field, fields_base.DriftClass(field + '-class', 'warning', ''),
        'spec', 'current', correctable, **kwargs)


def always(found):
    return True


def never(found):
    return False


def modes(name, mode):
    return {} if mode is UNSET else {name: mode}


# The contract once more, in words of its own.

def effective_mode(mode, *overrides):
    """``off`` wins over everything; of two overrides the more lenient."""
    if mode == 'off':
        return 'off'
    chosen = set(overrides) - {UNSET}
    for lenient in ('off', 'warn', 'enforce'):
        if lenient in chosen:
            return lenient
    return mode


def may_be_refused(operation, operation_mode):
    if operation in ('live-migration', 'migrate', 'resize', 'unshelve'):
        return True
    # Refusing an evacuation leaves ERROR: only if the operator wrote it.
    return operation == 'evacuate' and operation_mode == 'enforce'


def expected_outcome(operation, mode, operation_mode, field_mode, correct,
                     correctable, may_correct, refusable):
    effective = effective_mode(mode, operation_mode, field_mode)
    if effective == 'off':
        return None
    if effective == 'warn':
        return 'allowed'
    if operation != 'unknown' and correct and correctable and may_correct:
        return 'corrected'
    # What nova alone may do right is never stopped.
    if refusable and may_be_refused(operation, operation_mode):
        return 'refused'
    return 'allowed'


def expected_unverifiable(operations, mode, operation_modes,
                          on_unverifiable):
    each = set()
    for operation in operations:
        operation_mode = operation_modes.get(str(operation))
        effective = effective_mode(mode, operation_mode)
        if effective == 'off':
            each.add(None)
        elif (effective == 'enforce' and on_unverifiable == 'refuse' and
                may_be_refused(operation, operation_mode)):
            each.add('refused')
        else:
            each.add('allowed')
    # Several: a request that can be any of them. It is let through unless
    # each would be refused, and alerted unless none is guarded.
    return each.pop() if len(each) == 1 else 'allowed'


class EnforceTest(base.TestCase):

    def outcome(self, enforcement, found):
        """What is done about one difference; each at most once."""
        outcomes = [
            outcome for outcome, differences in (
                ('corrected', enforcement.correct),
                ('refused', enforcement.refuse),
                ('allowed', enforcement.allow))
            for difference in differences if difference == found]
        self.assertLessEqual(len(outcomes), 1)
        return outcomes[0] if outcomes else None

    def assert_as_in_the_contract(self, operation,
                                  global_modes=('enforce', 'warn')):
        operation_modes = (UNSET,) + MODES
        if operation == Operation.UNKNOWN:
            # It cannot be written in operation_modes.
            operation_modes = (UNSET,)
        wrong = []
        for case in itertools.product(
                global_modes, operation_modes, (UNSET,) + MODES, BOOLEANS,
                BOOLEANS, BOOLEANS, BOOLEANS):
            (mode, operation_mode, field_mode, correct, correctable,
             may_correct, refusable) = case
            found = difference(correctable=correctable,
                               is_refusable=refusable)
            enforcement = guard.enforce(
                guard.Finding(operation, builders.current(), (found,)),
                self.options(
                    mode=mode, correct=correct,
                    operation_modes=modes(operation.value, operation_mode),
                    field_modes=modes('flavor', field_mode)),
                always if may_correct else never)
            expected = expected_outcome(operation.value, *case)
            actual = self.outcome(enforcement, found)
            if expected != actual:
                wrong.append((case, expected, actual))
        self.assertEqual([], wrong)

    def test_live_migration(self):
        self.assert_as_in_the_contract(Operation.LIVE_MIGRATION)

    def test_migrate(self):
        self.assert_as_in_the_contract(Operation.MIGRATE)

    def test_resize(self):
        self.assert_as_in_the_contract(Operation.RESIZE)

    def test_evacuate(self):
        self.assert_as_in_the_contract(Operation.EVACUATE)

    def test_unshelve(self):
        self.assert_as_in_the_contract(Operation.UNSHELVE)

    def test_rebuild(self):
        self.assert_as_in_the_contract(Operation.REBUILD)

    def test_unknown(self):
        self.assert_as_in_the_contract(Operation.UNKNOWN)

    def test_mode_off_wins_over_everything(self):
        for operation in Operation:
            self.assert_as_in_the_contract(operation, ('off',))

    def test_table_has_every_operation(self):
        tested = {name for name in dir(self) if name.startswith('test_')}
        self.assertLessEqual(
            {'test_' + found.name.lower() for found in Operation}, tested)


class DefaultsTest(base.TestCase):
    """What an operator gets who configures nothing."""

    def enforce(self, operation, *differences, **options):
        return guard.enforce(
            guard.Finding(operation, builders.current(), differences),
            self.options(**options), may_correct=always)

    def test_drift_is_corrected(self):
        for operation in MOVES:
            enforcement = self.enforce(operation, difference())
            self.assertEqual(((difference(),), (), ()), (
                enforcement.correct, enforcement.refuse, enforcement.allow))

    def test_edited_extra_specs_are_allowed(self):
        for name in ('flavor_extra_specs', 'availability_zone'):
            for operation in MOVES:
                enforcement = self.enforce(operation, difference(name))
                self.assertEqual((), enforcement.correct)
                self.assertEqual((), enforcement.refuse)
                self.assertEqual((difference(name),), enforcement.allow)

    def test_what_cannot_be_corrected_is_refused_where_nova_can_bear_it(self):
        found = difference('pci_requests', correctable=False)
        self.assertEqual(
            {Operation.LIVE_MIGRATION, Operation.MIGRATE, Operation.RESIZE,
             Operation.UNSHELVE},
            {operation for operation in Operation
             if self.enforce(operation, found).refuse})


class SeveralDifferencesTest(base.TestCase):

    correctable = difference('flavor')
    not_correctable = difference('pci_requests', correctable=False)
    warned = difference('availability_zone')
    off = difference('scheduler_hints')

    def enforce(self, operation, **options):
        return guard.enforce(
            guard.Finding(operation, builders.current(), (
                self.correctable, self.not_correctable, self.warned,
                self.off)),
            self.options(**{'field_modes': {
                'availability_zone': 'warn', 'scheduler_hints': 'off'},
                **options}), may_correct=always)

    def test_one_that_cannot_be_corrected_refuses_the_move(self):
        enforcement = self.enforce(Operation.LIVE_MIGRATION)
        self.assertIn(self.not_correctable, enforcement.refuse)
        self.assertEqual((self.warned,), enforcement.allow)

    def test_where_nothing_is_refused_the_rest_is_corrected(self):
        for operation in (Operation.EVACUATE, Operation.REBUILD):
            enforcement = self.enforce(operation)
            self.assertEqual((self.correctable,), enforcement.correct)
            self.assertEqual((), enforcement.refuse)
            self.assertEqual({self.not_correctable, self.warned},
                             set(enforcement.allow))

    def test_evacuation_is_refused_if_the_operator_wrote_it(self):
        enforcement = self.enforce(
            Operation.EVACUATE, operation_modes={'evacuate': 'enforce'})
        self.assertIn(self.not_correctable, enforcement.refuse)

    def test_no_difference_is_lost_or_doubled(self):
        for operation in Operation:
            for correct in BOOLEANS:
                enforcement = self.enforce(operation, correct=correct)
                done = (enforcement.correct + enforcement.refuse +
                        enforcement.allow)
                self.assertEqual(
                    {self.correctable, self.not_correctable, self.warned},
                    set(done))
                self.assertEqual(3, len(done))

    def test_mode_of_one_field_does_not_touch_another(self):
        enforcement = self.enforce(
            Operation.LIVE_MIGRATION,
            field_modes={'pci_requests': 'warn', 'availability_zone': 'off',
                         'scheduler_hints': 'off'})
        self.assertEqual((self.correctable,), enforcement.correct)
        self.assertEqual((), enforcement.refuse)
        self.assertEqual((self.not_correctable,), enforcement.allow)

    def test_derived_fields_are_not_enforced_beside_another_flavor(self):
        # Its flavor stays: NUMA topology and devices of the server's beside
        # it would be a mixture that nobody asked for.
        derived = (difference('numa_topology', is_derived=True),
                   difference('pci_requests', is_derived=True))
        other = difference('flavor', shapes_others=True)
        for mode in ('warn', 'off'):
            enforcement = guard.enforce(
                guard.Finding(Operation.LIVE_MIGRATION, builders.current(),
                              (other, *derived)),
                self.options(field_modes={'flavor': mode}),
                may_correct=always)
            self.assertEqual((), enforcement.correct)
            self.assertEqual((), enforcement.refuse)
            self.assertLessEqual(set(derived), set(enforcement.allow))

    def test_derived_fields_are_enforced_beside_what_shapes_nothing(self):
        derived = difference('numa_topology', is_derived=True)
        quota = difference('flavor_extra_specs')
        enforcement = guard.enforce(
            guard.Finding(Operation.LIVE_MIGRATION, builders.current(),
                          (quota, derived)),
            self.options(field_modes={'flavor_extra_specs': 'warn'}),
            may_correct=always)
        self.assertEqual((derived,), enforcement.correct)
        self.assertEqual((quota,), enforcement.allow)

    def test_linked_differences_are_corrected_together_or_not_at_all(self):
        flavor = difference('flavor', shapes_others=True)
        numa = difference('numa_topology', is_derived=True)
        fixed = difference('pci_requests', correctable=False, is_derived=True)
        other = difference('image')
        for linked, field_modes, is_corrected in (
                ((flavor, numa), {}, True),
                ((flavor, fixed), {}, False),
                ((flavor, numa), {'numa_topology': 'warn'}, False),
                ((flavor, numa), {'numa_topology': 'off'}, False)):
            enforcement = guard.enforce(
                guard.Finding(Operation.LIVE_MIGRATION, builders.current(),
                              (*linked, other)),
                self.options(field_modes=field_modes), may_correct=always)
            self.assertEqual((*linked, other) if is_corrected else (other,),
                             enforcement.correct)
            self.assertEqual(is_corrected, flavor not in enforcement.refuse)

    def test_what_nova_alone_may_do_right_is_never_refused(self):
        for is_correctable in BOOLEANS:
            found = difference('is_bfv', correctable=is_correctable,
                               is_refusable=False)
            finding = guard.Finding(
                Operation.LIVE_MIGRATION, builders.current(), (found,))
            self.assertEqual(
                guard.Enforcement(allow=(found,)),
                guard.enforce(finding, self.options(), never))
            self.assertEqual(
                guard.Enforcement(correct=(found,)) if is_correctable
                else guard.Enforcement(allow=(found,)),
                guard.enforce(finding, self.options(), always))

    def test_nothing_to_do_without_differences(self):
        enforcement = guard.enforce(
            guard.Finding(Operation.RESIZE, builders.current()),
            self.options(), may_correct=always)
        self.assertEqual(guard.Enforcement(), enforcement)


class UnverifiableTest(base.TestCase):

    @staticmethod
    def outcome(operations, options):
        return guard.enforce(
            guard.Finding(Operation.UNKNOWN, unverifiable='no answer',
                          candidates=frozenset(operations)),
            options, always).unverifiable

    def cases(self):
        """Every set of operations, with all modes of two of them."""
        for size in (1, 2):
            for operations in itertools.combinations(Operation, size):
                names = [found.value for found in operations
                         if found != Operation.UNKNOWN]
                for chosen in itertools.product(
                        (UNSET,) + MODES, repeat=len(names)):
                    yield operations, {
                        name: mode for name, mode in zip(names, chosen)
                        if mode is not UNSET}
        for size in range(3, len(Operation) + 1):
            for operations in itertools.combinations(Operation, size):
                yield operations, {}

    def assert_as_in_the_contract(self, *global_modes):
        wrong = []
        for (operations, operation_modes), mode, on_unverifiable in (
                itertools.product(
                    self.cases(), global_modes, ('refuse', 'allow'))):
            expected = expected_unverifiable(
                operations, mode, operation_modes, on_unverifiable)
            actual = self.outcome(
                set(operations), self.options(
                    mode=mode, operation_modes=operation_modes,
                    on_unverifiable=on_unverifiable))
            if expected != actual:
                wrong.append((operations, mode, operation_modes,
                              on_unverifiable, expected, actual))
        self.assertEqual([], wrong[:10])

    def test_every_set_of_operations(self):
        self.assert_as_in_the_contract('enforce', 'warn')

    def test_mode_off_wins_over_everything(self):
        self.assert_as_in_the_contract('off')

    def test_default_refuses_what_nova_can_bear(self):
        self.assertEqual(
            {Operation.LIVE_MIGRATION, Operation.MIGRATE, Operation.RESIZE,
             Operation.UNSHELVE},
            {found for found in Operation if self.outcome(
                {found}, self.options()) == 'refused'})

    def test_request_that_may_be_an_evacuation_is_let_through(self):
        self.assertEqual('allowed', self.outcome(
            {Operation.LIVE_MIGRATION, Operation.EVACUATE}, self.options()))


class ExamineTest(base.TestCase):

    def examine(self, read, spec=None, operation=Operation.LIVE_MIGRATION):
        with mock.patch.object(instances, 'read', **read):
            return guard.examine(
                self.context, spec or builders.spec(),
                lambda current: {operation}, self.options())

    def test_equal_is_consistent(self):
        finding = self.examine({'return_value': builders.current()})
        self.assertIsNone(finding.unverifiable)
        self.assertEqual(Operation.LIVE_MIGRATION, finding.operation)
        self.assertEqual((), finding.differences)

    def test_difference_is_drift(self):
        finding = self.examine(
            {'return_value': builders.current()},
            builders.spec(flavor=builders.e2_medium()))
        self.assertIsNone(finding.unverifiable)
        self.assertEqual(['flavor-other'],
                         [d.drift_class.name for d in finding.differences])

    def test_server_that_is_gone_is_left_to_nova(self):
        self.assertIsNone(self.examine({
            'side_effect': exception.InstanceGone(instance=builders.UUID)}))

    def test_what_could_not_be_read_is_unverifiable(self):
        for error in (exception.LookupTimedOut(timeout=10),
                      exception.LookupFailed(cause='DBConnectionError'),
                      exception.FlavorMissing()):
            finding = self.examine({'side_effect': error})
            self.assertIsNotNone(finding.unverifiable)
            self.assertEqual(error.format_message(), finding.unverifiable)
            self.assertIsNone(finding.current)

    def test_server_with_an_unreadable_flavor_is_unverifiable(self):
        finding = self.examine(
            {'return_value': builders.current(flavor=None)})
        self.assertIsNotNone(finding.unverifiable)
        self.assertEqual(Operation.LIVE_MIGRATION, finding.operation)

    def test_operation_is_told_from_the_server_as_it_is_now(self):
        current = builders.current(task_state='migrating')
        operation_of = mock.Mock(return_value={Operation.LIVE_MIGRATION})
        with mock.patch.object(instances, 'read', return_value=current):
            guard.examine(self.context, builders.spec(), operation_of,
                          self.options())
        operation_of.assert_called_once_with(current)

    def test_fault_of_the_guard_is_not_taken_for_a_verdict(self):
        self.assertRaises(ZeroDivisionError, self.examine,
                          {'side_effect': ZeroDivisionError})
