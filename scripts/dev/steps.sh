# shellcheck shell=bash
# Steps run one after the other, timed and counted, even after one has failed; a summary lists them.

step_lines=()
steps_passed=0 steps_failed=0 steps_skipped=0
steps_dir=''
# Lines of each failed step that the summary repeats.
LAST_LINES=25

skips_forbidden() {
    [[ -n ${WIRECAP_NO_SKIP:-} || ${CI:-} == true ]]
}

steps_begin() {
    steps_dir=$(mktemp -d)
    trap steps_clean EXIT
    # Some programs succeed when they are interrupted, and then the shell would continue.
    trap 'exit 130' INT
    : >"$steps_dir/output"
    # Tests append a line for each skip, even as another user.
    export WIRECAP_SKIP_LOG=$steps_dir/skipped
    : >"$WIRECAP_SKIP_LOG"
    chmod 755 "$steps_dir"
    chmod 666 "$WIRECAP_SKIP_LOG"
    if skips_forbidden; then export WIRECAP_NO_SKIP=1; fi
}

# Runs on interruption, too: ends programs that wrote their process id to steps_dir/NAME.pid and have that path among their arguments.
steps_clean() {
    local file pid
    for file in "$steps_dir"/*.pid; do
        pid=$(cat "$file" 2>/dev/null || (as_root cat "$file") 2>/dev/null) || continue
        grep -q -s -F "$file" "/proc/$pid/cmdline" || continue
        kill "$pid" 2>/dev/null || (as_root kill "$pid") || true
    done
    rm -rf "$steps_dir" 2>/dev/null || (as_root rm -rf "$steps_dir") || true
}

# step NAME COMMAND…: sets step_result to "passed" or "FAILED".
step() {
    local name=$1 start=$SECONDS result begun
    step_result=''
    shift
    begun=$(wc -l <"$steps_dir/output")
    say "── $name"
    if "$@" 2>&1 | tee -a "$steps_dir/output"; then
        result=passed
        steps_passed=$((steps_passed + 1))
    else
        result=FAILED
        steps_failed=$((steps_failed + 1))
        warn "FAILED: $name"
        {
            echo "── the last lines of: $name"
            tail -n +$((begun + 1)) "$steps_dir/output" | tail -n "$LAST_LINES"
        } >>"$steps_dir/failures"
    fi
    step_result=$result
    step_lines+=("$(printf '%-8s %5d s  %s' "$result" $((SECONDS - start)) "$name")")
}

# step_cannot NAME REASON: skips a check that cannot run here.
step_cannot() {
    local result=SKIPPED
    if skips_forbidden; then
        result=FAILED
        steps_failed=$((steps_failed + 1))
        warn "FAILED: $1 cannot be skipped here: $2"
    else
        steps_skipped=$((steps_skipped + 1))
        warn "SKIPPED: $1: $2"
    fi
    step_lines+=("$(printf '%-8s %5d s  %s: %s' "$result" 0 "$1" "$2")")
}

# Prints the summary; fails if a step failed.
steps_end() {
    local skipped
    skipped=$(wc -l <"$WIRECAP_SKIP_LOG")
    echo
    [[ ! -e $steps_dir/failures ]] || cat "$steps_dir/failures"
    say "summary, $SECONDS s in all"
    printf '  %s\n' "${step_lines[@]}"
    if ((skipped > 0)); then
        warn "$skipped tests or parts of tests were SKIPPED:"
        sed 's/^/  /' "$WIRECAP_SKIP_LOG" >&2
    fi
    test_counts "$skipped"
    echo "steps: $steps_passed passed, $steps_failed failed, $steps_skipped skipped"
    ((steps_failed == 0))
}

# The totals that cargo's test runs reported.
test_counts() {
    awk -v skipped="$1" '
        /^test result: / { gsub(/;/, ""); passed += $4; failed += $6; ignored += $8 }
        END { if (passed + failed) printf "tests: %d passed, %d failed, %d skipped\n", passed, failed, skipped + ignored }
    ' "$steps_dir/output"
}
