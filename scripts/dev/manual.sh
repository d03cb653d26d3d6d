# shellcheck shell=bash
# The manual pages: those of the commands are generated, the others are written in Markdown.

# manual NAME: a page that is written in Markdown. Not by pandoc's own template, which asks for fonts that
# terminals lack: groff 1.23 warns about them each time the page is shown.
manual() {
    pandoc --standalone --template=docs/man/page.template --to man "docs/man/$1.md"
}

# Checks the manual pages as man-db and as mandoc read them.
check_manual() {
    local directory page result=0
    directory=$(mktemp -d)
    cp docs/man/*.1 "$directory"
    for page in docs/man/*.md; do
        page=${page##*/}
        manual "${page%.md}" >"$directory/${page%.md}" || result=1
        # Emphasis that pandoc did not recognise.
        ! grep -Hn '\*' "$directory/${page%.md}" || result=1
    done
    for page in "$directory"/*; do
        check_page "$page" || result=1
    done
    rm -r "$directory"
    return "$result"
}

# check_page FILE: no warning of groff, and of mandoc only that a date is missing, and that pandoc begins
# sections by a paragraph. Versions of groff before 1.23 do not warn about fonts that terminals lack.
check_page() {
    local said
    said=$(
        LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=100 man --warnings=w --encoding=UTF-8 --local-file "$1" 2>&1 >/dev/null
        mandoc -T lint -W warning "$1" | grep -v 'missing date, using\|skipping paragraph macro: PP after SH'
        grep -no '\\f\[[^]]*\]\|\\f([^ ][^ ]\|\\f[^[(]\|\.ftr .*' "$1" |
            grep -v ':\\f\(\[\(R\|I\|B\|BI\|\)\]\|[RIBP]\|(BI\)$' | sed "s|^|${1##*/}: a font that terminals lack: line |"
        true
    )
    [[ -z $said ]] || { echo "$said" && return 1; }
}
