# shellcheck shell=bash
# The initramfs of a guest: the suite as its init, the programs it runs, and the drivers.

# build_image OUTPUT KERNEL TESTS MODULE…: KERNEL is a directory of fetch_kernel, TESTS a test program to run
# inside, or empty.
build_image() {
    local output=$1 kernel=$2 tests=$3 root=$steps_dir/root program
    shift 3
    rm -rf "$root"
    mkdir -p "$root"/{bin,dev,modules,proc,run,sys,tests,tmp} || return 1
    strip -o "$root/init" "$(target_dir)/debug/wirecap-guest" || return 1
    strip -o "$root/bin/wirecap" "$(target_dir)/debug/wirecap" || return 1
    for program in ip ethtool; do
        cp -L "$(PATH=$PATH:/usr/sbin:/sbin command -v "$program")" "$root/bin/$program" || return 1
    done
    if [[ -n $tests ]]; then
        mkdir -p "$root"/{etc,var}
        ln -s ../run "$root/var/run"
        strip -o "$root/tests/capture" "$tests" || return 1
    fi
    copy_libraries "$root" || return 1
    add_modules "$root" "$kernel" "$@" || return 1
    (cd "$root" && find . -print0 | cpio --null --create --format=newc --owner=0:0 --quiet) >"$output" || return 1
    rm -rf "$root"
}

# All libraries that the programs are linked with, and libpcap, which wirecap loads itself; each in the same
# place as on the host.
copy_libraries() {
    local root=$1 pcap library
    pcap=$(/sbin/ldconfig -p | awk '/libpcap\.so\.(0\.8|1) / { print $NF; exit }')
    shopt -s nullglob
    ldd "$root"/init "$root"/{bin,tests}/* ${pcap:+"$pcap"} | grep -o '/[^ :)]*' | grep '\.so' | sort -u |
        while read -r library; do
            cp -L --parents "$library" "$root" || return 1
        done || return 1
    [[ -z $pcap ]] || cp -L --parents "$pcap" "$root"
}

# Modules and their dependencies, numbered in the order in which they are loaded.
add_modules() {
    local root=$1 kernel=$2 module
    shift 2
    modules_done=' '
    modules_count=100
    for module; do
        add_module "$root" "$kernel" "$module" || return 1
    done
}

# add_module ROOT KERNEL NAME: a module without a file is built into the kernel.
add_module() {
    local root=$1 kernel=$2 name=$3 file target dependency
    [[ $modules_done != *" $name "* ]] || return 0
    modules_done+="$name "
    file=$(find "$kernel/modules" -name "${name//_/[_-]}.ko*" -print -quit)
    [[ -n $file ]] || return 0
    target=$root/tmp/$name.ko
    case $file in
        *.xz) xz -dc "$file" ;;
        *.zst) zstd -dqc "$file" ;;
        *) cat "$file" ;;
    esac >"$target" || return 1
    for dependency in $(module_depends "$target"); do
        add_module "$root" "$kernel" "${dependency//-/_}" || return 1
    done
    mv "$target" "$root/modules/$modules_count-$name.ko"
    modules_count=$((modules_count + 1))
}

module_depends() {
    tr '\0' '\n' <"$1" | sed -n 's/^depends=//p' | tr ',' '\n'
}
