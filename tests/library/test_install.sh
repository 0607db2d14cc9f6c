#!/usr/bin/env bash
# The library as a user gets it: installed, found by pkg-config and by CMake, compiled as C and as C++, run; only slackline_
# names are visible.
set -u
build=$1 source=$2
for tool in cc g++ pkg-config cmake nm; do
    command -v $tool >/dev/null || { echo "skipped: $tool is missing"; exit 77; }
done
if grep -q '^SL_SANITIZE:.*=\(ON\|thread\)' "$build/CMakeCache.txt"; then
    echo "skipped: a library built with sanitizers is not linked into plain programs"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

# Not the prefix that was configured, and moved afterwards: nothing installed may know where it was.
cmake --install "$build" --prefix "$folder/first" >"$folder/log" 2>&1 || { cat "$folder/log"; fail "install"; }
mv "$folder/first" "$folder/usr"
config=$(find "$folder/usr" -name slackline.pc)
[ -n "$config" ] || fail "no slackline.pc"
export PKG_CONFIG_PATH=${config%/*}
libraries=$(pkg-config --variable=libdir slackline)
version=$(pkg-config --modversion slackline)
strict="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"
example=$source/examples/library/plan.c
promise="410.0 ms, bound 410.0 ms, gap 0.00 %" # 390 ms and the link's 20 ms

# shellcheck disable=SC2046,SC2086
cc -std=c11 $strict "$example" $(pkg-config --cflags --libs slackline) -o "$folder/plan" || fail "the example does not compile"
said=$(LD_LIBRARY_PATH=$libraries "$folder/plan" 2>"$folder/errors") || fail "the example fails: $said $(cat "$folder/errors")"
[ ! -s "$folder/errors" ] || fail "something writes to standard error: $(cat "$folder/errors")"
echo "$said" | head -1 | grep -q "$promise" || fail "the example says: $said"

# The page's own example: 390 ms and the link's 60.
sed -n '/^```c$/,/^```$/p' "$source/docs/library.md" | grep -v '^```' >"$folder/page.c"
# shellcheck disable=SC2046,SC2086
cc -std=c11 $strict "$folder/page.c" $(pkg-config --cflags --libs slackline) -o "$folder/page" || fail "docs/library.md does not compile"
said=$(cd "$source" && LD_LIBRARY_PATH=$libraries "$folder/page")
echo "$said" | head -1 | grep -q ": 450 ms, gap 0$" || fail "docs/library.md says: $said"
[ "$(echo "$said" | wc -l)" = 5 ] || fail "docs/library.md prints no order: $said"

# The other example: the swap and the return with their times, 390 + 60 and 390 ms.
# shellcheck disable=SC2046,SC2086
cc -std=c11 $strict "${example%/*}/adapt.c" $(pkg-config --cflags --libs slackline) -o "$folder/adapt" || fail "adapt.c does not compile"
said=$(LD_LIBRARY_PATH=$libraries "$folder/adapt") || fail "adapt.c fails: $said"
[ "$(echo "$said" | grep -o 'from now on adaptra, .*' | tr '\n' ' ')" = "from now on adaptra, 450.0 ms from now on adaptra, 390.0 ms " ] ||
    fail "adapt.c says: $said"

# The ladder's: the device is slow from 100 s to 400 s, loses 0.5 a second, and balancing costs 3 s.
# shellcheck disable=SC2046,SC2086
cc -std=c11 $strict "${example%/*}/decide.c" $(pkg-config --cflags --libs slackline) -o "$folder/decide" || fail "decide.c does not compile"
said=$(LD_LIBRARY_PATH=$libraries "$folder/decide") || fail "decide.c fails: $said"
for part in '^108.0 s: apply: microbatches 12 12 5 11$' '^4[0-9.]* s: undo: microbatches 10 10 10 10$' 'when 3 s are lost, 50.0 % lost would become 16.7 %'; do
    echo "$said" | grep -q "$part" || fail "decide.c says: $said"
done

# Statically, without the shared library in sight.
mkdir "$folder/static" && cp "$libraries/libslackline.a" "$folder/static/"
# shellcheck disable=SC2046
cc -std=c11 "$example" $(pkg-config --cflags slackline) -L"$folder/static" $(pkg-config --static --libs-only-l slackline) -o "$folder/static/plan" ||
    fail "the archive does not link"
echo "$("$folder/static/plan")" | head -1 | grep -q "$promise" || fail "the archive plans otherwise"

# Every header by itself, in C and in C++, and the whole in a C++ program.
for header in "$folder"/usr/include/slackline/*.h; do
    name=${header##*/}
    echo "#include <slackline/$name>" >"$folder/alone.c"
    # shellcheck disable=SC2046,SC2086
    cc -std=c11 $strict $(pkg-config --cflags slackline) -fsyntax-only "$folder/alone.c" || fail "$name in C"
    # shellcheck disable=SC2046,SC2086
    g++ -std=c++17 $strict -Wold-style-cast $(pkg-config --cflags slackline) -fsyntax-only -x c++ "$folder/alone.c" || fail "$name in C++"
done
cat >"$folder/plan.cc" <<'E'
#include <slackline/slackline.h>
#include <cstdio>
int main() {
    slackline_problem *problem = nullptr;
    if (slackline_problem_make(SLACKLINE_LINEAR, 0, 0, 1, &problem) != SLACKLINE_INVALID)
        return 1;
    std::printf("%d.%d.%d %s\n", SLACKLINE_VERSION_MAJOR, SLACKLINE_VERSION_MINOR, SLACKLINE_VERSION_PATCH, slackline_version());
}
E
# shellcheck disable=SC2046,SC2086
g++ -std=c++17 $strict "$folder/plan.cc" $(pkg-config --cflags --libs slackline) -o "$folder/cpp" || fail "C++"
[ "$(LD_LIBRARY_PATH=$libraries "$folder/cpp")" = "$version $version" ] ||
    fail "the versions of header, library and pkg-config ($version) differ: $(LD_LIBRARY_PATH=$libraries "$folder/cpp")"

# From CMake, shared and static.
mkdir "$folder/user" && cat >"$folder/user/CMakeLists.txt" <<E
cmake_minimum_required(VERSION 3.20)
project(user LANGUAGES C)
find_package(slackline ${version%.*} CONFIG REQUIRED)
foreach(kind slackline slackline_static)
  add_executable(\${kind}_user $example)
  target_link_libraries(\${kind}_user PRIVATE slackline::\${kind})
endforeach()
E
{ cmake -S "$folder/user" -B "$folder/user/build" -DCMAKE_PREFIX_PATH="$folder/usr" && cmake --build "$folder/user/build"; } >"$folder/log" 2>&1 ||
    { cat "$folder/log"; fail "find_package(slackline)"; }
for kind in slackline slackline_static; do
    "$folder/user/build/${kind}_user" | head -1 | grep -q "$promise" || fail "slackline::$kind plans otherwise"
done

# Visible are the declared functions and nothing else; nothing of MPI, CUDA or Redis is needed.
nm -D --defined-only "$libraries/libslackline.so" | awk '{print $3}' | sort >"$folder/visible"
cat "$source"/include/slackline/*.h | sed 's@/\*.*@@' | grep -o '\bslackline_[a-z_]*(' | tr -d '(' | sort -u >"$folder/declared"
# comments name functions too: what they name must be there all the same
diff "$folder/declared" "$folder/visible" >"$folder/log" || { cat "$folder/log"; fail "declared (<) is not what is visible (>)"; }
[ "$(wc -l <"$folder/visible")" -gt 40 ] || fail "only $(wc -l <"$folder/visible") functions"
if command -v readelf >/dev/null; then
    readelf -d "$libraries/libslackline.so" | grep -q "SONAME.*libslackline\.so\.${version%.*}\]" || fail "SONAME"
    readelf -d "$libraries/libslackline.so" | grep NEEDED | grep -qiE 'mpi|cuda|redis|dnnl' && fail "it needs more than it says"
fi
"$folder/usr/bin/slackline" --version | grep -q "$version" || fail "the installed command"
echo passed
