# shellcheck shell=bash
# The guests, their cases, and the table of their results.
source vm/fetch.sh
source vm/image.sh
source vm/guest.sh

# For building guests and the programs inside. tcpdump depends on libpcap, whose package has different names.
VM_PACKAGES=(cpio ethtool iproute2 tcpdump util-linux xz-utils zstd)

# vm_steps [CASE…]: runs all cases, or those whose names contain one of the given words.
vm_steps() {
    local cases took
    cases=$(IFS=,; echo "$*")
    # One run at a time: runs share the cache and the consoles.
    if ! { mkdir -p "$(vm_cache)" && true >>"$(vm_cache)/lock"; } 2>/dev/null; then
        step_cannot "virtual machines" "$(vm_cache) is not writable: WIRECAP_VM_CACHE=DIRECTORY names another place"
        return
    fi
    exec 9>"$(vm_cache)/lock"
    if ! flock --nonblock 9; then
        say "another run of the virtual machines is in progress; waiting for its end"
        flock --timeout 1800 9 || { step_cannot "virtual machines" "another run holds $(vm_cache)/lock" && return; }
    fi
    # The consoles of the guests, kept after the run to look for reasons.
    vm_consoles=$(vm_cache)/consoles
    rm -rf "$vm_consoles" "$(vm_cache)"/*.part "$(vm_cache)"/*.all
    mkdir -p "$vm_consoles"
    if [[ $(uname -m) != x86_64 ]]; then
        step_cannot "virtual machines" "they need an x86-64 machine"
    elif ! can_need "${VM_PACKAGES[@]}" 9>&-; then
        step_cannot "virtual machines" "their packages could not be installed: ${VM_PACKAGES[*]}"
    elif ! fetch_qemu 9>&-; then
        step_cannot "virtual machines" "$(vm_cache) has no QEMU with igb, and the download failed: see above"
    elif step "vm: programs for the guests" build_for_guests "$@" 9>&- && [[ ${step_result:-} == passed ]]; then
        fetch_kernels 9>&-
        vm_begun=$SECONDS
        vm_guests "$cases"
        took=$((SECONDS - vm_begun))
        say "the guests took $took s"
        ((took <= VM_BUDGET_SECONDS)) || warn "that is more than their budget of $VM_BUDGET_SECONDS s: is the machine busy?"
        vm_table
    fi
    exec 9>&-
}

# build_for_guests [CASE…]
build_for_guests() {
    programs_for_guests && are_cases "$@"
}

# Builds three of the end-to-end tests, and with them the programs of their packages. As in ./dev e2e, they
# are tests of the whole workspace: cargo chooses the features of the dependencies for all that it builds at
# once, and compiles them anew for another choice.
programs_for_guests() {
    cargo test --locked --workspace --no-run --test capture --test end_to_end --test cases
}

# are_cases WORD…: whether each is part of the name of a case.
are_cases() {
    local part names
    names=$("$(target_dir)/debug/wirecap-guest" cases) || return 1
    for part; do
        grep -q -F -e "$part" <<<"$names" || {
            echo "no case has $part in its name; the cases are"
            tr '\n' ' ' <<<"$names" | fold -s -w 120
            echo
            echo "and boot and aftermath, which always run"
            return 1
        }
    done
}

# The end-to-end tests of the library, as a program.
library_tests() {
    programs_for_guests 2>&1 | sed -n 's/^ *Executable .*(\(.*\/capture-.*\))$/\1/p'
}

# Kernels by purpose: names of packages as regular expressions, preferred ones first, and the release that has
# them. A guest is skipped if the distribution has no such kernel.
fetch_kernels() {
    local -A suites patterns
    local which
    case $(os_release ID) in
        debian)
            patterns=([new]='6\.18\.[0-9]+\+deb13-amd64 (6\.(1[4-9]|[2-9][0-9])|[7-9]\.[0-9]+)\..*deb1[3-9]-amd64'
                [without]='6\.12\..*-cloud-amd64' [old]='6\.1\..*-cloud-amd64')
            suites=([new]=trixie-backports [without]=trixie [old]=bookworm)
            ;;
        ubuntu)
            patterns=([new]='(6\.(1[4-9]|[2-9][0-9])|[7-9]\.[0-9]+)\..*-generic' [without]='6\.8\..*-generic'
                [old]='5\.15\..*-generic')
            suites=([new]=noble-updates [without]=noble [old]=jammy)
            ;;
    esac
    for which in new without old; do
        # A failure is reported when it is the guest's turn.
        # shellcheck disable=SC2086 # a list of words
        fetch_kernel "$(vm_cache)/kernel-$which" "${patterns[$which]:-}" ${suites[$which]:-} || true
    done
}

vm_guests() {
    guest igb new 8 yes generic "$1"
    guest virtio new 4 yes copy "$1"
    guest virtio without 4 no copy "$1"
    guest virtio old 4 no lost "$1"
}

# guest NIC KERNEL QUEUES ZERO_COPY LARGE_FRAMES CASES
guest() {
    local nic=$1 which=$2 queues=$3 zero_copy=$4 large_frames=$5 cases=$6 name kernel tests=''
    case $which in
        new) name="vm: $nic, zero-copy" ;;
        without) name="vm: $nic, a kernel without zero-copy" ;;
        old) name="vm: $nic, an old kernel" ;;
    esac
    kernel=$(vm_cache)/kernel-$which
    if [[ ! -e $kernel/vmlinuz ]]; then
        step_cannot "$name" "$(vm_cache) has no such kernel, and the download failed: see above"
    elif [[ $nic == virtio && ! -e /dev/net/tun ]]; then
        step_cannot "$name" "its NICs are connected by /dev/net/tun, which this machine lacks"
    elif [[ $nic == virtio ]] && ! can_be_root; then
        step_cannot "$name" "its NICs are connected in a network namespace, which needs root or sudo"
    else
        [[ $which != old ]] || tests=$(library_tests | grep . || echo "of the library")
        step "$name" run_guest "$nic" "$kernel" "$queues" "$zero_copy" "$large_frames" "$tests" "$vm_consoles/$nic-$which" "$cases"
    fi
}

# One row for each guest that finished.
vm_table() {
    echo
    echo "| driver | kernel | queues | mode by wirecap | mode by the kernel (XDP_OPTIONS) | cases passed | packets captured | accounts closed |"
    echo "|---|---|---|---|---|---|---|---|"
    find "$vm_consoles" -type f | sort | xargs -r sed -n 's/^vm: row \(.*\)$/| \1 |/p'
    echo
}
