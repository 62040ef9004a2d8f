#!/usr/bin/env bash
#
# Sets up and runs the unit and functional tests. The last line of the output
# is "N passed, N failed"; the exit code is 0 only if nothing failed.

set -eu -o pipefail

usage() {
    cat <<EOF
Usage: tools/test.sh [options]

    --nova VERSION   as in tools/venv.sh
    --python PYTHON  as in tools/venv.sh
    --select REGEX   only tests whose id matches
    --unit           only tests/unit
    --functional     only tests/functional
    --endurance      only tests/endurance
    --alerting       only tests/alerting

UPPER_CONSTRAINTS may name a constraints file. Functional tests run with
eventlet; OS_NOVA_DISABLE_EVENTLET_PATCHING=true gives native threads, which
nova has from release 31 on.
EOF
}

venv_options=()
select=
suites=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --nova | --python)
            venv_options+=("$1" "${2:?$1 needs a value}")
            shift 2
            ;;
        --select) select=${2:?--select needs a regex}; shift 2 ;;
        --unit) suites+=(unit); shift ;;
        --functional) suites+=(functional); shift ;;
        --endurance) suites+=(endurance); shift ;;
        --alerting) suites+=(alerting); shift ;;
        --help) usage; exit 0 ;;
        *) usage >&2; exit 2 ;;
    esac
done
[[ ${#suites[@]} -gt 0 ]] || suites=(unit functional endurance alerting)

passed=0
failed=0
scratch=$(mktemp -d)

finish() {
    local status=$?
    rm -rf "$scratch"
    if [[ $status -ne 0 && $failed -eq 0 ]]; then
        failed=1
    fi
    echo "$passed passed, $failed failed"
    [[ $failed -eq 0 ]] || exit 1
}
trap finish EXIT
trap 'exit 130' INT TERM

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$("$root/tools/venv.sh" "${venv_options[@]}" | tail -n 1)
cd "$root"

# stestr does not quote the path of its interpreter.
export PATH=$venv/bin:$PATH PYTHON=python
# stevedore keeps a cache.
export XDG_CACHE_HOME=$root/.venvs/cache
export OS_STDOUT_CAPTURE=${OS_STDOUT_CAPTURE:-1}
export OS_STDERR_CAPTURE=${OS_STDERR_CAPTURE:-1}
export OS_TEST_TIMEOUT=${OS_TEST_TIMEOUT:-600}
# nova's default differs between its releases and services.
disable_eventlet=${OS_NOVA_DISABLE_EVENTLET_PATCHING:-false}
export OS_NOVA_DISABLE_EVENTLET_PATCHING=$disable_eventlet

# stestr's own report, of a stream that is kept as well.
report() {
    python -c '
import sys

from stestr import subunit_trace
import subunit.test_results

subunit_trace.trace(sys.stdin, sys.stdout, post_fails=True,
                    suppress_attachments=True)
'
}

# Prints the numbers of passed and of failed tests in a subunit stream. A test
# that was announced and never ended is a failed one.
count() {
    python - "$1" <<EOF
import sys

import subunit
import testtools

statuses = {}
result = testtools.StreamToDict(
    lambda test: statuses.update({test['id']: test['status']}))
result.startTestRun()
with open(sys.argv[1], 'rb') as stream:
    subunit.ByteStreamToStreamResult(stream, non_subunit_name='text').run(
        result)
result.stopTestRun()
ends = list(statuses.values())
passed = ends.count('success') + ends.count('xfail')
print(passed, len(ends) - passed - ends.count('skip'))
EOF
}

run_suite() {
    local stream=$scratch/$1 status=0 counts
    echo "== tests/$1"
    {
        stestr --test-path "./tests/$1" run --subunit ${select:+"$select"} \
            2>"$stream.stderr" || echo $? >"$stream.status"
    } | tee "$stream" | report || true
    if [[ -f $stream.status ]]; then
        status=$(<"$stream.status")
    fi
    # A selection may lie in the other suite.
    if [[ -n $select ]] && grep -aq "doesn't match with" "$stream"; then
        status=0
    fi
    read -r -a counts < <(count "$stream")
    if [[ $status -ne 0 || ${counts[1]} -ne 0 ]]; then
        # nova's thread pools say much when they end, after each test.
        grep -v nova.thread_pool_factory "$stream.stderr" | tail -n 50 || true
    fi
    # Failed tests alone do not make stestr fail here.
    if [[ $status -ne 0 ]]; then
        echo "stestr failed with exit code $status"
        counts[1]=$((counts[1] + 1))
    fi
    passed=$((passed + counts[0]))
    failed=$((failed + counts[1]))
}

for suite in "${suites[@]}"; do
    run_suite "$suite"
done
if [[ $((passed + failed)) -eq 0 ]]; then
    echo "no test was run"
    failed=1
fi
