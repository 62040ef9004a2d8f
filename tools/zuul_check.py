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

"""Check a Zuul configuration by Zuul's own schema and its playbooks.

Runs where the ``zuul`` package is installed, see tools/zuul.sh.
"""

import os
import sys

import voluptuous
import yaml
from zuul import configloader
from zuul.lib import re2util

# The schema of a job is one for all; that of a project needs no tenant.
SCHEMAS = {
    'job': configloader.JobParser.schema,
    'project': configloader.ProjectParser(None).schema,
}


def as_list(value):
    return value if isinstance(value, list) else [value]


def faults(path):
    """Say what is wrong.

    :param path: of the configuration, at the top of its repository
    :returns: iterator of lines
    """
    with open(path) as config_file:
        items = yaml.safe_load(config_file)
    jobs = {item['job']['name'] for item in items if 'job' in item}
    for item in items:
        (kind, body), = item.items()
        name = '%s %s' % (kind, body.get('name', ''))
        if kind not in SCHEMAS:
            yield '%s: no schema for it here' % name
            continue
        try:
            SCHEMAS[kind](body)
        except voluptuous.Invalid as error:
            yield '%s: %s' % (name, error)
        if kind == 'job':
            yield from ('%s: %s' % (name, fault)
                        for fault in job_faults(os.path.dirname(path), body))
        else:
            for pipeline in ('check', 'gate'):
                for job in set(body[pipeline]['jobs']) - jobs:
                    yield '%s: no job %s' % (name, job)


def job_faults(root, job):
    for phase in ('pre-run', 'run', 'post-run'):
        for playbook in as_list(job.get(phase, [])):
            if not os.path.exists(os.path.join(root, playbook)):
                yield 'no playbook %s' % playbook
    for pattern in job.get('irrelevant-files', []):
        # Also of what Python's re takes and re2 does not.
        if re2util.ZuulRegex(pattern).re2_failure:
            yield 'no pattern of re2: %s' % pattern


def main():
    found = list(faults(os.path.abspath(sys.argv[1])))
    print('\n'.join(found) or 'no faults')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
