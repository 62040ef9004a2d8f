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

"""Putting functions of the guard into nova, where they fit.

What a hook needs of nova (a name, parameters, a list) is checked first. One
that does not fit is left out and reported (SPECGUARD-203), so that a nova
newer than the guard runs on with the parts that still fit.
"""

import importlib
import inspect

import nova.version
import wrapt

from nova_specguard import alerts
from nova_specguard import conf
from nova_specguard import exception


def install(service, functions):
    """Install hooks; those that are in place already stay as they are.

    :param service: name of the service's binary
    :param functions: callables without arguments that raise HookMismatch
    :raises SystemExit: if one does not fit and ``[specguard]
        require_all_hooks`` is set (stevedore, which loads the guard into
        nova-conductor, swallows every other exception)
    """
    options = conf.options()
    problems = alerts.reporter(service).hook_problems
    for function in functions:
        try:
            function()
        except exception.HookMismatch as exc:
            reason = exc.format_message()
        except Exception as exc:
            reason = 'a hook could not be installed: %r' % exc
        else:
            continue
        if reason not in problems:
            problems.append(reason)
    if problems and options.require_all_hooks:
        raise SystemExit(alerts.line(alerts.MISCONFIGURED, {
            'service': service, 'reason': '; '.join(problems)}))


def mismatch(hook, reason):
    """The exception for a hook that does not fit.

    :param hook: dotted name of what was looked for
    :param reason: what is different
    :returns: HookMismatch
    """
    return exception.HookMismatch(
        hook=hook, version=nova.version.version_string(), reason=reason)


def wrap(module_name, class_name, function_name, parameters, wrapper):
    """Wrap a method of nova, unless it is wrapped already.

    :param module_name: name of the module
    :param class_name: name of the class in it
    :param function_name: name of the method
    :param parameters: names of the parameters that the wrapper uses
    :param wrapper: function as wrapt wants it
    :raises HookMismatch: if the method or a parameter does not exist
    """
    name = '.'.join((module_name, class_name, function_name))
    try:
        owner = getattr(importlib.import_module(module_name), class_name)
        method = inspect.getattr_static(owner, function_name)
    except (ImportError, AttributeError) as exc:
        raise mismatch(name, 'it does not exist') from exc
    if _is_wrapped(method, wrapper):
        return
    try:
        known = inspect.signature(method).parameters
    except (TypeError, ValueError) as exc:
        raise mismatch(name, 'it is not a function') from exc
    missing = [parameter for parameter in parameters
               if parameter not in known]
    if missing:
        raise mismatch(name, 'it has no parameter %s' % ', '.join(missing))
    wrapt.wrap_function_wrapper(
        module_name, '%s.%s' % (class_name, function_name), wrapper)


def _is_wrapped(method, wrapper):
    # Other tools wrap too, some around ours.
    while method is not None:
        if getattr(method, '_self_wrapper', None) is wrapper:
            return True
        method = getattr(method, '__wrapped__', None)
    return False


def arguments(wrapped, args, kwargs):
    """The arguments of a call by name, however they were passed.

    :param wrapped: the bound method
    :returns: dict
    """
    return inspect.signature(wrapped).bind(*args, **kwargs).arguments
