# shellcheck shell=bash
# One guest: a machine with two connected NICs, which boots, runs the suite and switches itself off.

# The budget of all guests together, in seconds; their limit, for a busy machine; and the seconds that must be
# left to start a guest.
VM_BUDGET_SECONDS=600
VM_SECONDS=${WIRECAP_VM_SECONDS:-1800}
GUEST_SECONDS_MIN=30
# The seconds after which a guest is ended whose suite has not begun, whose console is silent, or that has not
# switched itself off. A case ends before such a silence: crates/wirecap-vm/src/watchdog.rs.
BOOT_SECONDS_MAX=240 SILENT_SECONDS_MAX=360 OFF_SECONDS_MAX=60

# run_guest NIC KERNEL QUEUES ZERO_COPY LARGE_FRAMES TESTS LOG [CASE,…]: fails unless the guest reports that
# all cases have passed. LARGE_FRAMES is what happens to frames larger than a cell
# (crates/wirecap-vm/src/boot.rs), TESTS an additional test program, or empty.
run_guest() {
    local nic=$1 kernel=$2 queues=$3 zero_copy=$4 large_frames=$5 tests=$6 log=$7 cases=${8:-} image machine attempt end_to_end=no
    image=$steps_dir/initramfs
    if [[ -n $tests ]]; then
        [[ -x $tests ]] || { echo "no test program $tests" && return 1; }
        end_to_end=yes
    fi
    # The test program makes interfaces of the other kinds.
    build_image "$image" "$kernel" "$tests" igb virtio_pci virtio_net veth bonding bridge ${tests:+macvlan tun} || return 1
    # Only emulation: nested KVM does not boot every stock kernel. On a busy machine an emulated timer
    # interrupts late, and the kernel gives up if it notices that while it boots: no_timer_check.
    machine=("${qemu_command[@]}" -accel 'tcg,thread=multi' -cpu max -M q35 -smp 4 -m 1G -no-reboot -nic none
        -pidfile "$steps_dir/qemu.pid"
        -kernel "$kernel/vmlinuz" -initrd "$image" -append "console=ttyS0 quiet panic=-1 oops=panic no_timer_check ipv6.disable=1 \
net.ifnames=0 wirecap.queues=$queues wirecap.zero_copy=$zero_copy wirecap.large_frames=$large_frames \
wirecap.end_to_end=$end_to_end wirecap.cases=$cases")
    mapfile -t -O "${#machine[@]}" machine < <(console_and_monitor)
    for attempt in 1 2 3; do
        boot_guest "$nic" "$queues" "$log" "${machine[@]}" || return 1
        # After an interruption, steps_clean has removed the image.
        [[ -e $image ]] || return 1
        is_unfit "$log" || break
        echo "the guest died before the suite began, or froze (attempt $attempt of 3): $(how_qemu_ended); its last lines:"
        grep -a -v '^$' "$log" | tail -n 3
        ((attempt < 3)) || echo "is the cache damaged? If you delete it, it is downloaded again: $(vm_cache)"
        cp "$log" "$log-attempt-$attempt"
    done
    rm -f "$image" "$steps_dir/qemu.pid"
    guest_has_passed "$log"
}

# boot_guest NIC QUEUES LOG COMMAND…: runs a guest until it switches itself off or time runs out.
boot_guest() {
    local nic=$1 queues=$2 log=$3 left=$((VM_SECONDS - (SECONDS - vm_begun))) limit watch
    shift 3
    ((left >= GUEST_SECONDS_MIN)) || {
        echo "earlier guests have used up the $VM_SECONDS s of all guests: WIRECAP_VM_SECONDS=$((2 * VM_SECONDS)) allows more"
        return 1
    }
    # In the foreground, so that an interruption reaches QEMU, too.
    limit=(timeout --foreground --kill-after=10 "$left")
    : >"$log"
    rm -f "$steps_dir/qemu.ended"
    end_late_guest "$log" 9>&- &
    watch=$!
    # shellcheck disable=SC2046 # a list of words
    {
        case $nic in
            igb) "${limit[@]}" "$@" $(igb_devices) ;;
            virtio) as_root "${limit[@]}" vm/with-taps "$queues" "$@" $(virtio_devices "$queues") ;;
        esac
        echo "$?" >"$steps_dir/qemu.status"
    } </dev/null 2>&1 9>&- | sed -u 's/\r//g' | tee "$log" | worth_reading || true
    kill "$watch" 2>/dev/null || true
    wait "$watch" || true
}

# is_unfit LOG: whether the emulator or the kernel is at fault: wirecap has not run yet, or the machine stood
# still with its watchdog, though no case had failed and the kernel did not say why.
is_unfit() {
    grep -q '^vm: begins' "$1" || return 0
    [[ -e $steps_dir/qemu.ended && -z $(complaints_in "$1") ]] && ! grep -q -e '^vm: end ' -e '^vm: case .* FAILED' "$1"
}

# end_late_guest LOG: ends a guest that does not boot, that freezes with all its processes, or that does not
# switch itself off.
end_late_guest() {
    local log=$1 begun=$SECONDS ended='' late
    while sleep 2 && [[ -d $steps_dir ]]; do
        if ! grep -q '^vm: begins' "$log"; then
            ((SECONDS - begun > BOOT_SECONDS_MAX)) || continue
            late="it had not booted after $BOOT_SECONDS_MAX s"
        elif grep -q '^vm: end ' "$log"; then
            # Not by silence: a kernel that is stuck may complain of it again and again.
            ended=${ended:-$SECONDS}
            ((SECONDS - ended > OFF_SECONDS_MAX)) || continue
            late="it had not switched itself off $OFF_SECONDS_MAX s after its last case"
        else
            (($(date +%s) - $(stat -c %Y "$log") > SILENT_SECONDS_MAX)) || continue
            late="it froze: its console was silent for more than $SILENT_SECONDS_MAX s"
        fi
        echo "the guest is ended: $late"
        echo "$late" >"$steps_dir/qemu.ended"
        # An emulator that does not answer its monitor ignores a polite signal, too.
        end_program "$steps_dir/qemu.pid"
        sleep 5
        end_program "$steps_dir/qemu.pid" KILL
        return
    done
}

# The guest's first serial port is its console, the second QEMU's monitor, through which the guest can unplug
# the cable of a NIC.
console_and_monitor() {
    local socket=$steps_dir/qemu.monitor
    printf '%s\n' -display none -serial stdio \
        -chardev "socket,id=monitor,path=$socket,server=on,wait=off" -mon chardev=monitor,mode=control \
        -chardev "socket,id=guest,path=$socket" -serial chardev:guest
}

# Filters a console: the reports of the suite, and the reasons of failures.
worth_reading() {
    grep --line-buffered -a -A6 -e '^vm: ' -e 'panicked at' -e '^kernel: ' -e 'Kernel panic' |
        grep --line-buffered -v -e '^--$' -e '^vm: row ' -e '^\[[ .0-9]*\] \(ACPI: PM: Preparing\|reboot: \)' | sed -u 's/^\(.\{300\}\).*/\1/'
}

how_qemu_ended() {
    local status
    cat "$steps_dir/qemu.ended" 2>/dev/null && return
    status=$(cat "$steps_dir/qemu.status" 2>/dev/null)
    case $status in
        0) echo "it switched itself off" ;;
        124 | 137) echo "QEMU was killed, or its time was over ($VM_SECONDS s for all guests)" ;;
        *) echo "QEMU ended with status ${status:-unknown}" ;;
    esac
}

# complaints_in LOG: the complaints of the kernel, by the words of crates/wirecap-vm/src/kernel_log.rs.
complaints_in() {
    grep -a -e 'WARNING: ' -e 'BUG: ' -e 'Oops' -e 'general protection fault' -e 'refcount_t: ' \
        -e 'unregister_netdevice: waiting' -e 'blocked for more than' -e 'Call Trace:' -e 'NETDEV WATCHDOG' "$1" || true
}

# QEMU succeeds however the guest fares: only the last lines of its console count.
guest_has_passed() {
    local end late failed
    late=$(complaints_in <(sed '1,/^vm: end /d' "$1"))
    [[ -z $late ]] || {
        step_because "the kernel complained after the last case"
        echo "the kernel complained after the last case: $late; the whole console is in $1"
        return 1
    }
    end=$(sed -n 's/^vm: end \([0-9]*\) of \([0-9]*\)$/\1 of \2/p' "$1")
    [[ -n $end && ${end% of *} == "${end#* of }" && ${end% of *} != 0 ]] || {
        failed=$(sed -n 's/^vm: case \(.*FAILED.*\)$/\1/p' "$1" | paste -s -d ,)
        [[ -n $end ]] || end="it did not finish: $(how_qemu_ended), after $(grep -a '^vm: case ' "$1" | tail -n 1)"
        step_because "${failed:-$end}"
        echo "the guest did not pass: $end; the whole console is in $1"
        return 1
    }
}

# Each NIC has its own root port: on one bus, their virtual functions collide.
igb_devices() {
    local n
    for n in 0 1; do
        echo "-netdev hubport,id=net$n,hubid=1 -device pcie-root-port,id=port$n,chassis=$((n + 1)),slot=$((n + 1))"
        echo "-device igb,romfile=,bus=port$n,netdev=net$n,mac=52:54:00:00:00:0$((n + 1))"
    done
}

# Zero-copy needs iommu_platform. The features that are off exclude XDP.
virtio_devices() {
    local n features="mq=on,vectors=$((2 * $1 + 2)),rss=on,iommu_platform=on,disable-legacy=on,mrg_rxbuf=on"
    features+=",guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off"
    for n in 0 1; do
        echo "-netdev tap,id=net$n,ifname=tap$n,script=no,downscript=no,queues=$1,vhost=off"
        echo "-device virtio-net-pci,romfile=,netdev=net$n,mac=52:54:00:00:00:0$((n + 1)),$features"
    done
}
