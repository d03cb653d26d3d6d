#!/usr/bin/env bash
# The demo: real programs talk, a mirror port copies all packets, wirecap captures the copies, and the end
# proves that none is missing.
#
#   ┌ alice ────────┐   veth, 4 queues   ┌ bob ──────────────────────────┐   veth, 4 queues   ┌ monitor ─────────┐
#   │ curl dig ping │ alice0 ════ bob0   │ web server, name server       │ tap0 ════════ mon0 │ wirecap capture  │
#   └───────────────┘                 │  │ every packet, both directions ├──►               │  │ ──► file, account│
#                                     └──┴── mirrored by tc to tap0      │                  └──┴──────────────────┘
#                                        │ wirecap generate: bursts, all ├──►
#                                        └── into one queue of mon0 ─────┘
#
# A capture over AF_XDP takes packets from the host, so it listens at a mirror port, like a monitor on a
# switch. A burst is smaller than the pool of the queue that it hits, so nothing is lost however busy the
# machine is. It is sent while no other program sends, since the mirror port itself drops packets when two
# cores feed one of its queues.
# Needs root. DEMO_BIN: the directory of `wirecap`. `--keep FILE.pcapng` keeps the captured file.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"

FILES=6 QUERIES=20 PINGS=10 BURSTS=6 BURST_FRAMES=30000 THRESHOLD=1
ALICE4=192.0.2.1 BOB4=192.0.2.2 ALICE6=2001:db8::1 BOB6=2001:db8::2
NAME=www.demo.test

bin=${DEMO_BIN:?names the directory of the programs: run this through ./dev demo}
keep=''
[[ ${1:-} != --keep ]] || keep=$(readlink -f "${2:?--keep FILE.pcapng}")
# wirecap-PID-NUMBER-LABEL: by these names, the next test finds and removes what a killed demo leaves behind.
alice=wirecap-$$-0-alice bob=wirecap-$$-1-bob monitor=wirecap-$$-2-monitor
work=$(mktemp -d)

title() {
    printf '\n\e[1m── %s\e[0m\n' "$*"
}

inside() {
    local namespace=$1
    shift
    ip netns exec "$namespace" "$@"
}

fail() {
    echo "FAIL  $*" >&2
    exit 1
}

# Removes everything, however the demo ends.
clean_up() {
    local status=$? namespace pids
    trap - EXIT INT TERM
    for namespace in "$alice" "$bob" "$monitor"; do
        pids=$(ip netns pids "$namespace" 2>/dev/null) || true
        # shellcheck disable=SC2086 # a list of numbers
        [[ -z $pids ]] || kill $pids 2>/dev/null || true
        ip netns delete "$namespace" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    rm -rf "$work"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# within SECONDS COMMAND…: repeats the command until it succeeds; fails if the time is over.
within() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < end)) || return 1
        sleep 0.1
    done
}

veth() { # veth NAMESPACE END NAMESPACE END
    ip -n "$1" link add "$2" numrxqueues 4 numtxqueues 4 type veth \
        peer name "$4" netns "$3" numrxqueues 4 numtxqueues 4
}

build_network() {
    local namespace
    for namespace in "$alice" "$bob" "$monitor"; do
        ip netns add "$namespace"
        ip -n "$namespace" link set lo up
    done
    veth "$alice" alice0 "$bob" bob0
    veth "$bob" tap0 "$monitor" mon0

    # No host sends over the mirror port.
    inside "$bob" sysctl -qw net.ipv6.conf.tap0.disable_ipv6=1
    # A veth holds 256 frames: with larger windows, a burst of TCP overruns the mirror port before wirecap can
    # see it.
    inside "$alice" sysctl -qw net.ipv4.tcp_rmem="4096 65536 65536"
    inside "$monitor" sysctl -qw net.ipv6.conf.mon0.disable_ipv6=1
    # As on a real wire: complete checksums, no packet larger than the MTU.
    inside "$alice" ethtool -K alice0 tx off tso off gso off >/dev/null
    inside "$bob" ethtool -K bob0 tx off tso off gso off >/dev/null
    inside "$bob" ethtool -K tap0 tx off tso off gso off >/dev/null

    ip -n "$alice" address add "$ALICE4/24" dev alice0
    ip -n "$alice" address add "$ALICE6/64" dev alice0 nodad
    ip -n "$bob" address add "$BOB4/24" dev bob0
    ip -n "$bob" address add "$BOB6/64" dev bob0 nodad
    ip -n "$alice" link set alice0 up
    ip -n "$bob" link set bob0 up
    ip -n "$bob" link set tap0 up
    ip -n "$monitor" link set mon0 up
}

# All cores as a bit mask, in words of 32 bits separated by commas, as sysfs expects it.
all_cores() {
    local cores mask
    cores=$(nproc --all)
    mask=$(printf '%x' $(((1 << (cores % 32)) - 1)))
    for ((; cores >= 32; cores -= 32)); do
        mask+=,ffffffff
    done
    echo "$mask"
}

# Mirrored packets go to queue 1 of the monitor, so that both directions of a connection stay in order, as
# with a NIC whose RSS is symmetric. Queue 0 is for the bursts.
mirror_on() {
    local direction
    all_cores | inside "$bob" tee /sys/class/net/tap0/queues/tx-1/xps_cpus >/dev/null
    tc -n "$bob" qdisc add dev bob0 clsact
    for direction in ingress egress; do
        tc -n "$bob" filter add dev bob0 "$direction" protocol all u32 match u32 0 0 \
            action mirred egress mirror dev tap0
    done
}

# Packets tc has copied to the mirror port.
mirrored() {
    tc -s -n "$bob" actions list action mirred | awk '$1 == "Sent" { packets += $4 } END { print packets + 0 }'
}

# Packets that left by the mirror port, as counted at the interface.
tapped() {
    inside "$bob" cat /sys/class/net/tap0/statistics/tx_packets
}

start_servers() {
    local number
    mkdir "$work/www" "$work/got"
    for ((number = 1; number <= FILES; number++)); do
        head -c $((number * number * 30000)) /dev/urandom >"$work/www/v4-$number.bin"
        head -c $((number * number * 30000)) /dev/urandom >"$work/www/v6-$number.bin"
    done
    inside "$bob" python3 -m http.server 80 --bind :: --directory "$work/www" >"$work/web.log" 2>&1 &
    inside "$bob" dnsmasq --keep-in-foreground --conf-file=/dev/null --pid-file= --no-resolv --no-hosts --user=root \
        --host-record="$NAME,$BOB4,$BOB6" >"$work/dns.log" 2>&1 &
    # bob asks itself, so none of these packets is on the wire.
    within 10 inside "$bob" curl -sf -o /dev/null "http://127.0.0.1/" || fail "the web server does not start"
    within 10 inside "$bob" dig +tries=1 +timeout=1 "@127.0.0.1" "$NAME" || fail "the name server does not start"
}

# wirecap shows its status line only on a terminal, which `script` provides. Here each update becomes a line.
start_capture() {
    local command="$bin/wirecap capture mon0 -w $work/demo.pcapng -M 256 -R 128 -T $THRESHOLD --mode advanced --workers 4 --verify"
    echo "\$ wirecap capture mon0 -w demo.pcapng -M 256 -R 128 -T $THRESHOLD --mode advanced --workers 4 --verify"
    inside "$monitor" script --quiet --return --command "$command" /dev/null </dev/null 2>&1 |
        stdbuf -o0 tr '\r' '\n' | sed -u 's/\x1b\[K//; s/^\^@//; /^$/d' | tee "$work/account" |
        sed -u 's/^/        | /' &
    capture=$!
    within 20 capturing || fail "wirecap does not start"
    sleep 0.5
}

capturing() {
    ip -n "$monitor" -details link show mon0 | grep -q xdp
}

stop_capture() {
    local pid
    for pid in $(ip netns pids "$monitor"); do
        [[ $(cat "/proc/$pid/comm") != wirecap ]] || kill -INT "$pid"
    done
    wait "$capture" || fail "wirecap ended with an error"
    ! capturing || fail "wirecap left its program on the interface"
}

talk() {
    local number
    title "alice fetches $FILES files over IPv4 and $FILES over IPv6 from bob's web server, with curl"
    for ((number = 1; number <= FILES; number++)); do
        inside "$alice" curl -sf -o "$work/got/v4-$number.bin" "http://$BOB4/v4-$number.bin"
        inside "$alice" curl -sf -o "$work/got/v6-$number.bin" "http://[$BOB6]/v6-$number.bin"
    done
    diff -r "$work/www" "$work/got" || fail "the files that curl got differ from those served"
    title "alice asks bob's name server $QUERIES times each for A and AAAA, with dig"
    for ((number = 1; number <= QUERIES; number++)); do
        [[ $(inside "$alice" dig +short +tries=1 "@$BOB4" "$NAME" A) == "$BOB4" ]] || fail "no answer for A"
        [[ $(inside "$alice" dig +short +tries=1 "@$BOB6" "$NAME" AAAA) == "$BOB6" ]] || fail "no answer for AAAA"
    done
    title "alice pings bob $PINGS times over IPv4 and IPv6"
    inside "$alice" ping -q -c "$PINGS" -i 0.2 "$BOB4" >"$work/ping4"
    inside "$alice" ping -6 -q -c "$PINGS" -i 0.2 "$BOB6" >"$work/ping6"
}

burst() {
    title "a generator sends $BURSTS bursts of $BURST_FRAMES frames into one receive queue of the monitor: the other workers help"
    local options="--engine live --size 204 --burst $BURST_FRAMES --gap 400ms --count $((BURSTS * BURST_FRAMES))"
    echo "\$ wirecap generate -i tap0 $options"
    # veth chooses the receive queue by the sending core.
    # shellcheck disable=SC2086 # words
    inside "$bob" "$bin/wirecap" generate -i tap0 $options --core "$(first_core)"
}

# The first core that this process may use.
first_core() {
    taskset --cpu-list --pid $$ | sed 's/.*: //; s/[-,].*//'
}

main() {
    title "network: alice and bob, connected by a veth pair with four queues; bob's port is mirrored to a monitor"
    build_network
    start_servers
    title "the monitor captures, in advanced mode"
    start_capture
    mirror_on
    talk
    # From now on only the generator sends.
    ip -n "$alice" link set alice0 down
    burst
    sleep 1.2 # until the status line shows the last burst
    local copied tapped
    copied=$(mirrored)
    tapped=$(tapped)
    stop_capture

    title "another tool reads the file: capinfos and tshark"
    capinfos -tuscei "$work/demo.pcapng"
    tshark -r "$work/demo.pcapng" -q -z io,phs 2>/dev/null

    title "the file has exactly the packets that were sent"
    ./check.py --file "$work/demo.pcapng" --account "$work/account" --mirrored "$copied" --tapped "$tapped" \
        --burst-frames $((BURSTS * BURST_FRAMES)) --files "$work/www" --queries "$QUERIES" --pings "$PINGS"
    if [[ -n $keep ]]; then
        cp "$work/demo.pcapng" "$keep"
        echo "kept: $keep"
    fi
}

main
