# shellcheck shell=bash
# How ./dev speaks, and how it becomes root.

# Bold, if somebody looks.
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

# Whether as_root can work. Asks for a password only where somebody can type it.
can_be_root() {
    ((EUID == 0)) || { have sudo && { sudo -n true 2>/dev/null || { [[ -t 0 ]] && sudo -v; }; }; }
}

# as_root COMMAND…: runs it as root, through sudo if need be.
as_root() {
    if ((EUID == 0)); then
        "$@"
    elif can_be_root; then
        sudo -- "$@"
    else
        die "this needs root, and sudo is not there or refuses: $*"
    fi
}

target_dir() {
    readlink -m "${CARGO_TARGET_DIR:-target}"
}
