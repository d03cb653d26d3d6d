# shellcheck shell=bash
# One guest: a machine with two NICs that are joined, which boots, runs the suite and switches itself off.

# How long all guests together should take at most, in seconds, and may, on a machine that does much else; a slower one may be
# given more. And what a guest needs at least to begin.
VM_BUDGET_SECONDS=600
VM_SECONDS=${WIRECAP_VM_SECONDS:-900}
GUEST_SECONDS_LEAST=30

# run_guest NIC KERNEL QUEUES ZERO_COPY LARGE_FRAMES TESTS LOG [CASE,…]: fails unless the guest says that all cases have passed.
# LARGE_FRAMES is what becomes of frames larger than a cell there (crates/wirecap-vm/src/boot.rs), TESTS a test program that it runs,
# too, or empty.
run_guest() {
    local nic=$1 kernel=$2 queues=$3 zero_copy=$4 large_frames=$5 tests=$6 log=$7 cases=${8:-} image machine attempt end_to_end=no
    image=$steps_dir/initramfs
    if [[ -n $tests ]]; then
        [[ -x $tests ]] || { echo "there is no test program $tests" && return 1; }
        end_to_end=yes
    fi
    build_image "$image" "$kernel" "$tests" igb virtio_pci virtio_net veth || return 1
    # Only emulation: a nested KVM cannot be relied on to boot a stock kernel. An emulated timer comes late when the machine is busy,
    # and the kernel, which would find that out while it boots, gives up then: no_timer_check.
    machine=("${qemu_command[@]}" -accel 'tcg,thread=multi' -cpu max -M q35 -smp 4 -m 1G -no-reboot -nic none
        -pidfile "$steps_dir/qemu.pid"
        -kernel "$kernel/vmlinuz" -initrd "$image" -append "console=ttyS0 quiet panic=-1 oops=panic no_timer_check ipv6.disable=1 \
net.ifnames=0 wirecap.queues=$queues wirecap.zero_copy=$zero_copy wirecap.large_frames=$large_frames \
wirecap.end_to_end=$end_to_end wirecap.cases=$cases")
    mapfile -t -O "${#machine[@]}" machine < <(console_and_monitor)
    for attempt in 1 2 3; do
        boot_guest "$nic" "$queues" "$log" "${machine[@]}" || return 1
        # It was interrupted, and all is taken apart.
        [[ -e $image ]] || return 1
        if grep -q '^vm: begins' "$log"; then break; fi
        # None of wirecap has run yet: this is between the emulator and the kernel.
        echo "the guest died before the suite began (attempt $attempt of 3): $(how_qemu_ended); the last it said:"
        grep -a -v '^$' "$log" | tail -n 3
        ((attempt < 3)) || echo "is the cache damaged? It can be deleted, and is downloaded anew: $(vm_cache)"
        cp "$log" "$log-attempt-$attempt"
    done
    rm -f "$image" "$steps_dir/qemu.pid"
    guest_has_passed "$log"
}

# boot_guest NIC QUEUES LOG COMMAND…: has a guest run, until it switches itself off or its time is over.
boot_guest() {
    local nic=$1 queues=$2 log=$3 left=$((VM_SECONDS - (SECONDS - vm_begun))) limit
    shift 3
    ((left >= GUEST_SECONDS_LEAST)) || {
        echo "the guests before this one have used up the $VM_SECONDS s that all may take: WIRECAP_VM_SECONDS=1200 gives more"
        return 1
    }
    # In the foreground, so that whoever interrupts this interrupts QEMU, too.
    limit=(timeout --foreground --kill-after=10 "$left")
    # shellcheck disable=SC2046 # a list of words
    {
        case $nic in
            igb) "${limit[@]}" "$@" $(igb_devices) ;;
            virtio) as_root "${limit[@]}" vm/with-taps "$queues" "$@" $(virtio_devices "$queues") ;;
        esac
        echo "$?" >"$steps_dir/qemu.status"
    } </dev/null 2>&1 9>&- | sed -u 's/\r//g' | tee "$log" | worth_reading || true
}

# The guest's first serial port is its console, the second QEMU's own monitor: it can have a cable pulled out of a NIC.
console_and_monitor() {
    local socket=$steps_dir/qemu.monitor
    printf '%s\n' -display none -serial stdio \
        -chardev "socket,id=monitor,path=$socket,server=on,wait=off" -mon chardev=monitor,mode=control \
        -chardev "socket,id=guest,path=$socket" -serial chardev:guest
}

# Of a console: what the suite says, and why it fails.
worth_reading() {
    grep --line-buffered -a -A6 -e '^vm: ' -e 'panicked at' -e '^kernel: ' -e 'Kernel panic' |
        grep --line-buffered -v -e '^--$' -e '^vm: row ' -e '^\[[ .0-9]*\] \(ACPI: PM: Preparing\|reboot: \)' | sed -u 's/^\(.\{300\}\).*/\1/'
}

how_qemu_ended() {
    local status
    status=$(cat "$steps_dir/qemu.status" 2>/dev/null)
    case $status in
        0) echo "it has switched itself off" ;;
        124 | 137) echo "QEMU was killed, or its time was over (all guests have $VM_SECONDS s)" ;;
        *) echo "QEMU ended with status ${status:-unknown}" ;;
    esac
}

# QEMU ends well whatever has become of the guest: only its last words count.
guest_has_passed() {
    local end late
    late=$(sed '1,/^vm: end /d' "$1" | grep -a -e 'WARNING: ' -e 'BUG: ' -e 'Oops' -e 'Call Trace:' \
        -e 'general protection fault' -e 'refcount_t: ' -e 'unregister_netdevice: waiting' || true)
    [[ -z $late ]] || {
        echo "the kernel complained after the last case: $late; all it said is in $1"
        return 1
    }
    end=$(sed -n 's/^vm: end \([0-9]*\) of \([0-9]*\)$/\1 of \2/p' "$1")
    [[ -n $end && ${end% of *} == "${end#* of }" && ${end% of *} != 0 ]] || {
        echo "the guest did not pass: ${end:-it has not come to its end: $(how_qemu_ended)}; all it said is in $1"
        return 1
    }
}

# Each on a root port of its own: on one bus their virtual functions collide.
igb_devices() {
    local n
    for n in 0 1; do
        echo "-netdev hubport,id=net$n,hubid=1 -device pcie-root-port,id=port$n,chassis=$((n + 1)),slot=$((n + 1))"
        echo "-device igb,romfile=,bus=port$n,netdev=net$n,mac=52:54:00:00:00:0$((n + 1))"
    done
}

# iommu_platform: without it there is no zero-copy. The rest of the features are those that XDP cannot have.
virtio_devices() {
    local n features="mq=on,vectors=$((2 * $1 + 2)),rss=on,iommu_platform=on,disable-legacy=on,mrg_rxbuf=on"
    features+=",guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off"
    for n in 0 1; do
        echo "-netdev tap,id=net$n,ifname=tap$n,script=no,downscript=no,queues=$1,vhost=off"
        echo "-device virtio-net-pci,romfile=,netdev=net$n,mac=52:54:00:00:00:0$((n + 1)),$features"
    done
}
