# shellcheck shell=bash
# QEMU and kernels for the virtual machines, from packages of the distribution that this machine runs,
# including its other releases. The packages are downloaded and unpacked into the cache, never installed: the
# machine does not change.
#
#   the machine's own apt sources ─► lists with other suites, in the cache ─► .deb ─► cache/qemu, cache/kernel-NAME

vm_cache() {
    realpath -m "${WIRECAP_VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wirecap-vm}"
}

# os_release FIELD
os_release() {
    sed -n "s/^$1=\"\{0,1\}\([^\"]*\)\"\{0,1\}$/\1/p" /etc/os-release
}

# The archive that this machine was installed from, as "ADDRESS KEYRING"; the keyring may be missing.
archive_of_machine() {
    local codename file
    codename=$(os_release VERSION_CODENAME)
    for file in /etc/apt/sources.list.d/*.sources; do
        [[ -e $file ]] && grep -v '^#' "$file" | archive_of_stanza "$codename"
    done
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [[ -e $file ]] && archive_of_line "$codename" <"$file"
    done
}

# In the deb822 format: the first stanza that names the release itself.
archive_of_stanza() {
    awk -v codename="$1" -v RS= -v FS='\n' '{
        uris = key = suites = ""
        for (i = 1; i <= NF; i++) {
            split($i, field, /: */)
            value = substr($i, length(field[1]) + 2)
            if (field[1] == "URIs") uris = value
            if (field[1] == "Suites") suites = " " value " "
            if (field[1] == "Signed-By") key = value
        }
        split(uris, each, " ")
        if (index(suites, " " codename " ")) print each[1], key
    }'
}

# In the one-line format: deb [signed-by=KEYRING] ADDRESS SUITE COMPONENT…
archive_of_line() {
    awk -v codename="$1" '$1 == "deb" {
        key = ""
        if (match($0, /signed-by=[^] ]*/)) key = substr($0, RSTART + 10, RLENGTH - 10)
        sub(/\[[^]]*\] */, "")
        if ($3 == codename) print $2, key
    }'
}

# use_suites SUITE…: from here on, vm_apt_get and vm_apt_cache see these suites only.
use_suites() {
    local address key suite name
    read -r address key < <(archive_of_machine) || return 1
    name=$(printf '%s_' "$@")
    vm_lists=$(vm_cache)/apt/${name%_}
    mkdir -p "$vm_lists"/{lists,cache/archives}/partial || return 1
    for suite; do
        echo "deb ${key:+[signed-by=$key] }$address $suite main"
    done >"$vm_lists/sources.list" || return 1
    vm_apt_config >"$vm_lists/apt.conf" || return 1
    # Without translations and icons.
    vm_apt_get update -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
        -o Acquire::Retries=3 -o APT::Update::Error-Mode=any
}

# The configuration of the machine, such as a proxy, without its hooks: some of them clear the machine's own
# cache, which another apt may be using.
vm_apt_config() {
    apt-config dump | grep -v -E '^Dir::(Etc|Cache)|::(Pre|Post)-Invoke|::Pre-Install-Pkgs|::Post-Invoke-(Success|Stats)'
    cat <<EOF
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "$vm_lists/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::trustedparts "/etc/apt/trusted.gpg.d";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::Lists "$vm_lists/lists";
Dir::Cache "$vm_lists/cache";
Dir::Cache::archives "archives/";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
APT::Sandbox::User "root";
Debug::NoLocking "1";
EOF
}

vm_apt_get() {
    APT_CONFIG=$vm_lists/apt.conf apt-get --quiet --quiet "$@"
}

vm_apt_cache() {
    APT_CONFIG=$vm_lists/apt.conf apt-cache "$@"
}

# unpack DIRECTORY PACKAGE…: downloads packages and unpacks them into a directory, which exists only if all of
# it worked.
unpack() {
    local directory=$1
    shift
    rm -rf "$directory.part" "$directory"
    if unpack_part "$directory.part" "$@"; then
        mv "$directory.part" "$directory"
    else
        # A part is useless and fills the disk.
        rm -rf "$directory.part"
        return 1
    fi
}

unpack_part() {
    local part=$1 package
    shift
    mkdir -p "$part/deb" || return 1
    (cd "$part/deb" && vm_apt_get download "$@") || return 1
    for package in "$part"/deb/*.deb; do
        dpkg-deb --extract "$package" "$part" || return 1
    done
    rm -rf "$part/deb" "$part/usr/share/doc"
}

# fetch_qemu: sets `qemu_command` to a QEMU with the NICs, installed or in the cache. Old versions have no
# igb; 7.2 corrupts the memory of its guests.
fetch_qemu() {
    local root codename release=()
    qemu_command=(qemu-system-x86_64)
    if qemu_is_fit; then return; fi
    root=$(vm_cache)/qemu
    # With its libraries, modules and firmware from the cache: it does not start with the modules of another
    # QEMU that is installed.
    qemu_command=(env "LD_LIBRARY_PATH=$root/lib/x86_64-linux-gnu:$root/usr/lib/x86_64-linux-gnu"
        "QEMU_MODULE_DIR=$root/usr/lib/x86_64-linux-gnu/qemu"
        "$root/usr/bin/qemu-system-x86_64" -L "$root/usr/share/qemu" -L "$root/usr/share/seabios")
    if qemu_is_fit; then return; fi
    codename=$(os_release VERSION_CODENAME)
    [[ $codename != bookworm ]] || release=(-t bookworm-backports)
    say "downloading QEMU into $(vm_cache)"
    use_suites "$codename" "${release[@]:1}" || return 1
    # shellcheck disable=SC2046 # a list of words
    unpack "$root" $(packages_of "${release[@]}" qemu-system-x86) || return 1
    if qemu_is_fit; then return; fi
    "${qemu_command[@]}" -device help 2>&1 >/dev/null | head -n 5 >&2
    return 1
}

# What apt would install for a package: the package, and its dependencies that this machine lacks.
packages_of() {
    vm_apt_get --simulate --no-install-recommends install "$@" |
        sed -n 's/^Inst \([^ ]*\) .*(\([^ ]*\) .*/\1=\2/p'
}

qemu_is_fit() {
    "${qemu_command[@]}" -device help 2>/dev/null | grep -q '"igb"'
}

# The selection of drivers that keep_of_kernel makes: a cached kernel with another one is downloaded again.
VM_DRIVERS=3

# fetch_kernel DIRECTORY PATTERNS SUITE…: puts `vmlinuz` and `modules` into the directory, from the newest
# package that matches the first pattern with a match.
fetch_kernel() {
    local directory=$1 patterns=$2 package
    shift 2
    [[ $(cat "$directory/drivers" 2>/dev/null) != "$VM_DRIVERS" ]] || return 0
    (($# > 0)) || return 1
    say "downloading a kernel of $* into $(vm_cache)"
    use_suites "$@" || return 1
    package=$(kernel_package "$patterns") || return 1
    # shellcheck disable=SC2046 # a list of words
    unpack "$directory.all" "$package" $(parts_of_kernel "$package") || return 1
    keep_of_kernel "$directory.all" "$directory"
}

kernel_package() {
    local pattern package
    for pattern in $1; do
        package=$(vm_apt_cache pkgnames linux-image- | grep -E "^linux-image-$pattern\$" | sort -V | tail -n 1)
        [[ -z $package ]] || { echo "$package" && return; }
    done
    return 1
}

# Some distributions have separate packages of modules.
parts_of_kernel() {
    vm_apt_cache show --no-all-versions "$1" | sed -n 's/^Depends: //p' | tr ',' '\n' | tr '|' '\n' |
        sed -n 's/^ *\(linux-\(modules\|binary\)-[^ ]*\).*/\1/p'
}

# Keeps the kernel and the drivers that guests may need.
keep_of_kernel() {
    local all=$1 kernel=$2 part=$2.part
    rm -rf "$part" "$kernel"
    mkdir -p "$part/modules"
    cp "$all"/boot/vmlinuz-* "$part/vmlinuz" || return 1
    find "$all" \( -path '*/drivers/net/ethernet/intel/igb/*' -o -path '*/drivers/virtio/*' -o -path '*/net/core/*' \
        -o -path '*/drivers/net/*failover*' -o -path '*/drivers/net/virtio_net*' -o -path '*/drivers/net/veth*' \
        -o -path '*/drivers/net/tun.*' -o -path '*/drivers/net/macvlan.*' -o -path '*/net/bridge/bridge.*' \
        -o -path '*/net/802/stp.*' -o -path '*/net/llc/llc.*' -o -path '*/drivers/dca/*' \
        -o -path '*/drivers/net/bonding/*' -o -path '*/net/tls/tls.*' -o -path '*/drivers/i2c/algos/*' -o -path '*/drivers/i2c/i2c-core*' \) \
        -name '*.ko*' -exec cp -t "$part/modules" {} + || return 1
    # A kernel without its drivers is useless.
    compgen -G "$part/modules/virtio_net.ko*" >/dev/null || return 1
    echo "$VM_DRIVERS" >"$part/drivers"
    rm -rf "$all"
    mv "$part" "$kernel"
}
