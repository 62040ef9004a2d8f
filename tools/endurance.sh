#!/usr/bin/env bash
#
# Long runs. Against heal: killed 200 times, two minutes beside a nova that saves
# at full speed and beside its services, 100,000 damaged texts; a repair of a
# disk killed 100 times; alerts all the way to a pager: 10,000 of each code.
# tools/test.sh runs a tenth of each. Takes the options of tools/test.sh;
# SPECGUARD_SEED repeats a run.

set -eu -o pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export SPECGUARD_ENDURANCE=full OS_TEST_TIMEOUT=7200
exec "$root/tools/test.sh" --endurance --alerting "$@"
