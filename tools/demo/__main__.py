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

"""Run by tools/demo.sh, which says what it is."""

import logging
import platform
import sys

import nova.version
import testtools

from tools.demo import scenes
from tools.demo import story


def main():
    # nova's fixtures take over while a cloud is up; this is for the rest.
    logging.basicConfig(stream=sys.stderr, force=True)
    telling = story.Story(sys.stdout)
    telling.tell("""
        The operator of this cloud promises that servers of the a2 flavors run
        on AMD hosts only and servers of the e2 flavors on Intel hosts only,
        and has set up nova's scheduler to keep to that. The hosts are amd1,
        amd2, intel1 and intel2. API, conductor, scheduler, computes and
        placement are nova's own, in one process, on SQLite; the hypervisor
        is nova's fake one. Each scene has a new cloud.
        """)
    for scene in scenes.ALL:
        play(scene, telling)
    went_well = telling.end()
    telling.tell('Ran on nova %s, Python %s.' % (
        nova.version.version_string(), platform.python_version()))
    return 0 if went_well else 1


def play(scene, telling):
    """Have a scene played as nova's test runners would run a test."""
    telling.scene(scene.title)
    case = scene('play')
    case.story = telling
    result = testtools.TestResult()
    case.run(result)
    if not result.wasSuccessful():
        telling.step('scene', 'played to its end', 'stopped by an error')
    # The log of nova, and what went wrong.
    for name, content in case.getDetails().items():
        print('== %s: %s\n%s' % (scene.__name__, name, content.as_text()),
              file=sys.stderr)


if __name__ == '__main__':
    sys.exit(main())
