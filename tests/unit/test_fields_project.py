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

from nova_specguard.fields import project
from nova_specguard.operation import Operation
from tests.unit import base
from tests.unit import builders


class ProjectTest(base.FieldTestCase):

    def assert_project(self, drift_class, spec, current=None, **kwargs):
        return self.assert_drift(
            'project', drift_class, spec, current or builders.current(),
            **kwargs)

    def test_equal_owner(self):
        self.assert_consistent(builders.spec(), builders.current())

    def test_another_project(self):
        found = self.assert_project(
            'project', builders.spec(project_id='admin'))
        self.assertEqual('project_id=admin', found.spec_value)
        self.assertEqual('project_id=' + builders.PROJECT,
                         found.current_value)

    def test_another_user(self):
        found = self.assert_project('user', builders.spec(user_id='admin'))
        self.assertEqual('user_id=admin', found.spec_value)
        self.assertEqual('user_id=' + builders.USER, found.current_value)

    def test_both(self):
        found = self.assert_project(
            'project', builders.spec(project_id='admin', user_id='root'))
        self.assertEqual('project_id=admin user_id=root', found.spec_value)

    def test_every_operation(self):
        for operation in Operation:
            self.assert_project(
                'project', builders.spec(project_id='admin'),
                operation=operation)

    def test_what_the_spec_never_stored(self):
        # nova fills it before it schedules.
        spec = builders.stored(builders.spec())
        for name in ('project_id', 'user_id'):
            self.assert_consistent(
                builders.spec(**{name: None}), builders.current())
            del spec['nova_object.data'][name]
            self.assert_consistent(spec, builders.current())

    def test_server_that_has_no_user(self):
        self.assert_consistent(
            builders.spec(), builders.current(user_id=None))

    def test_row_with_something_else(self):
        spec = builders.stored(builders.spec())
        for value in (5, '', False, [], {'id': builders.PROJECT}):
            spec['nova_object.data']['project_id'] = value
            self.assert_project('project', spec)

    def test_what_may_be_done_about_it(self):
        found = self.assert_project(
            'project', builders.spec(project_id='admin'))
        self.assertTrue(found.is_correctable)
        self.assertTrue(found.is_refusable)
        self.assertFalse(found.shapes_others)
        self.assertFalse(found.is_derived)
        self.assertFalse(found.is_unseen)

    def test_nothing_more_is_read(self):
        self.assertEqual(frozenset(), project.needs(
            builders.spec(project_id='admin'), builders.current()))

    def test_correct_both(self):
        self.assert_corrected(
            'project', builders.spec(project_id='admin', user_id='root'),
            builders.current(), 'project_id', 'user_id')

    def test_correct_what_differs_only(self):
        for name in ('project_id', 'user_id'):
            self.assert_corrected('project', builders.spec(**{name: 'x'}),
                                  builders.current(), name)
        spec = builders.spec(project_id='admin', user_id=None)
        self.assert_corrected(
            'project', spec, builders.current(), 'project_id')
        self.assertIsNone(spec.user_id)
