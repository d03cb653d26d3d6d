# shellcheck shell=bash
# Steps run one after the other, timed and counted, even after one has failed; a summary lists them.

# The directory of all files of a run; the output of the steps; a line for each step that has ended: result,
# seconds, name.
steps_dir='' steps_output='' steps_list=''
# Lines of each failed step, and of each failed test, that the summary repeats.
LAST_LINES=25 TEST_LINES=12

skips_forbidden() {
    [[ -n ${WIRECAP_NO_SKIP:-} || ${CI:-} == true ]]
}

steps_begin() {
    steps_dir=$(mktemp -d)
    trap steps_clean EXIT
    # Some programs succeed when they are interrupted, and then the shell would continue.
    trap 'exit 130' INT
    steps_output=$steps_dir/output steps_list=$steps_dir/list
    touch "$steps_output" "$steps_list"
    # Tests append a line for each skip, even as another user.
    export WIRECAP_SKIP_LOG=$steps_dir/skipped
    : >"$WIRECAP_SKIP_LOG"
    chmod 755 "$steps_dir"
    chmod 666 "$WIRECAP_SKIP_LOG"
    if skips_forbidden; then export WIRECAP_NO_SKIP=1; fi
}

# end_program FILE [SIGNAL]: ends the program that wrote its process id to FILE, steps_dir/NAME.pid, and has
# this path among its arguments.
end_program() {
    local pid signal=${2:-TERM}
    pid=$(cat "$1" 2>/dev/null || (as_root cat "$1") 2>/dev/null) || return 0
    grep -q -s -F "$1" "/proc/$pid/cmdline" || return 0
    kill -"$signal" "$pid" 2>/dev/null || (as_root kill -"$signal" "$pid") || true
}

# Runs on interruption, too.
steps_clean() {
    local file
    for file in "$steps_dir"/*.pid; do
        end_program "$file"
    done
    rm -rf "$steps_dir" 2>/dev/null || (as_root rm -rf "$steps_dir") || true
}

# step_because TEXT: why the step that runs fails, in a few words for the summary.
step_because() {
    echo "$1" >"$steps_list.reason"
}

# step NAME COMMAND…: sets step_result to "passed" or "FAILED".
step() {
    local name=$1 start=$SECONDS result begun reason
    step_result=''
    rm -f "$steps_list.reason"
    shift
    begun=$(wc -l <"$steps_output")
    say "── $name"
    if "$@" 2>&1 | tee -a "$steps_output"; then
        result=passed
    else
        result=FAILED
        warn "FAILED: $name"
        {
            echo "── the last lines of: $name"
            tail -n +$((begun + 1)) "$steps_output" | tail -n "$LAST_LINES"
            tail -n +$((begun + 1)) "$steps_output" | failed_tests
        } >>"$steps_dir/failures"
        reason=$(cat "$steps_list.reason" 2>/dev/null || tail -n +$((begun + 1)) "$steps_output" | names_of_failed_tests)
        name+=${reason:+: ${reason:0:300}}
    fi
    step_result=$result
    printf '%-8s %5d s  %s\n' "$result" $((SECONDS - start)) "$name" >>"$steps_list"
}

# The names of the tests that failed, in one line.
names_of_failed_tests() {
    sed -n 's/^---- \(.*\) std\(out\|err\) ----$/\1/p' | sort -u | paste -s -d ' '
}

# What each test that failed printed first, from the output of cargo's test runs.
failed_tests() {
    awk -v lines="$TEST_LINES" '
        /^---- .* std(out|err) ----$/ { left = lines + 1; print "" }
        /^(stack backtrace:|failures:|test result: .*)$/ { left = 0 }
        left-- > 0 && NF
    '
}

# step_cannot NAME REASON: skips a check that cannot run here.
step_cannot() {
    local result=SKIPPED
    if skips_forbidden; then
        result=FAILED
        warn "FAILED: $1 cannot be skipped here: $2"
    else
        warn "SKIPPED: $1: $2"
    fi
    printf '%-8s %5d s  %s: %s\n' "$result" 0 "$1" "$2" >>"$steps_list"
}

# steps_beside LANE…: runs functions that run steps, all of them at the same time. Their output is mixed; the
# summary lists them lane by lane.
steps_beside() {
    local lane pids=()
    for lane; do
        steps_lane "$lane" &
        pids+=($!)
    done
    for lane; do
        # A lane succeeds even if its steps fail; its list has the failures.
        wait "${pids[0]}" || printf '%-8s %5s s  %s\n' FAILED '?' "$lane: ended early" >>"$steps_list"
        pids=("${pids[@]:1}")
        cat "$steps_dir/output.$lane" >>"$steps_output"
        cat "$steps_dir/list.$lane" >>"$steps_list"
    done
}

steps_lane() {
    local steps_output=$steps_dir/output.$1 steps_list=$steps_dir/list.$1
    trap - EXIT
    touch "$steps_output" "$steps_list"
    "$1"
}

# Prints the summary; fails if a step failed.
steps_end() {
    local skipped failed
    skipped=$(wc -l <"$WIRECAP_SKIP_LOG")
    failed=$(count_steps FAILED)
    echo
    [[ ! -e $steps_dir/failures ]] || cat "$steps_dir/failures"
    say "summary, $SECONDS s in all"
    sed 's/^/  /' "$steps_list"
    if ((skipped > 0)); then
        warn "$skipped tests or parts of tests were SKIPPED:"
        sed 's/^/  /' "$WIRECAP_SKIP_LOG" >&2
    fi
    test_counts "$skipped"
    echo "steps: $(count_steps passed) passed, $failed failed, $(count_steps SKIPPED) skipped"
    ((failed == 0))
}

# count_steps RESULT
count_steps() {
    grep -c "^$1 " "$steps_list" || true
}

# The totals that cargo's test runs reported.
test_counts() {
    awk -v skipped="$1" '
        /^test result: / { gsub(/;/, ""); passed += $4; failed += $6; ignored += $8 }
        END { if (passed + failed) printf "tests: %d passed, %d failed, %d skipped\n", passed, failed, skipped + ignored }
    ' "$steps_dir/output"
}
