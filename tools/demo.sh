#!/usr/bin/env bash
#
# Shows what the guard is for, on nova's own services in one process: a live
# migration that breaks an operator's rule without it, and does not with it.
# The exit code is 0 only if each step ended as it should.

set -eu -o pipefail

usage() {
    cat <<EOT
Usage: tools/demo.sh [--nova VERSION] [--python PYTHON]

The options are those of tools/venv.sh. NO_COLOR and FORCE_COLOR are respected.
SPECGUARD_TESTS_GUARD=off takes the guard away, and the demonstration fails.
EOT
}

if [[ ${1:-} == --help ]]; then
    usage
    exit 0
fi

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$("$root/tools/venv.sh" "$@" | tail -n 1)
log=$venv/demo.log
cd "$root"

# What nova prints belongs to its log here.
export OS_STDOUT_CAPTURE=1 OS_STDERR_CAPTURE=1
export OS_TEST_TIMEOUT=${OS_TEST_TIMEOUT:-120}
# The same kind of threads as in tools/test.sh.
disable_eventlet=${OS_NOVA_DISABLE_EVENTLET_PATCHING:-false}
export OS_NOVA_DISABLE_EVENTLET_PATCHING=$disable_eventlet

status=0
"$venv/bin/python" -m tools.demo 2>"$log" || status=$?
if [[ $status -ne 0 ]]; then
    echo "What nova logged is in $log" >&2
fi
exit "$status"
