#!/usr/bin/env bash
# The library as a user gets it: installed, found by pkg-config, compiled as C and C++, run; only slackline_ is visible.
set -u
build=$1 source=$2
for tool in cc pkg-config cmake nm; do
    command -v $tool >/dev/null || { echo "skipped: $tool is missing"; exit 77; }
done
if grep -q '^SL_SANITIZE:.*=\(ON\|thread\)' "$build/CMakeCache.txt"; then
    echo "skipped: a library built with sanitizers is not linked into plain programs"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

cmake --install "$build" --prefix "$folder/usr" >"$folder/log" 2>&1 || { cat "$folder/log"; fail "install"; }
config=$(find "$folder/usr" -name slackline.pc)
[ -n "$config" ] || fail "no slackline.pc"
# the prefix that was configured is not the one installed to here
flags() { PKG_CONFIG_PATH=$(dirname "$config") pkg-config --define-variable=prefix="$folder/usr" "$@" slackline; }
libraries=$(dirname "$(find "$folder/usr" -name 'libslackline.so')")
strict="-Wall -Wextra -Wpedantic -Wconversion -Werror"

cc -std=c11 $strict -I"$folder/usr/include" "$source/examples/library/plan.c" -L"$libraries" -lslackline -o "$folder/plan" ||
    fail "the example does not compile"
flags --libs | grep -q -- "-lslackline" || fail "pkg-config does not name the library"
said=$(LD_LIBRARY_PATH=$libraries "$folder/plan") || fail "the example fails: $said"
echo "$said" | head -1 | grep -q "410.0 ms, bound 410.0 ms, gap 0.00 %" || fail "the example says: $said"

# statically, without the shared library in sight
mkdir "$folder/static" && cp "$libraries/libslackline.a" "$folder/static/"
cc -std=c11 -I"$folder/usr/include" "$source/examples/library/plan.c" -L"$folder/static" -lslackline -lyaml -ljansson -lm -lpthread \
    -o "$folder/static/plan" || fail "the archive does not link"
[ "$("$folder/static/plan" | head -1)" = "$(echo "$said" | head -1)" ] || fail "the archive plans otherwise"

if command -v g++ >/dev/null; then
    printf '#include <slackline/slackline.h>\nint main() { return slackline_version()[0] == 0; }\n' >"$folder/plan.cc"
    g++ -std=c++17 $strict -I"$folder/usr/include" "$folder/plan.cc" -L"$libraries" -lslackline -o "$folder/cpp" || fail "C++"
    LD_LIBRARY_PATH=$libraries "$folder/cpp" || fail "the C++ program fails"
else
    echo "note: g++ is missing, the header was not tried in C++"
fi

others=$(nm -D --defined-only "$libraries/libslackline.so" | awk '{print $3}' | grep -v '^slackline_')
[ -z "$others" ] || fail "also visible: $others"
declared=$(grep -o 'slackline_[a-z_]*(' "$source/include/slackline/slackline.h" | tr -d '(' | sort -u)
for name in $declared; do
    nm -D --defined-only "$libraries/libslackline.so" | grep -qw "$name" || fail "$name is declared, but not in the library"
done
"$folder/usr/bin/slackline" --version | grep -q slackline || fail "the installed command"
echo passed
