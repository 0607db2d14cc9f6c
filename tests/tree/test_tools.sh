#!/usr/bin/env bash
# labels: long
# The commands of the README's set-up say how far they are and fail with one clear line: without root and sudo, without a network,
# without what they need. Programs that would change this system are replaced by ones that behave as they do in that case.
set -u
source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
fail() { echo "FAILED: $*"; failed=$((failed + 1)); }
has() { # WHAT FILE TEXT
    grep -qF -- "$3" "$2" || fail "$1 does not say '$3': $(cat "$2")"
}

# ---- tools/progress
"$source/tools/progress" thing sh -c 'echo hidden; sleep 0.3' >"$folder/out" 2>"$folder/err" || fail "progress: exit $?"
grep -qxE "   thing: done, [0-9]+ s" "$folder/out" && [ "$(wc -l <"$folder/out")" = 1 ] && [ ! -s "$folder/err" ] || fail "progress prints $(cat "$folder/out" "$folder/err")"
"$source/tools/progress" thing sh -c 'echo first; echo http://server.invalid/x >&2; exit 3' >"$folder/out" 2>"$folder/err"
[ $? = 3 ] || fail "progress loses the exit status"
[ "$(cat "$folder/err")" = "$(printf 'first\n(server)')" ] && [ ! -s "$folder/out" ] || fail "a failure prints $(cat "$folder/out" "$folder/err")"
"$source/tools/progress" thing sh -c 'echo "[3/12] x"; sleep 11' >"$folder/out" & # a line every ten seconds, with how far it is
"$source/tools/progress" more sh -c 'echo pmstatus:gcc:41.7:text; sleep 11' >"$folder/two"
wait
has progress "$folder/out" "   thing: 25 %, 1"
has progress "$folder/two" "   more: installed 41 %, 1"
"$source/tools/progress" thing sleep 60 &
started=$!
for _ in $(seq 100); do
    sleeping=$(pgrep -P $started -x -f "sleep 60" | head -1)
    [ -z "$sleeping" ] || break
    sleep 0.1
done
kill $started
wait $started
[ $? = 143 ] || fail "progress ended by SIGTERM: exit $?"
for _ in $(seq 100); do
    grep -qs sleep "/proc/$sleeping/comm" || break
    sleep 0.1
done
[ -n "$sleeping" ] && ! grep -qs sleep "/proc/$sleeping/comm" || fail "what progress started goes on without it"

# ---- tools/install, tools/build: a system on which nothing is installed
mkdir "$folder/bin"
stand_in() { printf '#!/bin/bash\n%s\n' "$2" >"$folder/bin/$1" && chmod +x "$folder/bin/$1"; }
for tool in bash sh env sed grep cat dirname mktemp rm tail tr sleep basename printf; do
    ln -s "$(command -v $tool)" "$folder/bin/$tool"
done
install() { # the words of tools/install, on that system
    env -i PATH="$folder/bin" "$source/tools/install" "$@" >"$folder/out" 2>"$folder/err"
}
install build && fail "a system without dpkg"
has "without dpkg" "$folder/err" "this system has no Debian packages; needed are: gcc"
stand_in dpkg-query 'exit 1'
stand_in id 'echo 1000'
install build && fail "no root, no sudo"
has "no root, no sudo" "$folder/err" "tools/install: as root or with sudo, please: apt-get install gcc"
[ "$(wc -l <"$folder/err")" = 1 ] || fail "not one line: $(cat "$folder/err")"
stand_in sudo 'echo "sorry, you may not" >&2; exit 1'
install build && fail "sudo refuses"
has "sudo refuses" "$folder/err" "somebody who may has to run: apt-get install gcc"
stand_in id 'echo 0'
stand_in apt-get 'echo "E: Temporary failure resolving" >&2; exit 100'
install build && fail "no network"
has "no network" "$folder/err" "the package lists cannot be fetched: is there a network"
has "no network" "$folder/err" "Temporary failure resolving"
stand_in apt-get 'for word; do [ "$word" != update ] || exit 0; done; echo "E: Unable to locate package gcc"; exit 100'
install build && fail "a package that is not there"
has "a package that is not there" "$folder/err" "tools/install: apt-get install failed for: gcc"
# apt closes the file that it writes its status to for packages' scripts: one that prints fails if that is its standard output
stand_in apt-get 'for word; do case $word in APT::Status-Fd=*) at=${word#*=} ;; esac; done
echo pmstatus:x:50.0:y >&$at || exit 1
eval "exec $at>&-"
echo "Setting up x" || exit 1
echo "a warning" >&2 || exit 1'
install build || fail "apt-get works: $(cat "$folder/err")"
has "apt-get works" "$folder/out" "   packages: done, "
install nothing && fail "a list that there is not"
has "a list that there is not" "$folder/err" "no list 'nothing' (build, test, full, python, check, slurm)"
stand_in dpkg-query 'echo "ii "'
stand_in apt-get 'exit 100'
install build test || fail "all there: $(cat "$folder/err")"
has "all there" "$folder/out" "all there"
env -i PATH="$folder/bin" "$source/tools/build" "$folder/b" >"$folder/out" 2>"$folder/err" && fail "a build without cmake"
has "a build without cmake" "$folder/err" "tools/build: cmake is missing: tools/install build brings what is needed"

# ---- tools/try, of a tree whose tools only say that they were called
mkdir -p "$folder/tree/tools" "$folder/tree/build" "$folder/tree/examples"
cp "$source/tools/try" "$folder/tree/tools/"
for tool in tools/install tools/build build/slackline; do
    printf '#!/bin/bash\necho "called: %s $*"\n' $tool >"$folder/tree/$tool" && chmod +x "$folder/tree/$tool"
done
"$folder/tree/tools/try" --set iterations=3 >"$folder/out" 2>&1 || fail "tools/try: $(cat "$folder/out")"
has tools/try "$folder/out" "[1/3] packages"
has tools/try "$folder/out" "[3/3] slackline train examples/slow-link.yaml --set iterations=3"
has tools/try "$folder/out" "Open in a browser: runs/slow-link/report.html"
"$folder/tree/tools/try" --out elsewhere >"$folder/out" 2>&1
has "tools/try --out" "$folder/out" "Open in a browser: elsewhere/report.html"
printf '#!/bin/bash\nexit 1\n' >"$folder/tree/tools/build"
"$folder/tree/tools/try" >"$folder/out" 2>&1 && fail "tools/try goes on after a failed build"
! grep -q "build/slackline\|Done" "$folder/out" || fail "tools/try after a failed build: $(cat "$folder/out")"

# ---- tools/test, of a tree with tests that fail once or always
mkdir -p "$folder/tree/tests"
cp "$source/tools/test" "$folder/tree/tools/"
printf '#!/bin/bash\n' | tee "$folder/tree/tools/build" >"$folder/tree/tests/apart"
chmod +x "$folder/tree/tools/build" "$folder/tree/tests/apart"
tried() { # EXIT LAST_LINE TEST...: each test is "NAME COMMAND"
    local expected=$1 last=$2
    rm -rf "$folder/tree/build" && mkdir -p "$folder/tree/build"
    for test in "${@:3}"; do
        echo "add_test(${test%% *} bash -c [==[cd '$folder/tree/build' && ${test#* }]==])" >>"$folder/tree/build/CTestTestfile.cmake"
    done
    "$folder/tree/tools/test" >"$folder/out" 2>&1
    [ $? = "$expected" ] && [ "$(tail -1 "$folder/out")" = "$last" ] || fail "tools/test of $*: $(cat "$folder/out")"
}
tried 0 "2 passed, 0 failed, 0 skipped" "good true" "busy [ -e ok ] || { touch ok; false; }"
has "a test that passes by itself" "$folder/out" "passed when tried again: release: busy"
tried 0 "1 passed, 0 failed, 0 skipped" "busy [ -e ok2 ] || { [ ! -e ok ] || touch ok2; touch ok; false; }"
tried 1 "1 passed, 1 failed, 0 skipped" "good true" "bad [ -e ok3 ] || { [ ! -e ok2 ] || touch ok3; [ ! -e ok ] || touch ok2; touch ok; false; }"
has "a test that fails" "$folder/out" "failed: release: bad"
! grep -q "passed when" "$folder/out" || fail "a test that always fails: $(cat "$folder/out")"
tried 1 "0 passed, 11 failed, 0 skipped" "a false" "b false" "c false" "d false" "e false" "f false" "g false" "h false" "i false" "j false" "k [ -e ok ] || { touch ok; false; }"
! grep -q "again" "$folder/out" || fail "eleven tests that fail are tried again: $(cat "$folder/out")"
tried 1 "0 passed, 0 failed, 0 skipped"

# ---- tools/test --sanitize: each build has its tests, clang's is only built; calm tests come last, when nothing is built
cat >"$folder/tree/tools/build" <<'E'
#!/bin/bash
mkdir -p "$1"
[ "${1##*/}" != "${broken-}" ] || exit 1
sleep 0.2
touch "$1/built"
test() { echo "add_test(base_$1 bash -c [==[$2]==])"; }
{
    test first "[ ! -e '$1/last' ]"
    test last "touch '$1/last' && [ -e '${1%/*}/build-clang/built' ]"
    test threads true
    echo "set_tests_properties(base_last PROPERTIES LABELS calm)"
    echo "set_tests_properties(base_threads PROPERTIES LABELS threads)"
} >"$1/CTestTestfile.cmake"
E
sanitized() { # EXIT LAST_LINE [VARIABLE=VALUE]
    rm -rf "$folder"/tree/build*
    env "${@:3}" "$folder/tree/tools/test" --sanitize --no-torch >"$folder/out" 2>&1
    [ $? = "$1" ] && [ "$(tail -1 "$folder/out")" = "$2" ] || fail "tools/test --sanitize ${*:3}: $(cat "$folder/out")"
}
sanitized 0 "7 passed, 0 failed, 0 skipped"
sanitized 1 "4 passed, 1 failed, 0 skipped" broken=build-address
has "a build for the address sanitizer that fails" "$folder/out" "build of address"
sanitized 1 "6 passed, 1 failed, 0 skipped" broken=build-thread
sanitized 1 "4 passed, 1 failed, 0 skipped" broken=build
echo "$failed failed"
[ $failed = 0 ]
