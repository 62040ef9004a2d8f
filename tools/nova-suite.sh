#!/usr/bin/env bash
#
# Runs nova's own functional tests twice, without the guard and with it in every
# test, and compares. The last line of the output is "N passed, N failed".

set -eu -o pipefail

usage() {
    cat <<END
Usage: tools/nova-suite.sh [options]

    --nova VERSION   as in tools/venv.sh
    --python PYTHON  as in tools/venv.sh
    --long           all tests that have to do with what the guard does; takes
                     about two hours on two cores. Default: a selection of
                     every operation, about five minutes
    --select REGEX   instead: nova's functional tests whose id matches

A test counts as failed if it fails with the guard and passes without it, both
twice; if the guard raises an alert; or if a scheduler runs without the guard.
tests/nova_suite/expected.txt lists what is known, by test and with the reason.
Tests that fail without the guard too, and skipped ones, count as neither.

Exit codes: 0 nothing failed; 1 something failed, or nothing was run; 2 wrong
usage; 130 interrupted.
END
}

suite=tests/nova_suite
venv_options=()
selection=(--include-list "$suite/default.txt")
while [[ $# -gt 0 ]]; do
    case $1 in
        --nova | --python)
            venv_options+=("$1" "${2:?$1 needs a value}")
            shift 2
            ;;
        --long) selection=(--include-list "$suite/long.txt"); shift ;;
        --select) selection=("${2:?--select needs a regex}"); shift 2 ;;
        --help) usage; exit 0 ;;
        *) usage >&2; exit 2 ;;
    esac
done

verdict='0 passed, 1 failed'
scratch=$(mktemp -d)

# shellcheck disable=SC2317,SC2329  # by the trap
finish() {
    local status=$?
    rm -rf "$scratch"
    echo "$verdict"
    [[ $status -eq 0 || $status -eq 130 ]] || exit 1
}
trap finish EXIT
trap 'exit 130' INT TERM

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$("$root/tools/venv.sh" "${venv_options[@]}" | tail -n 1)
cd "$root"

# As in tools/test.sh, but for the timeout, which is nova's.
export PATH=$venv/bin:$PATH PYTHON=python
export XDG_CACHE_HOME=$root/.venvs/cache
export OS_STDOUT_CAPTURE=${OS_STDOUT_CAPTURE:-1}
export OS_STDERR_CAPTURE=${OS_STDERR_CAPTURE:-1}
export OS_TEST_TIMEOUT=${OS_TEST_TIMEOUT:-160}
disable_eventlet=${OS_NOVA_DISABLE_EVENTLET_PATCHING:-false}
export OS_NOVA_DISABLE_EVENTLET_PATCHING=$disable_eventlet

# stestr's own report where somebody is watching.
progress() {
    if [[ ! -t 1 ]]; then
        cat >/dev/null
        return
    fi
    python -c '
import sys

from stestr import subunit_trace
import subunit.test_results

subunit_trace.trace(sys.stdin, sys.stdout, suppress_attachments=True)
'
}

# Failed tests alone do not make stestr fail here. Its repository is kept apart:
# the times in it tell the next run how to share the tests out.
run() {
    local stream=$scratch/$1 mode=$2 status=0
    shift 2
    echo "== guard: $mode"
    SPECGUARD_NOVA_SUITE=$mode stestr \
        --test-path "./$suite" --repo-url "$scratch" \
        run --subunit --concurrency 2 "$@" 2>"$scratch/stderr" |
        tee "$stream" | progress || status=$?
    if [[ $status -ne 0 ]]; then
        echo "stestr failed with exit code $status"
        # It says why on either; the stream can hold tests by then.
        cat "$scratch/stderr" "$stream" | tr -cd '[:print:]\n' | tail -n 50
        echo
        exit 1
    fi
}

compare() {
    python -m tests.nova_suite.compare "$@"
}

run baseline off "${selection[@]}" --exclude-list "$suite/exclude.txt"
run guarded on "${selection[@]}" --exclude-list "$suite/exclude.txt"
streams=(--baseline "$scratch/baseline" --guarded "$scratch/guarded")

compare "${streams[@]}" --again >"$scratch/again"
if [[ -s $scratch/again ]]; then
    echo "== run again: failed, or cut off, with the guard only"
    sed 's/^/    /' "$scratch/again"
    run baseline-again off --load-list "$scratch/again"
    run guarded-again on --load-list "$scratch/again"
    streams+=(--baseline "$scratch/baseline-again"
        --guarded "$scratch/guarded-again")
fi

status=0
compare "${streams[@]}" >"$scratch/report" || status=$?
last=$(tail -n 1 "$scratch/report")
if [[ $last =~ ^[0-9]+\ passed,\ [0-9]+\ failed$ ]]; then
    verdict=$last
fi
head -n -1 "$scratch/report"
exit "$status"
