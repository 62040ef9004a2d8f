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

import copy
import json
import random

from nova_specguard.audit import findings
from nova_specguard.audit import repair
from nova_specguard.audit import stored
from nova_specguard import exception
from nova_specguard import fields
from nova_specguard import instances
from tests.endurance import base
from tests.unit import base as unit_base
from tests.unit import builders
from tests.unit import cloud

DATA = 'nova_object.data'


class FuzzTest(unit_base.TestCase):
    """Texts that were damaged are reported, or repaired as they should be."""

    TEXTS = base.length(100000)

    def setUp(self):
        super().setUp()
        self.random = random.Random(base.SEED)
        self.addDetail('seed', base.counted(str(base.SEED)))
        drifted = cloud.reported_case()
        self.current = instances.CurrentInstance(
            **{**vars(builders.current()),
               'image_ref': drifted['instance']['image_ref'],
               'project_id': drifted['instance']['project_id'],
               'user_id': drifted['instance']['user_id'],
               'is_volume_backed': False, 'is_rebuilt': True,
               'surroundings': builders.surroundings()})
        self.texts = [json.dumps(drifted['request_spec']),
                      json.dumps(cloud.healthy()['request_spec'])]
        self.healed = 0

    def test_any_text(self):
        for _number in range(self.TEXTS):
            text = self.damaged(self.random.choice(self.texts))
            try:
                self.heal(text)
            except exception.NotRepairable:
                pass
            except Exception:
                self.addDetail('text', base.counted(repr(text)))
                raise
        self.addDetail('counts', base.counted('%d healed' % self.healed))
        self.assertGreater(self.healed, self.TEXTS // 100)

    def heal(self, text):
        spec, faults = stored.parse_spec(text)
        if spec is None:
            self.assertTrue(faults)
            return
        options = self.options()
        differences = fields.differences(
            spec, self.current, findings.OPERATION, options)
        names = [difference.field for difference in fields.unmixed(
            [difference for difference in differences
             if difference.is_correctable], differences)]
        if faults or not names:
            return
        result = repair.repaired(text, self.current, names, options)
        self.healed += 1
        # All but what was named is as it was, to the byte.
        old, new = json.loads(text), json.loads(result)
        for name in self.touched(names):
            new[DATA].pop(name, None)
            if name in old[DATA]:
                new[DATA][name] = old[DATA][name]
        new[DATA] = {name: new[DATA][name] for name in old[DATA]}
        self.assertEqual(text, json.dumps(new))

    @staticmethod
    def touched(names):
        more = {'flavor_extra_specs': ['flavor'],
                'project': ['project_id', 'user_id'],
                'scheduler_hints': ['scheduler_hints', 'force_hosts',
                                    'force_nodes'],
                'instance_group': ['instance_group', 'scheduler_hints']}
        return {each for name in names for each in more.get(name, [name])}

    def damaged(self, text):
        kind = self.random.randrange(10)
        if kind == 0:
            return text[:self.random.randrange(len(text))]
        if kind == 1:
            return '[' * self.random.randrange(1, 5000) + text
        if kind == 2:
            at = self.random.randrange(len(text))
            return text[:at] + self.random.choice(
                ['\ud800', '\0', '"', '{', '\xff', 'x' * 100000, ' ']
            ) + text[at:]
        if kind == 3:
            # a key twice
            at = text.index('"', self.random.randrange(len(text) // 2))
            return text[:at] + '"nova_object.data": 1, ' + text[at:]
        value = json.loads(text)
        for _time in range(self.random.randint(1, 3)):
            self.replace(value)
        return json.dumps(value)

    def replace(self, value):
        """Replace or remove something in it."""
        places = []
        found = [value]
        for each in found:
            items = (each.items() if isinstance(each, dict)
                     else enumerate(each))
            for key, inner in items:
                places.append((each, key))
                if isinstance(inner, (dict, list)):
                    found.append(inner)
        owner, key = self.random.choice(places)
        if self.random.random() < 0.3:
            del owner[key]
            return
        owner[key] = copy.deepcopy(self.random.choice([
            None, True, 0, -1, 2 ** 70, 1.5, float('nan'), '', 'x', '9.9',
            [], ['x'], {}, {'x': 1}, 'x' * 70000, value,
            self.random.choice(places)[1]]))
