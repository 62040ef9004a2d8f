#!/usr/bin/env bash
#
# Makes, or reuses, a virtual environment in which nova's functional fixtures
# and this project run. Its path is the last line of the output; everything
# else goes to stderr.

set -eu -o pipefail

usage() {
    cat <<EOF
Usage: tools/venv.sh [--nova VERSION] [--python PYTHON]

    --nova VERSION   a release (31.3.1) or the newest of a series (34);
                     default: 34
    --python PYTHON  an interpreter; default: python3.11, else python3

The environment is made in .venvs/ of this clone, and made again when what it
depends on has changed. UPPER_CONSTRAINTS may name a constraints file.
EOF
}

progress() {
    echo "venv: $*" >&2
}

die() {
    progress "$*"
    exit 1
}

nova=34
python=
while [[ $# -gt 0 ]]; do
    case $1 in
        --nova) nova=${2:?--nova needs a version}; shift 2 ;;
        --python) python=${2:?--python needs an interpreter}; shift 2 ;;
        --help) usage; exit 0 ;;
        *) usage >&2; exit 2 ;;
    esac
done

constraints=${UPPER_CONSTRAINTS:-}
if [[ -n $constraints ]]; then
    constraints=$(realpath -- "$constraints")
    [[ -f $constraints ]] || die "no such file: $constraints"
fi

case $python in
    /*) ;;
    */*) python=$PWD/$python ;;
esac

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# An interpreter's name can be on the path and still not run: version managers
# put stubs there.
runs() {
    "$1" -c 'import ensurepip, venv' >/dev/null 2>&1
}

if [[ -z $python ]]; then
    python=python3
    if runs python3.11; then
        python=python3.11
    fi
fi
runs "$python" || die "$python does not run, or has no venv and ensurepip"
version=$("$python" -c 'import platform; print(platform.python_version())')

series=${nova%%.*}
if [[ $nova == "$series" ]]; then
    nova_requirement="nova>=$series,<$((series + 1))"
else
    nova_requirement="nova==$nova"
fi

# Placement is released with nova, its major version counts from 18 below, and
# constraints do not pin it.
placement_requirement="openstack-placement>=$((series - 18)),<$((series - 17))"

venv=$root/.venvs/nova-$nova-py${version%.*}
stamp=$venv/inputs.sha256
mkdir -p "$root/.venvs"

inputs() {
    # The path is one of them: scripts in an environment hold it.
    echo "$root"
    "$python" -c 'import sys; print(sys.executable, sys.version)'
    cat tools/venv.sh setup.cfg setup.py pyproject.toml requirements.txt \
        test-requirements.txt ${constraints:+"$constraints"}
}

quietly() {
    "$@" >"$venv.log" 2>&1 || {
        cat "$venv.log" >&2
        die "failed: $*"
    }
}

install() {
    # Byte code is left to the first import: most modules never see one.
    quietly "$venv/bin/python" -m pip install --no-compile \
        ${constraints:+-c "$constraints"} "$@"
}

export PIP_CACHE_DIR=${PIP_CACHE_DIR:-$root/.venvs/pip-cache}
export PIP_DISABLE_PIP_VERSION_CHECK=1
export PIP_NO_INPUT=1

exec 9>"$venv.lock"
flock 9

digest=$(inputs | sha256sum)
if [[ -f $stamp && $(cat "$stamp") == "$digest" ]]; then
    progress "nova $nova on Python $version is up to date"
    echo "$venv"
    exit 0
fi

progress "nova $nova on Python $version: installing, takes about a minute"
rm -rf "$venv"
quietly "$python" -m venv "$venv"
if [[ $series -lt 32 ]]; then
    install 'pip<25.1' 'setuptools<81' wheel
fi
# Where no constraints say what a release was made for, what has broken it
# since stays out.
caps=()
if [[ -z $constraints && $series -lt 29 ]]; then
    caps=('oslo.policy<4.4' 'oslo.utils<9' 'SQLAlchemy<2')
elif [[ -z $constraints && $series -lt 32 ]]; then
    caps=('oslo.policy<5' 'oslo.utils<9')
elif [[ -z $constraints && $series -lt 34 ]]; then
    caps=('oslo.policy<6')
fi
install "$nova_requirement" "$placement_requirement" "${caps[@]}" \
    -r requirements.txt -r test-requirements.txt

# nova's fixtures look for etc/nova beside the package, pip puts it elsewhere.
site=$("$venv/bin/python" -c \
    'import sysconfig; print(sysconfig.get_paths()["purelib"])')
mkdir -p "$site/etc"
cp -r "$venv/etc/nova" "$site/etc/"

# One at a time: the build writes into the work tree, which all environments
# share.
exec 8>"$root/.venvs/project.lock"
flock 8
install --no-deps -e .
flock -u 8

echo "$digest" >"$stamp"
rm -f "$venv.log"
progress "ready"
echo "$venv"
