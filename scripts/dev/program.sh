# shellcheck shell=bash
# The program as it is installed: its debug lines are in a file beside it.

# build_release ARGUMENT…: runs `cargo build --release`, then splits `wirecap`. Each build restores the whole
# program, which cargo keeps under another name.
build_release() {
    cargo build --release "$@"
    split_debug "$(target_dir)/release/wirecap"
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

size_mib() {
    awk -v bytes="$(stat --format=%s "$1")" 'BEGIN { printf "%.1f MiB", bytes / 1048576 }'
}
