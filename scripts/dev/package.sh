# shellcheck shell=bash
# The Debian packages, which scripts/package puts together: what ./dev shows of them, and whether they work.

# The oldest C library that the package has to install on: that of Debian 12.
OLDEST_GLIBC=2.36

# warn_if_too_new FILE: a package that was built on a newer system does not install on Debian 12.
warn_if_too_new() {
    local needed
    needed=$(dpkg-deb --field "$1" Depends | sed -n 's/.*libc6 (>= \([0-9.]*\)).*/\1/p')
    if dpkg --compare-versions "$needed" gt "$OLDEST_GLIBC"; then
        warn "it needs glibc $needed, so it does not install on Debian 12: build it there for all systems"
    fi
}

# show_package FILE: where it is, what it needs, and what is in it.
show_package() {
    say "$1: $(size_mib "$1")"
    echo "depends on: $(dpkg-deb --field "$1" Depends)"
    dpkg-deb --contents "$1" | awk '$1 !~ /^d/ { sub(/^\./, "", $6); printf "%s %10d %s\n", $1, $3, $6 }'
}

# package_lane: packages of the program of the end-to-end tests: an optimised one takes minutes to build.
package_lane() {
    local directory
    directory=$(target_dir)/package-test
    step packages check_packages "$directory"
    if [[ $step_result == passed ]]; then package_steps "$directory"; fi
}

# check_packages DIRECTORY
check_packages() {
    mkdir -p "$1" &&
        cp "$(target_dir)/debug/wirecap" "$(target_dir)/debug/deps/libwirecap_pcap.so" "$1" &&
        split_debug "$1/wirecap" && split_debug "$1/libwirecap_pcap.so" &&
        scripts/package "$1/wirecap" "$1/libwirecap_pcap.so" "$1" -z1
}

# package_steps DIRECTORY: what Debian's policy says of the packages there, and whether they work where they
# can be tried: on the releases that WIRECAP_RELEASES names, by default on all.
package_steps() {
    local release reason version
    version=$(workspace_version)
    step lintian lintian --allow-root --fail-on error,warning "$1"/wirecap_"$version"_*.deb "$1"/wirecap-dbgsym_"$version"_*.deb
    for release in ${WIRECAP_RELEASES:-bookworm trixie noble}; do
        reason=$(scripts/package-check --missing "$release")
        can_be_root || reason='neither root nor sudo'
        if [[ -n $reason ]]; then
            step_cannot "package on $release" "$reason"
        else
            step "package on $release" as_root scripts/package-check "$1"/wirecap_"$version"_*.deb "$release"
            # It tries the services and an IDS, too, where that is possible.
            reason=$(as_root scripts/service-check --missing)
            [[ -z $reason ]] || step_cannot "services on $release" "$reason"
            reason=$(scripts/ids-check --missing "$release" "$(scripts/package-check --mirror "$release")")
            [[ -z $reason ]] || step_cannot "an IDS on $release" "$reason"
        fi
    done
}
