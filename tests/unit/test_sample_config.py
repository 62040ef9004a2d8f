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

import os
import tempfile

from oslo_config import generator
from oslotest import base

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
GENERATOR_CONFIG = os.path.join(
    ROOT, 'etc', 'oslo-config-generator', 'nova-specguard.conf')
SAMPLE = os.path.join(
    ROOT, 'etc', 'nova-specguard', 'nova-specguard.conf.sample')


class SampleConfigTestCase(base.BaseTestCase):

    def test_sample_is_current(self):
        """``tox -e genconfig`` makes it so."""
        with tempfile.TemporaryDirectory() as folder:
            generated = os.path.join(folder, 'sample')
            generator.main(['--config-file', GENERATOR_CONFIG,
                            '--output-file', generated])
            with open(generated) as expected, open(SAMPLE) as sample:
                self.assertEqual(expected.read(), sample.read())
