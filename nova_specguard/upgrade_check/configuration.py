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
"""Checks of the configuration files at hand.

Each service reads files of its own: a check is about the service whose files
these are, or about all, if they share them.
"""

import nova.conf
from oslo_messaging import opts as messaging_opts
from oslo_upgradecheck import upgradecheck

from nova_specguard import alerts
from nova_specguard import conf
from nova_specguard import plugin

CONF = nova.conf.CONF

CONDUCTOR, SCHEDULER = SERVICES = ('conductor', 'scheduler')
FILTER = 'SpecGuardFilter'
ALL_FILTERS = 'nova_specguard.scheduler.all_filters'
DRIVER = 'specguard'
NOTIFICATIONS = 'oslo_messaging_notifications'


def success(text):
    return upgradecheck.Result(upgradecheck.Code.SUCCESS, text)


def warning(text):
    return upgradecheck.Result(upgradecheck.Code.WARNING, text)


def failure(text):
    return upgradecheck.Result(upgradecheck.Code.FAILURE, text)


def _is_set(name, group):
    # None for an option without a value
    found = CONF.get_location(name, group)
    return found is not None and found.location.is_user_controlled


def check_filter(service):
    """Whether SpecGuardFilter is enabled and first.

    :param service: one of SERVICES, or None for all
    :returns: oslo_upgradecheck's Result
    """
    if service == CONDUCTOR:
        return success('nova-conductor needs none.')
    if not (service or _is_set('enabled_filters', 'filter_scheduler') or
            _is_set('available_filters', 'filter_scheduler')):
        return warning(
            'No filters are set in [filter_scheduler] here. Right for the '
            'files of a conductor (--service conductor); in those of '
            'nova-scheduler set available_filters = %s, and enabled_filters '
            'with %s first.' % (ALL_FILTERS, FILTER))
    enabled = CONF.filter_scheduler.enabled_filters
    if ALL_FILTERS not in CONF.filter_scheduler.available_filters:
        return failure(
            '[filter_scheduler] available_filters does not have %s. Set it in '
            'place of nova.scheduler.filters.all_filters and restart '
            'nova-scheduler.' % ALL_FILTERS)
    if FILTER not in enabled:
        return failure(
            '[filter_scheduler] enabled_filters does not have %s. Put it '
            'first, keep the others and restart nova-scheduler.' % FILTER)
    if enabled[0] != FILTER:
        return warning(
            '%s is not the first of [filter_scheduler] enabled_filters: where '
            '%s leaves no host, a rebuild is not alerted. Put it first and '
            'restart nova-scheduler.' % (FILTER, enabled[0]))
    return success('%s is enabled and first.' % FILTER)


def check_driver(service):
    """Whether the driver that loads the guard is named beside the others.

    :param service: one of SERVICES, or None for all
    :returns: oslo_upgradecheck's Result
    """
    options = dict(messaging_opts.list_opts())[NOTIFICATIONS]
    CONF.register_opts(options, group=NOTIFICATIONS)
    drivers = [name for name in CONF[NOTIFICATIONS].driver if name]
    others = [name for name in drivers if name != DRIVER]
    if DRIVER not in drivers:
        if service == SCHEDULER:
            return success('nova-scheduler needs none.')
        return failure(
            '[%s] has no driver = %s. Add the line beside those that are '
            'there (now: %s), one driver a line, and restart the '
            'conductors.' % (NOTIFICATIONS, DRIVER,
                             ' and '.join(drivers) or 'none'))
    if others:
        return success('%s beside %s.' % (DRIVER, ' and '.join(others)))
    # No file tells which drivers were there. But who wants notifications
    # says more than which driver: their format, topics, transport.
    traces = ['[%s] %s' % (group, option.dest)
              for group, group_options in (
                  (NOTIFICATIONS, options),
                  ('notifications', nova.conf.notifications.ALL_OPTS))
              for option in group_options
              if option.dest != 'driver' and _is_set(option.dest, group)]
    if traces:
        return failure(
            '%s is the only driver, but %s is set: the notifications of this '
            'service are lost. Put the driver back that was there, most often '
            'driver = messagingv2, or driver = noop if none are wanted.'
            % (DRIVER, ', '.join(traces)))
    return warning(
        '%s is the only driver. Right if this service sent no notifications '
        'before: driver = noop beside it says so. Else put the driver back '
        'that was there.' % DRIVER)


def check_hooks(service):
    """Whether every hook fits this nova.

    :returns: oslo_upgradecheck's Result
    """
    # That is known when it is in place. This process does not serve, so it
    # does no harm.
    CONF.set_override('require_all_hooks', False, conf.GROUP)
    try:
        plugin.install()
    finally:
        CONF.clear_override('require_all_hooks', conf.GROUP)
    problems = [problem for name in SERVICES for problem
                in alerts.reporter('nova-' + name).hook_problems]
    if problems:
        return failure(
            '%s. These moves are not guarded: install a release of '
            'nova-specguard for this nova.' % '; '.join(problems))
    return success('All fit this nova.')


def check_options(service):
    """Whether all values of [specguard] are valid.

    :returns: oslo_upgradecheck's Result
    """
    options = conf.options()
    if options.problems:
        return failure('%s. Correct it and send SIGHUP to the service.'
                       % '; '.join(options.problems))
    if options.mode == 'off':
        return warning('mode = off: nothing is guarded.')
    return success('All values are valid; mode = %s.' % options.mode)
