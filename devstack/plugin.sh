#!/usr/bin/env bash
#
# DevStack plugin: installs the guard and configures it for nova-conductor and
# nova-scheduler. See devstack/README.rst.
#
# DevStack sources this file with the phase as its arguments, under errexit.

SPECGUARD_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SPECGUARD_DRIVER=specguard
SPECGUARD_FILTER=SpecGuardFilter
SPECGUARD_ALL_FILTERS=nova_specguard.scheduler.all_filters

# Prints the files of the conductors that run on this node, one a line. Each
# conductor of a cell reads its own file and no other.
function specguard_conductor_confs {
    local cell
    if is_service_enabled n-cond n-super-cond; then
        echo "$NOVA_COND_CONF"
    fi
    if [[ $CELLSV2_SETUP != singleconductor ]]; then
        for cell in $(seq 1 "$NOVA_NUM_CELLS"); do
            if is_service_enabled n-cond "n-cond-cell$cell"; then
                conductor_conf "$cell"
            fi
        done
    fi
}

# Prints the files of all guarded services on this node, one a line. On a
# compute-only node there are none.
function specguard_confs {
    {
        specguard_conductor_confs
        if is_service_enabled n-sch; then
            echo "$NOVA_CONF"
        fi
    } | sort -u
}

# specguard_has_value FILE SECTION OPTION VALUE: is it one of the values?
function specguard_has_value {
    [[ " $(iniget_multiline "$1" "$2" "$3") " == *" $4 "* ]]
}

# specguard_add FILE SECTION OPTION VALUE: adds a value to a multi-valued
# option unless it is there; iniadd alone would add it again.
function specguard_add {
    if ! specguard_has_value "$@"; then
        iniadd "$@"
    fi
}

# specguard_remove FILE SECTION OPTION VALUE: removes a value from a
# multi-valued option and keeps the others.
function specguard_remove {
    local value
    local -a others=()
    if ! specguard_has_value "$@"; then
        return 0
    fi
    for value in $(iniget_multiline "$1" "$2" "$3"); do
        if [[ $value != "$4" ]]; then
            others+=("$value")
        fi
    done
    iniset_multiline "$1" "$2" "$3" "${others[@]}"
}

# Prints enabled_filters of a file without blanks.
function specguard_enabled_filters {
    iniget "$1" filter_scheduler enabled_filters | tr -d ' '
}

# Prints enabled_filters of a file without ours.
function specguard_other_filters {
    local filters
    filters=,$(specguard_enabled_filters "$1"),
    filters=${filters//,$SPECGUARD_FILTER,/,}
    filters=${filters#,}
    echo "${filters%,}"
}

function specguard_check_settings {
    case $SPECGUARD_MODE in
        enforce | warn | off) ;;
        *)
            die $LINENO "SPECGUARD_MODE=$SPECGUARD_MODE is wrong;" \
                "write enforce, warn or off in the localrc of local.conf"
            ;;
    esac
}

function specguard_install {
    if [[ -n $(specguard_confs) ]]; then
        setup_develop "$SPECGUARD_DIR"
    fi
}

function specguard_configure {
    local conf
    # DevStack rewrites the same files in the background meanwhile, and either
    # side could lose what the other has written.
    async_wait configure_neutron_nova

    for conf in $(specguard_confs); do
        iniset "$conf" specguard mode "$SPECGUARD_MODE"
        iniset "$conf" specguard require_all_hooks \
            "$SPECGUARD_REQUIRE_ALL_HOOKS"
    done
    for conf in $(specguard_conductor_confs); do
        specguard_add "$conf" oslo_messaging_notifications driver \
            "$SPECGUARD_DRIVER"
    done
    if is_service_enabled n-sch; then
        specguard_add "$NOVA_CONF" filter_scheduler available_filters \
            "$SPECGUARD_ALL_FILTERS"
    fi
}

# specguard_overridden FILE SECTION OPTION LINE...: stops DevStack and says
# what to write.
function specguard_overridden {
    local conf=$1 section=$2 option=$3
    shift 3
    die $LINENO "[$section] $option in $conf has lost the value of" \
        "nova-specguard: a post-config section of local.conf, or another" \
        "plugin, has replaced it, and the guard is not in place." \
        "Write in local.conf, then stack again:" \
        "$(printf '\n%s' "[[post-config|$conf]]" "[$section]" "$@")"
}

# local.conf is merged after the plugin has run, and replaces all values of an
# option that it names.
function specguard_verify {
    local conf value filters
    local -a lines
    for conf in $(specguard_conductor_confs); do
        if ! specguard_has_value "$conf" oslo_messaging_notifications driver \
            "$SPECGUARD_DRIVER"; then
            lines=()
            for value in $(iniget_multiline \
                "$conf" oslo_messaging_notifications driver); do
                lines+=("driver = $value")
            done
            specguard_overridden "$conf" oslo_messaging_notifications driver \
                "${lines[@]}" "driver = $SPECGUARD_DRIVER"
        fi
    done
    if ! is_service_enabled n-sch; then
        return 0
    fi
    if ! specguard_has_value "$NOVA_CONF" filter_scheduler available_filters \
        "$SPECGUARD_ALL_FILTERS"; then
        lines=()
        for value in $(iniget_multiline \
            "$NOVA_CONF" filter_scheduler available_filters); do
            lines+=("available_filters = $value")
        done
        specguard_overridden "$NOVA_CONF" filter_scheduler available_filters \
            "${lines[@]}" "available_filters = $SPECGUARD_ALL_FILTERS"
    fi
    filters=$(specguard_enabled_filters "$NOVA_CONF")
    if [[ ,$filters, != *,$SPECGUARD_FILTER,* ]]; then
        specguard_overridden "$NOVA_CONF" filter_scheduler enabled_filters \
            "enabled_filters = $SPECGUARD_FILTER,$filters"
    fi
}

# DevStack tells Tempest NOVA_FILTERS. Where local.conf has set the filters,
# the scheduler has others.
function specguard_configure_tempest {
    if is_service_enabled tempest && is_service_enabled n-sch; then
        iniset "$TEMPEST_CONFIG" compute-feature-enabled \
            scheduler_enabled_filters \
            "$(specguard_enabled_filters "$NOVA_CONF")"
    fi
}

# Also of a former stack with more cells, and nova-cpu.conf, which DevStack
# copies from nova.conf.
function specguard_clean {
    local conf
    for conf in "$NOVA_CONF_DIR"/*.conf; do
        if [[ ! -f $conf ]]; then
            continue
        fi
        specguard_remove "$conf" oslo_messaging_notifications driver \
            "$SPECGUARD_DRIVER"
        specguard_remove "$conf" filter_scheduler available_filters \
            "$SPECGUARD_ALL_FILTERS"
        if ini_has_option "$conf" filter_scheduler enabled_filters; then
            iniset "$conf" filter_scheduler enabled_filters \
                "$(specguard_other_filters "$conf")"
        fi
        # The section with its header, for which DevStack has no function.
        sed -i -e '/^\[specguard\]/,/^\[/ { /^\[specguard\]/d; /^\[/!d }' \
            "$conf"
    done
    pip_uninstall nova-specguard
}

case "$1 ${2:-}" in
    "stack pre-install") specguard_check_settings ;;
    "stack install") specguard_install ;;
    "stack post-config") specguard_configure ;;
    "stack extra") specguard_verify ;;
    "stack test-config") specguard_configure_tempest ;;
    # Nothing of ours runs, and the next stack writes nova's files anew.
    "unstack ") ;;
    "clean ") specguard_clean ;;
esac
