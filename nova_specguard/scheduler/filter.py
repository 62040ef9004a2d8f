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

"""The scheduler filter."""

from nova import context as nova_context
from nova.scheduler import filters

from nova_specguard import scheduler
from nova_specguard.scheduler import check


class SpecGuardFilter(filters.BaseHostFilter):
    """Pass no host for a request whose server has drifted away from it.

    Acts where the request filter has not: on rebuilds, where it alerts, and
    on moves that a left-over ``_nova_check_type`` hint makes nova take for
    one.
    """

    RUN_ON_REBUILD = True
    run_filter_once_per_request = True

    def __init__(self):
        super().__init__()
        scheduler.install()

    def filter_all(self, filter_obj_list, spec_obj):
        """Decide once for all hosts.

        :param filter_obj_list: host states
        :param spec_obj: nova.objects.RequestSpec
        :returns: the same host states, or none
        """
        return [] if self._refuses(spec_obj) else filter_obj_list

    def host_passes(self, host_state, spec_obj):
        """Whether the request may have any host.

        :param host_state: not looked at
        :param spec_obj: nova.objects.RequestSpec
        """
        return not self._refuses(spec_obj)

    def _refuses(self, spec):
        if check.is_checked(spec):
            return False
        context = spec._context or nova_context.get_admin_context()
        return check.refuses(context, spec, before_host_manager=False)
