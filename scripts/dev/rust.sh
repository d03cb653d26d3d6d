# shellcheck shell=bash
# A Rust toolchain that is new enough: the installed one, else the distribution's.

# Each line: the compiler, cargo, rustfmt and clippy under the names of one family of packages. Debian 12 has
# rustc-web (its rustc is too old), Debian 13 rustc, Ubuntu 24.04 packages with the version in their name.
rust_families() {
    local version
    echo rustc cargo rustfmt rust-clippy
    echo rustc-web cargo-web rustfmt-web rust-web-clippy
    apt-cache pkgnames rustc- | sed -n 's/^rustc-\(1\.[0-9]*\)$/\1/p' | sort -rV | while read -r version; do
        echo "rustc-$version cargo-$version rustfmt-$version rust-$version-clippy"
    done
}

rust_minimum() {
    sed -n 's/^rust-version *= *"\(.*\)"/\1/p' Cargo.toml
}

# need_rust: ensures that `cargo` and `rustc` are new enough from here on.
need_rust() {
    use_rust && return
    say "Rust $(rust_minimum) or newer is not installed: looking for a package"
    refresh_apt
    local family
    if family=$(choose_family); then
        # shellcheck disable=SC2086 # a list of words
        install_packages $family
    elif [[ -n $(apt_candidate rustup) ]]; then
        install_packages rustup
        say "rustup default stable: to download a Rust toolchain"
        rustup default stable
    else
        die "no package has Rust $(rust_minimum) or newer: install it as described at https://rustup.rs"
    fi
    use_rust || die "Rust is installed but does not run, or is older than $(rust_minimum)"
}

# Puts the first suitable toolchain in front of PATH.
use_rust() {
    local directory
    while read -r directory; do
        if new_enough "$directory/cargo" && new_enough "$directory/rustc"; then
            export PATH="$directory:$PATH"
            return 0
        fi
    done < <(rust_directories)
    return 1
}

rust_directories() {
    have cargo && dirname "$(command -v cargo)"
    echo "${CARGO_HOME:-$HOME/.cargo}/bin"
    find /usr/lib -maxdepth 1 -name 'rust-1.*' 2>/dev/null | sort -rV | sed 's|$|/bin|'
}

# new_enough PROGRAM: whether `PROGRAM --version` prints "name VERSION …" with a version that the workspace
# accepts.
new_enough() {
    local name version rest
    [[ -x $1 ]] && read -r name version rest < <("$1" --version 2>/dev/null) || return 1
    : "$name" "$rest"
    at_least "$version"
}

at_least() {
    [[ $(printf '%s\n' "$(rust_minimum)" "$1" | sort -V | head -n 1) == "$(rust_minimum)" ]]
}

# The first family whose compiler and cargo are new enough, with those of its tools that exist.
choose_family() {
    local compiler cargo tools tool
    while read -r compiler cargo tools; do
        at_least "$(apt_candidate "$compiler")" || continue
        [[ -n $(apt_candidate "$cargo") ]] || continue
        echo "$compiler $cargo"
        for tool in $tools; do
            [[ -z $(apt_candidate "$tool") ]] || echo "$tool"
        done
        return 0
    done < <(rust_families)
    return 1
}

# need_rust_tools: installs rustfmt and clippy, if the toolchain in use has them.
need_rust_tools() {
    has_rustfmt && has_clippy && return
    if cargo +stable --version >/dev/null 2>&1; then
        say "rustup component add rustfmt clippy: to check the format and lint"
        rustup component add rustfmt clippy || true
        return
    fi
    local compiler cargo tools tool
    while read -r compiler cargo tools; do
        if ! installed "$compiler" || ! installed "$cargo"; then continue; fi
        for tool in $tools; do
            [[ -z $(apt_candidate "$tool") ]] || need "$tool"
        done
    done < <(rust_families)
}

has_rustfmt() {
    cargo fmt --version >/dev/null 2>&1
}

has_clippy() {
    cargo clippy --version >/dev/null 2>&1
}

# need_toolchain NAME [COMPONENT]: installs a toolchain with the component if needed; on failure,
# `toolchain_missing` has the reason.
toolchain_missing=''
need_toolchain() {
    local name=$1 component=${2:-}
    if ! have rustup; then
        toolchain_missing="rustup (https://rustup.rs) is not installed, and only it has other toolchains"
        return 1
    fi
    cargo "+$name" ${component:+"$component"} --version >/dev/null 2>&1 && return
    say "rustup toolchain install $name${component:+ with $component}: this chore needs that toolchain"
    rustup toolchain install "$name" --profile minimal ${component:+--component "$component" --component rust-src} && return
    toolchain_missing="rustup could not install the toolchain $name${component:+ with $component}"
    return 1
}

# is_oldest_rust: whether the toolchain in use is of the oldest version that compiles wirecap.
is_oldest_rust() {
    [[ $(rustc --version) == "rustc $(rust_minimum)."* ]]
}
