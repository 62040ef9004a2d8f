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
"""Running the guard's part of a request, so that a fault of it stops nobody.
"""

import dataclasses
import time
import typing

from oslo_log import log as logging

from nova_specguard import alerts
from nova_specguard import conf
from nova_specguard.operation import Operation

LOG = logging.getLogger(alerts.LOGGER)


@dataclasses.dataclass
class Request:
    """What is known about a request so far, for the alert of a fault.

    :ivar context: RequestContext
    :ivar spec: nova.objects.RequestSpec
    """

    context: typing.Any = None
    spec: typing.Any = None
    operation: Operation = Operation.UNKNOWN


def run(service, request, function, *args):
    """Call a function of the guard; whatever it raises becomes 202.

    :param service: name of the service's binary
    :param request: Request; the function may add to it
    :param function: called with request, Options, Reporter and args, unless
        ``mode`` is ``off``
    :returns: what the function returns; None if it was not called or failed
    """
    try:
        return _run(service, request, function, args)
    except Exception as exc:
        # Options, counters or the alert itself: nothing is left to say it by,
        # nor to mask what a message or a traceback may hold.
        LOG.error('%s operation=%s outcome=allowed error=%s service=%s',
                  alerts.FAULT, request.operation, type(exc).__name__,
                  service)
        return None


def _run(service, request, function, args):
    started = time.perf_counter()
    options = conf.options()
    reporter = alerts.reporter(service)
    reporter.begin(options)
    try:
        if options.mode == 'off':
            return None
        return function(request, options, reporter, *args)
    except Exception as exc:
        reporter.fault(request.context, request.spec, request.operation, exc)
        return None
    finally:
        reporter.end(options, time.perf_counter() - started)
