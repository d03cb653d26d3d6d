# shellcheck shell=bash
# Output of ./dev, and commands as root.

# Bold on a terminal.
if [[ -t 1 && -z ${NO_COLOR:-} ]]; then bold=$'\e[1m' red=$'\e[1;31m' plain=$'\e[0m'; else bold='' red='' plain=''; fi

say() {
    printf '%s\n' "${bold}dev: $*${plain}"
}

warn() {
    printf '%s\n' "${red}dev: $*${plain}" >&2
}

die() {
    warn "$*"
    exit 1
}

have() {
    command -v "$1" >/dev/null 2>&1
}

# Whether as_root can work. Asks for a password only on a terminal.
can_be_root() {
    ((EUID == 0)) || { have sudo && { sudo -n true 2>/dev/null || { [[ -t 0 ]] && sudo -v; }; }; }
}

# as_root COMMAND…: runs the command as root, through sudo if necessary.
as_root() {
    if ((EUID == 0)); then
        "$@"
    elif can_be_root; then
        sudo -- "$@"
    else
        die "this needs root, and sudo is missing or refuses: $*"
    fi
}

target_dir() {
    readlink -m "${CARGO_TARGET_DIR:-target}"
}
