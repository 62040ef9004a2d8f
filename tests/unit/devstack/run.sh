#!/usr/bin/env bash
#
# run.sh stack|unstack|clean: what DevStack's command of this name does about a
# plugin, in its order, with the files of nova below $ROOT. $ROOT/local.conf is
# the user's.

set -o errexit

here=$(dirname "${BASH_SOURCE[0]}")
plugin=$here/../../../devstack

# shellcheck source=tests/unit/devstack/functions.sh
source "$here/functions.sh"

# Prints a meta-section of local.conf.
meta_section() {
    awk -v wanted="[[$1]]" '
        /^\[\[/ { inside = $0 == wanted; next }
        inside && !/^#/' "$ROOT/local.conf"
}

# local.conf replaces all values of an option by those that it has. Its lines
# are "option = value" here.
merge_config() {
    local file line section=
    while IFS= read -r file; do
        while IFS= read -r line; do
            if [[ $line == '['* ]]; then
                section=${line:1:-1}
            elif [[ $line == *=* ]]; then
                merge_option "$(eval "echo $file")" "$section" \
                    "${line%% *}" "${line#*= }"
            fi
        done < <(meta_section "$1|$file")
    done < <(sed -n "s/^\[\[$1|\(.*\)\]\]$/\1/p" "$ROOT/local.conf")
}

declare -A merged=()

merge_option() {
    if [[ -n ${merged[$1 $2 $3]:-} ]]; then
        iniadd "$@"
    else
        iniset "$@"
    fi
    merged[$1 $2 $3]=true
}

# lib/nova and stackrc.
ENABLED_SERVICES=mysql,rabbit,key,n-api,n-cond,n-sch,n-cpu,placement-api
# shellcheck source=/dev/null
source <(meta_section 'local|localrc')
NOVA_CONF_DIR=$ROOT/nova
NOVA_CONF=$NOVA_CONF_DIR/nova.conf
NOVA_COND_CONF=$NOVA_CONF
NOVA_FILTERS=ComputeFilter,ImagePropertiesFilter,SameHostFilter
NOVA_NUM_CELLS=${NOVA_NUM_CELLS:-1}
CELLSV2_SETUP=${CELLSV2_SETUP:-superconductor}
TEMPEST_CONFIG=$ROOT/tempest.conf

# lib/nova: its files are written anew.
create_nova_conf() {
    local cell
    mkdir -p "$NOVA_CONF_DIR"
    rm -f "$NOVA_CONF_DIR/nova.conf"
    iniset "$NOVA_CONF" DEFAULT debug True
    iniset "$NOVA_CONF" filter_scheduler enabled_filters "$NOVA_FILTERS"
    iniset "$NOVA_CONF" oslo_messaging_notifications driver messagingv2
    if is_service_enabled n-cond; then
        for cell in $(seq 1 "$NOVA_NUM_CELLS"); do
            rm -f "$(conductor_conf "$cell")"
            iniset "$(conductor_conf "$cell")" DEFAULT debug True
        done
    fi
}

# Slow: what another writes into a file meanwhile is lost.
configure_neutron_nova() {
    local conf old
    for conf in "$NOVA_CONF_DIR"/nova.conf "$NOVA_CONF_DIR"/nova_cell*.conf; do
        if [[ -f $conf ]]; then
            old=$(<"$conf")
            sleep 0.2
            printf '%s\n\n[neutron]\nregion_name = here\n' "$old" >"$conf"
        fi
    done
}

# As DevStack calls a plugin: without quotes, so that an empty phase is none.
run_phase() {
    # shellcheck source=devstack/plugin.sh
    source "$plugin/plugin.sh" "$@"
}

# shellcheck source=/dev/null
source "$plugin/settings"
case $1 in
    stack)
        run_phase stack pre-install
        create_nova_conf
        run_phase stack install
        async_runfunc configure_neutron_nova
        run_phase stack post-config
        merge_config post-config
        async_wait configure_neutron_nova
        if is_service_enabled n-cpu; then
            cp "$NOVA_CONF" "$NOVA_CONF_DIR/nova-cpu.conf"
        fi
        merge_config extra
        run_phase stack extra
        if is_service_enabled tempest; then
            iniset "$TEMPEST_CONFIG" compute-feature-enabled \
                scheduler_enabled_filters "$NOVA_FILTERS"
        fi
        run_phase stack test-config
        ;;
    unstack | clean)
        run_phase "$1"
        ;;
esac
