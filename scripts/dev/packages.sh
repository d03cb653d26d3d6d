# shellcheck shell=bash
# Packages of Debian and Ubuntu: what a chore misses is named, then installed.

apt_is_fresh=no

# need PACKAGE…: installs those that are not there.
need() {
    local missing=() package
    for package; do
        installed "$package" || missing+=("$package")
    done
    ((${#missing[@]} == 0)) || install_packages "${missing[@]}"
}

# can_need PACKAGE…: the same, for what a chore can do without.
can_need() {
    (need "$@")
}

installed() {
    [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

install_packages() {
    local packages
    packages=$(printf '%s\n' "$@" | sort -u | tr '\n' ' ')
    have apt-get || die "this system has no apt-get: install yourself what Debian calls $packages"
    refresh_apt
    say "installing packages this chore needs and this machine misses: $packages"
    # --no-remove: what is here stays; a conflict is the user's to solve.
    # shellcheck disable=SC2086 # a list of words
    apt_get install --yes --no-install-recommends --no-remove $packages ||
        die "apt-get could not install: $packages"
}

# Reads the package lists anew, once a run.
refresh_apt() {
    [[ $apt_is_fresh == no ]] || return 0
    say "apt-get update: to install what is missing"
    apt_get update || die "apt-get update failed: is the network there?"
    apt_is_fresh=yes
}

# Says nothing but what goes wrong.
apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get --quiet --quiet "$@" >/dev/null
}

# Version that apt would install, empty if there is none.
apt_candidate() {
    LC_ALL=C apt-cache policy "$1" 2>/dev/null | awk '$1 == "Candidate:" && $2 != "(none)" { print $2 }'
}
