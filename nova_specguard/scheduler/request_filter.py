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

"""The request filter: runs before nova asks placement.

It sees what a host filter never sees, a stale flavor that is too big for
every host, and it may still correct the request. nova does not run request
filters for a rebuild.
"""

from nova import exception as nova_exception
from nova.scheduler import request_filter as nova_request_filter

from nova_specguard import hooks
from nova_specguard.scheduler import check


def verify_request_spec(ctxt, request_spec):
    """Stand first in ``nova.scheduler.request_filter.ALL_REQUEST_FILTERS``.

    :param ctxt: RequestContext
    :param request_spec: nova.objects.RequestSpec; may be corrected
    :returns: True, for nova's debug log
    :raises nova.exception.RequestFilterFailed: if the request is refused;
        the scheduler makes NoValidHost of it
    """
    if check.refuses(ctxt, request_spec, before_host_manager=True):
        raise nova_exception.RequestFilterFailed(
            reason='SpecGuardFilter refused the request of server %s'
                   % request_spec.instance_uuid)
    return True


def put_in_place():
    """Put the request filter first, unless it is there.

    :raises HookMismatch: if nova keeps its request filters otherwise
    """
    filters = getattr(nova_request_filter, 'ALL_REQUEST_FILTERS', None)
    if not isinstance(filters, list) or not filters:
        raise hooks.mismatch(
            'nova.scheduler.request_filter.ALL_REQUEST_FILTERS',
            'it is not a list of request filters')
    if verify_request_spec not in filters:
        filters.insert(0, verify_request_spec)
