# shellcheck shell=bash
# Packages of Debian and Ubuntu: missing ones are named, then installed.

apt_is_fresh=no

# need PACKAGE…: installs the missing ones.
need() {
    local missing=() package
    for package; do
        installed "$package" || missing+=("$package")
    done
    ((${#missing[@]} == 0)) || install_packages "${missing[@]}"
}

# can_need PACKAGE…: as need, but returns the failure, for packages that a chore can do without.
can_need() {
    (need "$@")
}

installed() {
    [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

install_packages() {
    local packages
    packages=$(printf '%s\n' "$@" | sort -u | tr '\n' ' ')
    have apt-get || die "this system has no apt-get: install the packages that Debian calls $packages"
    refresh_apt
    say "installing missing packages: $packages"
    # --no-remove: installed packages stay; the user resolves a conflict.
    # shellcheck disable=SC2086 # a list of words
    apt_get install --yes --no-install-recommends --no-remove $packages ||
        die "apt-get could not install: $packages"
}

# Updates the package lists, once per run.
refresh_apt() {
    [[ $apt_is_fresh == no ]] || return 0
    say "apt-get update: to install missing packages"
    apt_get update || die "apt-get update failed: is the network there?"
    apt_is_fresh=yes
}

# unpack_package PACKAGE DIRECTORY: unpacks a package there, unless that was done before. For programs whose
# package would start a service if it were installed.
unpack_package() {
    local package=$1 directory=$2 download
    [[ ! -d $directory ]] || return 0
    refresh_apt
    say "unpacking $package into $directory: installed, it would start a service"
    download=$(mktemp -d)
    # As root: apt's own user may not write here.
    (cd "$download" && apt-get --quiet --quiet --option APT::Sandbox::User=root download "$package") ||
        die "apt-get could not download $package"
    mkdir -p "$(dirname "$directory")"
    dpkg-deb --extract "$download"/*.deb "$directory.new"
    rm -r "$download"
    mv "$directory.new" "$directory"
}

# Prints only errors.
apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get --quiet --quiet "$@" >/dev/null
}

# The version that apt would install; empty if there is none.
apt_candidate() {
    LC_ALL=C apt-cache policy "$1" 2>/dev/null | awk '$1 == "Candidate:" && $2 != "(none)" { print $2 }'
}
