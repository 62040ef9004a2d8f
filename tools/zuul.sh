#!/usr/bin/env bash
#
# Checks .zuul.yaml by Zuul's own schema, in an environment that holds nothing
# but Zuul. The first run installs it, which takes about a minute.

set -eu -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=14.3.0
python=${1:-python3}
venv=.venvs/zuul-$version

export PIP_CACHE_DIR=${PIP_CACHE_DIR:-$PWD/.venvs/pip-cache}
export PIP_DISABLE_PIP_VERSION_CHECK=1

if [[ ! -f $venv/complete ]]; then
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/pip" install --quiet --no-compile "zuul==$version"
    touch "$venv/complete"
fi
"$venv/bin/python" tools/zuul_check.py .zuul.yaml
