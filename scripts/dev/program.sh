# shellcheck shell=bash
# The program that is installed: small, with its debug lines in a file beside it.

# build_release ARGUMENT…: `cargo build --release`, then the lines of `wirecap` apart. Cargo keeps the whole program under another
# name, and puts it back with every build.
build_release() {
    cargo build --release "$@"
    split_debug "$(target_dir)/release/wirecap"
}

# split_debug PROGRAM: the debug lines go to PROGRAM.debug; names of functions stay in PROGRAM, too, which has the name of that file
# in it, so that backtraces, gdb and perf find it beside the program, or under /usr/lib/debug.
split_debug() {
    local program=$1 small
    small=$(mktemp "$program.XXXXXX")
    objcopy --only-keep-debug --compress-debug-sections=zlib "$program" "$program.debug"
    objcopy --strip-debug --add-gnu-debuglink="$program.debug" "$program" "$small"
    chmod --reference="$program" "$small"
    # A name for other contents: cargo's own file has the same inode.
    mv "$small" "$program"
}

size_mib() {
    awk -v bytes="$(stat --format=%s "$1")" 'BEGIN { printf "%.1f MiB", bytes / 1048576 }'
}
