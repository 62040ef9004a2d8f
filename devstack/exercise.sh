#!/usr/bin/env bash
#
# Moves a server whose request spec has drifted, and checks where it lands and
# what the guard says. Needs the openstack client, with the credentials of an
# administrator, and a file that the log lines of nova-conductor and
# nova-scheduler come to.

set -eu -o pipefail

usage() {
    cat <<EOT
Usage: devstack/exercise.sh --log FILE [options]

    --log FILE          log lines of nova-conductor and nova-scheduler
    --database COMMAND  make the drift in nova's API database, by SQL on the
                        standard input of this command ("mysql nova_api").
                        Without it a resize makes the drift, to a flavor with a
                        smaller disk, which the hypervisor has to refuse:
                        libvirt does, nova's fake driver does not
    --expect CODE       101 (corrected, the default), 102 (refused) or 103
                        (allowed: the server goes by the stale spec)
    --hosts A,B[,C]     compute hosts of one cell; default: all that are up.
                        A and B are for the server, C is where nova alone would
                        move it
    --image IMAGE       default: the first active one
    --timeout SECONDS   for each step; default: 180

Exit code: 0 if host and alert are as expected, 1 if not, 2 for wrong usage.
EOT
}

log=
database=
expect=101
hosts=()
image=
timeout=180
while [[ $# -gt 0 ]]; do
    case $1 in
        --log) log=${2:?--log needs a file}; shift 2 ;;
        --database) database=${2:?--database needs a command}; shift 2 ;;
        --expect) expect=${2:?--expect needs a code}; shift 2 ;;
        --hosts)
            IFS=, read -ra hosts <<<"${2:?--hosts needs hosts}"
            shift 2
            ;;
        --image) image=${2:?--image needs an image}; shift 2 ;;
        --timeout) timeout=${2:?--timeout needs seconds}; shift 2 ;;
        --help) usage; exit 0 ;;
        *) usage >&2; exit 2 ;;
    esac
done
if [[ ! -r $log || ! $expect =~ ^10[123]$ ]]; then
    usage >&2
    exit 2
fi

say() {
    echo "exercise: $*"
}

die() {
    echo "exercise: FAILED: $*" >&2
    exit 1
}

# 2.87 lets the scheduler decide and boots without a network.
nova() {
    openstack --os-compute-api-version 2.87 "$@"
}

name=specguard-exercise-$$
servers=()
flavors=()

cleanup() {
    local item
    for item in "${servers[@]}"; do
        nova server delete --wait "$item" || say "left: server $item"
    done
    for item in "${flavors[@]}"; do
        nova flavor delete "$item" || say "left: flavor $item"
    done
}
trap cleanup EXIT

# create_flavor NAME DISK HOSTS: a flavor that ComputeCapabilitiesFilter, one
# of nova's default filters, lets onto these hosts only.
create_flavor() {
    nova flavor create --vcpus 1 --ram 256 --disk "$2" "$1" >/dev/null
    flavors+=("$1")
    nova flavor set --property "capabilities:host=$3" "$1"
}

# Sets status, task_state and host of a server.
look() {
    local shown
    shown=$(nova server show -f shell --prefix _ -c status \
        -c OS-EXT-STS:task_state -c OS-EXT-SRV-ATTR:host "$1")
    status=$(value _status <<<"$shown")
    task_state=$(value _os_ext_sts_task_state <<<"$shown")
    host=$(value _os_ext_srv_attr_host <<<"$shown")
}

value() {
    sed -n "s/^$1=\"\(.*\)\"$/\1/p"
}

# Waits until nova has no task for a server any more.
settle() {
    local end
    end=$((SECONDS + timeout))
    while true; do
        look "$1"
        if [[ $status != BUILD && $task_state == None ]]; then
            return
        fi
        if [[ $SECONDS -ge $end ]]; then
            die "server $1 is $status, task $task_state, after $timeout s"
        fi
        sleep 1
    done
}

# boot NAME FLAVOR: sets server.
boot() {
    server=$(nova server create --image "$image" --flavor "$2" \
        --nic none -f value -c id "$1")
    servers+=("$server")
    settle "$server"
    if [[ $status != ACTIVE ]]; then
        die "server $server of flavor $2 did not boot: it is $status"
    fi
}

drift_by_resize() {
    say "drift: a resize that the hypervisor refuses"
    nova server resize --flavor "$stale" "$server"
    settle "$server"
    if [[ $status == VERIFY_RESIZE ]]; then
        die "the hypervisor took the smaller disk, so there is no drift;" \
            "use --database (nova's fake driver cannot be told to fail)"
    fi
    if [[ $status != ACTIVE ]]; then
        die "server $server is $status after the refused resize"
    fi
}

# The spec gets the flavor of another server's spec, as nova wrote it.
drift_by_database() {
    local drifted=$server path='$."nova_object.data".flavor'
    say "drift: the stale flavor is written into nova's API database"
    boot "$name-other" "$stale"
    $database <<EOT
UPDATE request_specs drifted
  JOIN request_specs other ON other.instance_uuid = '$server'
SET drifted.spec = JSON_SET(
  drifted.spec, '$path', JSON_EXTRACT(other.spec, '$path'))
WHERE drifted.instance_uuid = '$drifted';
EOT
    server=$drifted
    look "$server"
}

# Prints the alerts about the server since the last move.
alerts() {
    tail -n "+$((seen + 1))" "$log" |
        grep -o "SPECGUARD-[1-4][0-9][0-9] .*instance=$server .*" || true
}

migrate() {
    seen=$(wc -l <"$log")
    nova server migrate --live-migration "$server" ||
        die "nova did not accept the live migration of $server"
    settle "$server"
}

# Moves the server, and sets code to what the guard says.
move_drifted() {
    local end line=
    migrate
    end=$((SECONDS + timeout))
    while [[ -z $line && $SECONDS -lt $end ]]; do
        line=$(alerts | head -n 1)
        [[ -n $line ]] || sleep 1
    done
    if [[ -z $line ]]; then
        die "no alert about server $server, now on $host, in $log: is the" \
            "guard in place, is the log that of conductor and scheduler, and" \
            "has the resize reached a host?"
    fi
    say "$line"
    code=${line%% *}
    code=${code#SPECGUARD-}
    say "saw SPECGUARD-$code, the server is on $host"
    if [[ $code != "$expect" ]]; then
        die "expected SPECGUARD-$expect"
    fi
}

# expect_host HOST
expect_host() {
    if [[ $host != "$1" ]]; then
        die "the server is on $host and should be on $1"
    fi
    if [[ $status != ACTIVE ]]; then
        die "the server is $status and should be ACTIVE"
    fi
}

if [[ ${#hosts[@]} -eq 0 ]]; then
    mapfile -t hosts < <(nova compute service list --service nova-compute \
        -f value -c Host -c Status -c State |
        sed -n 's/ enabled up$//p' | sort)
fi
if [[ ${#hosts[@]} -lt 2 ]]; then
    die "there are ${#hosts[@]} compute hosts, and a move needs two"
fi
if [[ -z $image ]]; then
    image=$(openstack image list --status active -f value -c ID | head -n 1)
    [[ -n $image ]] || die "there is no image; name one with --image"
fi

right=$name-right
stale=$name-stale
create_flavor "$right" 2 "<or> ${hosts[0]} <or> ${hosts[1]}"
boot "$name" "$right"

say "server $server on $host: a healthy move"
home=$host
away=${hosts[0]}
if [[ $away == "$home" ]]; then
    away=${hosts[1]}
fi
migrate
expect_host "$away"
if [[ -n $(alerts) ]]; then
    die "a healthy move raised an alert: $(alerts | head -n 1)"
fi

# With a third host the stale flavor wants that one, else the one where the
# server is not.
stale_host=${hosts[2]:-$home}
create_flavor "$stale" 1 "s== $stale_host"
if [[ -n $database ]]; then
    drift_by_database
else
    drift_by_resize
fi
expect_host "$away"

say "a move with a stale spec, which says $stale_host"
move_drifted
case $expect in
    101)
        expect_host "$home"
        # The row is as wrong as before. With two hosts this is the move that
        # nova alone would find no host for.
        say "and back"
        move_drifted
        expect_host "$away"
        ;;
    102) expect_host "$away" ;;
    103) expect_host "$stale_host" ;;
esac
say "passed with SPECGUARD-$code"
