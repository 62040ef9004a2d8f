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

"""The conductor side: wrappers around ComputeTaskManager."""

import functools

from nova_specguard.conductor import wrappers
from nova_specguard import hooks


def install():
    """Put the wrappers in place.

    :raises SystemExit: see nova_specguard.hooks.install
    """
    hooks.install(wrappers.SERVICE, [
        functools.partial(hooks.wrap, *hook) for hook in wrappers.HOOKS])
