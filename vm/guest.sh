# shellcheck shell=bash
# One guest: a machine with two NICs that are joined, which boots, runs the suite and switches itself off.

# How long a guest may take, in seconds. Emulated, and on a machine that does much else.
GUEST_SECONDS=420

# run_guest NIC KERNEL QUEUES ZERO_COPY TESTS LOG [CASE,…]: fails unless the guest says that all cases have passed. TESTS is a test
# program that it runs, too, or empty.
run_guest() {
    local nic=$1 kernel=$2 queues=$3 zero_copy=$4 tests=$5 log=$6 cases=${7:-} image machine
    image=$(mktemp)
    build_image "$image" "$kernel" "$tests" igb virtio_pci virtio_net veth
    # Only emulation: a nested KVM cannot be relied on to boot a stock kernel.
    machine=("${qemu_command[@]}" -accel 'tcg,thread=multi' -cpu max -M q35 -smp 4 -m 1G -nographic -no-reboot -nic none
        -kernel "$kernel/vmlinuz" -initrd "$image" -append "console=ttyS0 quiet panic=-1 oops=panic ipv6.disable=1 \
net.ifnames=0 wirecap.queues=$queues wirecap.zero_copy=$zero_copy wirecap.cases=$cases")
    # shellcheck disable=SC2046 # a list of words
    case $nic in
        igb) timeout "$GUEST_SECONDS" "${machine[@]}" $(igb_devices) ;;
        virtio) as_root timeout "$GUEST_SECONDS" vm/with-taps "$queues" "${machine[@]}" $(virtio_devices "$queues") ;;
    esac </dev/null 2>&1 | sed -u 's/\r//g' | tee "$log" | worth_reading || true
    rm -f "$image"
    guest_has_passed "$log"
}

# Of a console: what the suite says, and why it fails.
worth_reading() {
    grep --line-buffered -a -A6 -e '^vm: ' -e 'panicked at' -e '^kernel: ' -e 'Kernel panic' |
        grep --line-buffered -v -e '^--$' -e '^vm: row ' | sed -u 's/^\(.\{300\}\).*/\1/'
}

# QEMU ends well whatever has become of the guest: only its last words count.
guest_has_passed() {
    local end
    end=$(sed -n 's/^vm: end \([0-9]*\) of \([0-9]*\)$/\1 of \2/p' "$1")
    [[ -n $end && ${end% of *} == "${end#* of }" && ${end% of *} != 0 ]] || {
        echo "the guest did not pass: ${end:-it has not come to its end}; all it said is in $1"
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
