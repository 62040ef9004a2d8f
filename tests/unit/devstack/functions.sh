#!/usr/bin/env bash
#
# What a plugin may call, as DevStack documents it, on files below $ROOT. Calls
# that would change the machine are written to $ROOT/calls instead.

called() {
    echo "$*" >>"$ROOT/calls"
}

die() {
    shift
    echo "ERROR: $*" >&2
    exit 1
}

trueorfalse() {
    local value=${!2:-$1}
    case ${value,,} in
        1 | yes | true) echo True ;;
        *) echo False ;;
    esac
}

define_plugin() {
    called "define_plugin $*"
}

# DevStack reads the name of the package with awk, and stops without one.
setup_develop() {
    local name
    name=$(awk '/^name.*=/ { print $3 }' "$1/setup.cfg")
    [[ -n $name ]] || die 0 "no name in setup.cfg of $1"
    called "setup_develop $name"
}

pip_uninstall() {
    called "pip_uninstall $*"
}

is_service_enabled() {
    local service
    for service in "$@"; do
        if [[ ,$ENABLED_SERVICES, == *,$service,* ]]; then
            return 0
        fi
    done
    return 1
}

conductor_conf() {
    echo "$NOVA_CONF_DIR/nova_cell$1.conf"
}

# What reading and writing an option of an ini file have in common.
# shellcheck disable=SC2016
ini_awk='function is_option() { return inside && $0 ~ "^" option "[ \t]*=" }
/^\[/ { inside = $0 == "[" section "]" }
'

ini_get() {
    # A missing file is an error, as it is for sed.
    awk -v section="$2" -v option="$3" "$ini_awk"'
        is_option() {
            sub(/^[^=]*=[ \t]*/, "")
            all = all space $0
            space = " "
        }
        END { print all }' "$1"
}

# Puts values below the header of the section, without the old ones.
ini_replace() {
    local file=$1 section=$2 option=$3 lines=
    shift 3
    if [[ $# -gt 0 ]]; then
        lines=$(printf "$option = %s\n" "$@")
    fi
    if ! grep -qxF "[$section]" "$file" 2>/dev/null; then
        printf '\n[%s]\n' "$section" >>"$file"
    fi
    awk -v section="$section" -v option="$option" -v lines="$lines" "$ini_awk"'
        is_option() { next }
        { print }
        inside && /^\[/ && lines != "" { print lines }' "$file" >"$file.new"
    mv "$file.new" "$file"
}

iniget() {
    ini_get "$@"
}

iniget_multiline() {
    ini_get "$@"
}

ini_has_option() {
    [[ -n $(ini_get "$@") ]]
}

# All values of a multi-valued option become this one, so that one is enough.
iniset() {
    ini_replace "$@"
}

# Values are split at blanks.
iniset_multiline() {
    # shellcheck disable=SC2068
    ini_replace $@
}

iniadd() {
    # shellcheck disable=SC2046,SC2068
    iniset_multiline "$1" "$2" "$3" $(iniget_multiline "$1" "$2" "$3") ${@:4}
}

# A job that reads a file and writes it back later loses what others have
# written meanwhile.
async_runfunc() {
    "$1" &
    echo $! >"$ROOT/$1.pid"
}

async_wait() {
    called "async_wait $*"
    if [[ -f $ROOT/$1.pid ]]; then
        wait "$(<"$ROOT/$1.pid")"
        rm "$ROOT/$1.pid"
    fi
}
