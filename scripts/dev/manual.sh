# shellcheck shell=bash
# The manual pages: those of the commands are generated, the others are written in Markdown.

# manual NAME: a page that is written in Markdown.
manual() {
    pandoc --standalone --to man "docs/man/$1.md"
}

# Checks the manual pages as man-db and as mandoc read them.
check_manual() {
    local directory page result=0
    directory=$(mktemp -d)
    cp docs/man/*.1 "$directory"
    for page in docs/man/*.md; do
        page=${page##*/}
        manual "${page%.md}" >"$directory/${page%.md}" || result=1
    done
    for page in "$directory"/*; do
        check_page "$page" || result=1
    done
    rm -r "$directory"
    return "$result"
}

# check_page FILE: no warning of groff, and of mandoc only that a date is missing, and that pandoc begins
# sections by a paragraph.
check_page() {
    local said
    said=$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=100 man --warnings --encoding=UTF-8 --local-file "$1" 2>&1 >/dev/null)
    said+=$(mandoc -T lint -W warning "$1" | grep -v 'missing date, using\|skipping paragraph macro: PP after SH' || true)
    [[ -z $said ]] || { echo "$said" && return 1; }
}
