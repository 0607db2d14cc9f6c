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

# Which versions are taken: this one and older patches of this minor version, no newer one and no other minor version.
asks() { # VERSION-AND-MORE: whether find_package takes it
    rm -rf "$folder/ask" && mkdir "$folder/ask" && printf '%s\n' 'cmake_minimum_required(VERSION 3.20)' 'project(ask LANGUAGES C)' \
        "find_package(slackline $1 CONFIG)" 'if(NOT slackline_FOUND)' 'message(FATAL_ERROR "not found: ${slackline_NOT_FOUND_MESSAGE}")' 'endif()' >"$folder/ask/CMakeLists.txt"
    cmake -S "$folder/ask" -B "$folder/ask/build" -DCMAKE_PREFIX_PATH="$folder/usr" >"$folder/log" 2>&1
}
IFS=. read -r major minor patch <<<"$version"
for taken in "" "$version COMPONENTS shared static" "$version OPTIONAL_COMPONENTS nothing" "$version" "$version EXACT" "$major.$minor" "$major.$minor...<$major.$((minor + 1))"; do
    asks "$taken" || { cat "$folder/log"; fail "find_package(slackline $taken) does not take $version"; }
done
for refused in "$major.$minor.$((patch + 1))" "$major.$((minor + 1))" "$((major + 1))" "$major.$minor.$((patch + 1)) EXACT" "$((major + 1)).0...<$((major + 2)).0" $([ "$minor" = 0 ] || echo "$major.$((minor - 1))"); do
    ! asks "$refused" || fail "find_package(slackline $refused) takes $version"
done
! asks "$version COMPONENTS nothing" && grep -q "no component .nothing." "$folder/log" || fail "a component that is not there is not refused by name"
pkg-config --exists "slackline >= $version" && ! pkg-config --exists "slackline >= $major.$((minor + 1))" || fail "pkg-config's versions"

# Packagers' way: DESTDIR with a prefix of the system's; everything lies below it and knows only the prefix.
DESTDIR=$folder/dest cmake --install "$build" --prefix /usr >"$folder/log" 2>&1 || { cat "$folder/log"; fail "DESTDIR"; }
[ -x "$folder/dest/usr/bin/slackline" ] && [ "$(ls "$folder/dest")" = usr ] || fail "DESTDIR: $(ls "$folder/dest")"
for file in $(find "$folder/dest" -name '*.pc' -o -name '*.cmake'); do
    ! grep -q "$folder\|$build" "$file" || fail "${file##*/} knows where it was built"
done
PKG_CONFIG_SYSROOT_DIR=$folder/dest PKG_CONFIG_PATH=$(dirname "$(find "$folder/dest" -name slackline.pc)") pkg-config --cflags slackline | grep -q "$folder/dest" ||
    fail "slackline.pc with a system root: $(pkg-config --cflags slackline)"
(cd "$folder/usr" && find . -type f) | sort >"$folder/one"
(cd "$folder/dest/usr" && find . -type f) | sort >"$folder/two"
diff "$folder/one" "$folder/two" >"$folder/log" || { cat "$folder/log"; fail "DESTDIR installs something else"; }
grep -q 'share/doc/slackline/examples/slow-link.yaml$' "$folder/one" || fail "no examples are installed"

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
