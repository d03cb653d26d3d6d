# shellcheck shell=bash
# The guests there are, what each shall show, and the table of what they have shown.
source vm/fetch.sh
source vm/image.sh
source vm/guest.sh

# What guests are made with, and the programs in them; with tcpdump comes libpcap, under whatever name the distribution has it.
VM_PACKAGES=(cpio ethtool iproute2 tcpdump util-linux xz-utils zstd)

# vm_steps [CASE…]: with cases, only those whose names have one of these parts.
vm_steps() {
    local cases
    cases=$(IFS=,; echo "$*")
    # What the guests have said on their consoles; the last run's stay for whoever looks for a reason.
    vm_consoles=$(vm_cache)/consoles
    rm -rf "$vm_consoles"
    mkdir -p "$vm_consoles"
    if [[ $(uname -m) != x86_64 ]]; then
        step_cannot "virtual machines" "they are of x86-64, and this machine is not"
    elif ! fetch_qemu; then
        step_cannot "virtual machines" "there is no QEMU with igb in $(vm_cache), and none could be downloaded"
    else
        step "vm: what runs inside" build_for_guests
        vm_guests "$cases"
        vm_table
    fi
}

build_for_guests() {
    cargo build --locked -p wirecap-vm -p wirecap-cli && cargo test --locked --no-run -p wirecap --test capture
}

# The end-to-end tests of the library, as a program.
library_tests() {
    cargo test --locked --no-run -p wirecap --test capture 2>&1 | sed -n 's/^ *Executable .*(\(.*\))$/\1/p'
}

# Kernels by what they are for: names of packages as regular expressions, those to be preferred first, and the release that has
# them. Where the distribution has none, the guest is skipped.
vm_guests() {
    local -A suites patterns
    case $(os_release ID) in
        debian)
            patterns=([new]='6\.18\.[0-9]+\+deb13-amd64 6\.(1[4-9]|[2-9][0-9])\..*deb1[3-9]-amd64'
                [without]='6\.12\..*-cloud-amd64' [old]='6\.1\..*-cloud-amd64')
            suites=([new]=trixie-backports [without]=trixie [old]=bookworm)
            ;;
        ubuntu)
            patterns=([new]='6\.(1[4-9]|[2-9][0-9])\..*-generic' [without]='6\.8\..*-generic' [old]='5\.15\..*-generic')
            suites=([new]=noble-updates [without]=noble [old]=jammy)
            ;;
    esac
    guest igb new 8 yes "$1"
    guest virtio new 4 yes "$1"
    guest virtio without 4 no "$1"
    guest virtio old 4 no "$1"
}

# guest NIC KERNEL QUEUES ZERO_COPY CASES
guest() {
    local nic=$1 which=$2 queues=$3 zero_copy=$4 cases=$5 name kernel tests=''
    case $which in
        new) name="vm: $nic, zero-copy" ;;
        without) name="vm: $nic, a kernel without zero-copy" ;;
        old) name="vm: $nic, an old kernel" ;;
    esac
    kernel=$(vm_cache)/kernel-$which
    # shellcheck disable=SC2086 # a list of words
    if ! fetch_kernel "$kernel" "${patterns[$which]:-}" ${suites[$which]:-}; then
        step_cannot "$name" "no such kernel is in $(vm_cache), and none could be downloaded"
    elif [[ $nic == virtio && ! -e /dev/net/tun ]]; then
        step_cannot "$name" "this machine has no /dev/net/tun, over which its NICs are joined"
    elif [[ $nic == virtio ]] && ! can_be_root; then
        step_cannot "$name" "its NICs are joined in a network namespace, which takes root or sudo"
    else
        [[ $which != old ]] || tests=$(library_tests)
        step "$name" run_guest "$nic" "$kernel" "$queues" "$zero_copy" "$tests" "$vm_consoles/$nic-$which" "$cases"
    fi
}

# One row for each guest that has come to its end.
vm_table() {
    echo
    echo "| driver | kernel | queues | mode, says wirecap | mode, says the kernel (XDP_OPTIONS) | cases passed | packets captured | accounts closed |"
    echo "|---|---|---|---|---|---|---|---|"
    find "$vm_consoles" -type f | sort | xargs -r sed -n 's/^vm: row \(.*\)$/| \1 |/p'
    echo
}
