# shellcheck shell=bash
# The checks a change must pass, one function each.

lint_steps() {
    step tidy scripts/tidy
    step shellcheck check_shell
    step "manual pages" check_manual
    step completions check_completions
    if command -v systemd-analyze >/dev/null; then step "systemd units" check_units; else step_cannot "systemd units" "systemd-analyze is not installed"; fi
    if has_rustfmt; then step rustfmt cargo fmt --all --check; else step_cannot rustfmt "cargo fmt is not installed"; fi
    if has_clippy; then step clippy check_clippy; else step_cannot clippy "cargo clippy is not installed"; fi
}

check_shell() {
    # --check-sourced: with the scripts that they source.
    shellcheck --external-sources --check-sourced dev scripts/package &&
        shellcheck .ci/run scripts/tidy scripts/clean-namespaces scripts/book scripts/package-check scripts/service-check scripts/ids-check demo/*.sh vm/with-taps &&
        shellcheck dist/debian/postinst dist/debian/prerm dist/debian/postrm dist/debian/wirecap-setcap
}

# Checks the units of dist/systemd/, with an existing program in place of wirecap. systemd-analyze succeeds
# even if it warns.
check_units() {
    local directory unit said
    directory=$(mktemp -d)
    for unit in dist/systemd/*.service; do
        sed 's|^\(ExecStart=\)/usr/local/bin/wirecap|\1/bin/true|' "$unit" >"$directory/${unit##*/}"
    done
    said=$(systemd-analyze verify --man=no "$directory"/*.service 2>&1) || said+=" (failed)"
    rm -r "$directory"
    [[ -z $said ]] || { echo "$said" && return 1; }
}

# Checks the completions of each shell, and that bash and fish complete flags, values and interfaces.
check_completions() {
    local found
    zsh -n dist/completions/_wirecap && bash -n dist/completions/wirecap.bash && fish --no-execute dist/completions/wirecap.fish ||
        return 1
    for found in 'capture --fil|--filter-file' 'capture --mode |advanced' 'capture l|lo' 'replay -i |lo' 'inter|interfaces'; do
        completed_by_bash "${found%|*}" | grep -qxF -e "${found#*|}" || { echo "bash: wirecap ${found%|*}: no ${found#*|}" && return 1; }
        completed_by_fish "${found%|*}" | grep -qxF -e "${found#*|}" || { echo "fish: wirecap ${found%|*}: no ${found#*|}" && return 1; }
    done
}

# completed_by_bash WORDS: what bash completes the last of these words to, which may be empty.
completed_by_bash() {
    bash --norc -c '
        source dist/completions/wirecap.bash
        COMP_WORDS=(wirecap $1) COMP_LINE="wirecap $1"
        [[ $1 != *" " ]] || COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_POINT=${#COMP_LINE}
        _wirecap wirecap "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf "%s\n" "${COMPREPLY[@]}"' bash "$1"
}

completed_by_fish() {
    # shellcheck disable=SC2016 # fish expands it
    fish --no-config -c 'source dist/completions/wirecap.fish; complete --do-complete "wirecap $argv[1]"' "$1" | cut -f1
}

check_clippy() {
    cargo clippy --locked --workspace --all-targets -- -D warnings
}

check_book() {
    scripts/book "$(target_dir)/doc/book"
}

check_doc() {
    # Without the command: its pages would replace those of the library of the same name.
    RUSTDOCFLAGS="${RUSTDOCFLAGS:-} -D warnings" cargo doc --locked --workspace --exclude wirecap-cli --no-deps
}

# Compiles everything with the oldest Rust that can, unless that is the one in use: then all steps use it.
oldest_rust_step() {
    local version
    version=$(rust_minimum)
    if is_oldest_rust; then
        return
    elif need_toolchain "$version"; then
        step "Rust $version" check_oldest_rust "$version"
    else
        step_cannot "Rust $version" "$toolchain_missing"
    fi
}

# check_oldest_rust VERSION
check_oldest_rust() {
    CARGO_TARGET_DIR="$(target_dir)/oldest" cargo "+$1" check --locked --workspace --all-targets
}

unit_steps() {
    step "unit tests" cargo_test --lib --bins
    step "examples in the documentation" cargo_test --doc
}

check_e2e() {
    can_be_root || warn "neither root nor sudo: the end-to-end tests will SKIP what needs root"
    # Without promtool, one test skips its checks.
    (unpack_package prometheus "$(target_dir)/prometheus") || warn "promtool cannot be had"
    # Most of them wait most of the time.
    RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((2 * $(nproc)))}" cargo_test --no-fail-fast --test '*' --examples
}

# Checks the split on the program of the end-to-end tests: an optimised one would take minutes to build.
check_split() {
    local directory result=0
    directory=$(mktemp -d)
    cp "$(target_dir)/debug/wirecap" "$directory/wirecap" && split_debug "$directory/wirecap" && is_split "$directory/wirecap" || result=1
    rm -r "$directory"
    return "$result"
}

# cargo_test ARGUMENT…: runs `cargo test` on the workspace. Test programs run as root if possible; cargo
# itself does not.
cargo_test() {
    local runner=() limit=()
    # Without a terminal there is no Ctrl-C, so a test that hangs needs a limit.
    [[ -t 0 ]] || limit=(timeout --kill-after=10 1500)
    if ((EUID != 0)) && can_be_root; then
        runner=("$(runner_variable)=sudo env WIRECAP_SKIP_LOG=$WIRECAP_SKIP_LOG ${WIRECAP_NO_SKIP:+WIRECAP_NO_SKIP=1}")
    fi
    env "${runner[@]}" "${limit[@]}" cargo test --locked --workspace "$@"
}

# The name of the environment variable for the command with which cargo runs test programs.
runner_variable() {
    local host
    host=$(rustc -vV | sed -n 's/^host: //p')
    echo "CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$host")_RUNNER"
}

check_loom() {
    # A separate target directory: otherwise the flag would cause two rebuilds of everything per run.
    CARGO_TARGET_DIR="$(target_dir)/loom" RUSTFLAGS="${RUSTFLAGS:-} --cfg loom" CARGO_PROFILE_RELEASE_LTO=off \
        cargo test --locked -p wirecap-core --release --lib loom
}

miri_steps() {
    if need_toolchain nightly miri; then
        step "miri: core" check_miri_core
        step "miri: rings" check_miri_rings
        step "miri: packet memory" check_miri_memory
    else
        step_cannot "miri: core" "$toolchain_missing"
        step_cannot "miri: rings" "$toolchain_missing"
        step_cannot "miri: packet memory" "$toolchain_missing"
    fi
}

check_miri_core() {
    run_miri -p wirecap-core --lib
}

check_miri_rings() {
    run_miri -p wirecap-sys --lib xsk::
}

check_miri_memory() {
    run_miri -p wirecap-sys --lib memory::live_pool
}

run_miri() {
    # Without isolation, so that tests can read the clock.
    MIRIFLAGS="${MIRIFLAGS:-} -Zmiri-disable-isolation" cargo +nightly miri test --locked "$@"
}

# fuzz_steps SECONDS: runs every fuzz target for that long.
fuzz_steps() {
    local target
    if ! need_toolchain nightly; then
        step_cannot fuzz "$toolchain_missing"
    elif ! need_cargo_fuzz; then
        step_cannot fuzz "cargo-fuzz could not be installed"
    else
        for target in $(cargo +nightly fuzz list); do
            step "fuzz: $target" check_fuzz "$target" "$1"
        done
    fi
}

need_cargo_fuzz() {
    cargo fuzz --version >/dev/null 2>&1 && return
    say "cargo install cargo-fuzz: it runs the fuzz targets"
    cargo install cargo-fuzz --locked
}

# check_fuzz TARGET SECONDS
check_fuzz() {
    # The profile of what is installed would take four times as long to build, for no better search.
    CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
        cargo +nightly fuzz run "$1" -- -max_total_time="$2" -verbosity=1 -print_final_stats=1
}

# mutants_steps [CRATE…]: `core` or `wirecap-core`, for instance; by default the crates whose tests must
# notice every mutant.
mutants_steps() {
    local crate
    (($# > 0)) || set -- core filter file
    if ! need_cargo_mutants; then
        step_cannot mutants "cargo-mutants could not be installed"
        return
    fi
    for crate; do
        step "mutants: ${crate#wirecap-}" check_mutants "wirecap-${crate#wirecap-}"
    done
}

need_cargo_mutants() {
    cargo mutants --version >/dev/null 2>&1 && return
    say "cargo install cargo-mutants: it mutates the code and runs the tests"
    cargo install cargo-mutants --locked
}

# check_mutants PACKAGE: runs the tests of this package alone, since each package tests its own promises.
# .cargo/mutants.toml lists the mutants that may survive, with reasons.
check_mutants() {
    cargo mutants --package "$1" --output "$(target_dir)/mutants/$1"
}
