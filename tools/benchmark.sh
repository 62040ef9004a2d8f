#!/usr/bin/env bash
#
# Sets up and runs a benchmark. Its tables are reStructuredText; the exit code
# is 0 only if every bar is held.

set -eu -o pipefail

usage() {
    cat <<EOF
Usage: tools/benchmark.sh [options] BENCHMARK [benchmark options]

Benchmarks are guard, audit, alerting and disks.

    --nova VERSION   as in tools/venv.sh
    --python PYTHON  as in tools/venv.sh

    guard            what the guard adds to moves and boots: SELECTs, time per
                     host, time to schedule among 1,000 hosts
        --pairs N    times to schedule with and without the guard; default: 100
    audit            how fast the audit is, on a MariaDB that it fills
        N ...        how many servers; default: 10000 200000
    alerting         how many lines a second mtail reads
        --events N   how many alerts of each code; default: 2000
    disks            how fast the audit of a compute host's disks is; needs
                     qemu-img (package qemu-utils)
        N            how many folders; default: 1000

Takes a few minutes; the times want an idle machine. "guard" runs with
eventlet; OS_NOVA_DISABLE_EVENTLET_PATCHING=true gives native threads where all
of nova can do with them; nova's fixtures then connect to SQLite anew for every
read, which no real database does and which counts against the guard. The
others run with native threads, as the commands do.
EOF
}

venv_options=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --nova | --python)
            venv_options+=("$1" "${2:?$1 needs a value}")
            shift 2
            ;;
        --help) usage; exit 0 ;;
        guard | audit | alerting | disks) break ;;
        *) usage >&2; exit 2 ;;
    esac
done
[[ $# -gt 0 ]] || { usage >&2; exit 2; }
benchmark=$1
shift

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$("$root/tools/venv.sh" "${venv_options[@]}" | tail -n 1)
cd "$root"

# nova's default differs between its releases and services.
default=false
if [[ $benchmark != guard ]]; then
    default=true
fi
disable_eventlet=${OS_NOVA_DISABLE_EVENTLET_PATCHING:-$default}
export OS_NOVA_DISABLE_EVENTLET_PATCHING=$disable_eventlet

exec "$venv/bin/python" -u -m "tests.benchmarks.$benchmark" "$@"
