#!/usr/bin/env bash
#
# Every operation with every kind of drift in every mode: all the cases of which
# tools/test.sh runs a pairwise selection. Takes the options of tools/test.sh.

set -eu -o pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export SPECGUARD_FULL_MATRIX=1
exec "$root/tools/test.sh" --functional --select test_matrix "$@"
