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

"""The scheduler side: request filter and host filter.

``[filter_scheduler] available_filters = nova_specguard.scheduler.all_filters``
"""

from nova.scheduler import filters
from stevedore import extension

from nova_specguard import hooks

SERVICE = 'nova-scheduler'
NAMESPACE = 'nova_specguard.scheduler.filters'


def install():
    """Put the request filter in place.

    :raises SystemExit: see nova_specguard.hooks.install
    """
    from nova_specguard.scheduler import request_filter
    hooks.install(SERVICE, [request_filter.put_in_place])


def all_filters():
    """Every filter of nova and every filter registered with stevedore.

    As a value of ``[filter_scheduler] available_filters``; the scheduler
    calls it in its constructor, before it serves requests.

    :returns: list of filter classes
    """
    install()
    registered = extension.ExtensionManager(NAMESPACE)
    return filters.all_filters() + [found.plugin for found in registered]
