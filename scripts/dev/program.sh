# shellcheck shell=bash
# The program as it is installed: its debug lines are in a file beside it.

# The program as it is installed is smaller, also by Rust 1.85, whose code is larger than that of newer
# versions (14.4 MiB).
MAX_PROGRAM_MIB=15

# build_release ARGUMENT…: runs `cargo build --release`, then splits `wirecap`. Each build restores the whole
# program, which cargo keeps under another name.
build_release() {
    local program
    program=$(target_dir)/release/wirecap
    cargo build --release "$@"
    split_debug "$program"
    is_split "$program"
    (($(stat --format=%s "$program") < MAX_PROGRAM_MIB << 20)) ||
        die "$program has $(size_mib "$program"): what made it larger than $MAX_PROGRAM_MIB MiB?"
}

# is_split PROGRAM: fails unless the debug lines are in PROGRAM.debug, and PROGRAM names that file.
is_split() {
    local sections
    sections=$(objdump --section-headers "$1")
    if [[ $sections == *.debug_info* || $sections != *.gnu_debuglink* ]]; then
        warn "$1 has its debug lines, or no link to them"
        return 1
    fi
    [[ $(objdump --section-headers "$1.debug") == *.debug_line* ]] || { warn "$1.debug has no debug lines" && return 1; }
}

# split_debug PROGRAM: moves the debug lines to PROGRAM.debug and links PROGRAM to it, so that backtraces, gdb
# and perf find it beside the program or under /usr/lib/debug. PROGRAM keeps the names of its functions.
split_debug() {
    local program=$1 small
    small=$(mktemp "$program.XXXXXX")
    objcopy --only-keep-debug --compress-debug-sections=zlib "$program" "$program.debug"
    objcopy --strip-debug --add-gnu-debuglink="$program.debug" "$program" "$small"
    chmod --reference="$program" "$small"
    # Replace, do not overwrite: cargo's own file has the same inode.
    mv "$small" "$program"
}

workspace_version() {
    sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml
}

size_mib() {
    awk -v bytes="$(stat --format=%s "$1")" 'BEGIN { printf "%.1f MiB", bytes / 1048576 }'
}
