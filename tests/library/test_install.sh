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
promise="410.0 ms, bound 410.0 ms, gap 0.00%" # 390 ms and the link's 20 ms

# shellcheck disable=SC2046,SC2086
cc -std=c11 $strict "$example" $(pkg-config --cflags --libs slackline) -o "$folder/plan" || fail "the example does not compile"
said=$(LD_LIBRARY_PATH=$libraries "$folder/plan" 2>"$folder/errors") || fail "the example fails: $said $(cat "$folder/errors")"
[ ! -s "$folder/errors" ] || fail "something writes to standard error: $(cat "$folder/errors")"
echo "$said" | head -1 | grep -q "$promise" || fail "the example says: $said"

# The page's first example: 390 ms and the link's 60.
sed '1,/^```c$/d;/^```$/,$d' "$source/docs/library.md" >"$folder/page.c"
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

# A program that has chosen a locale with commas: the same texts, and its locale is as it was.
cat >"$folder/comma.c" <<'E'
#include <locale.h>
#include <slackline/slackline.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
    static const char *const set[] = {"pipeline.links.list.0.latency_ms=20.5", "pipeline.times_ms.F=[10.25, 10, 10, 1e1]"};
    static const char *const forms[] = {"text", "json", "svg", "html", "trace", "csv"};
    slackline_problem *problem;
    slackline_planner *planner;
    slackline_plan *plan;
    slackline_cluster *cluster;
    slackline_topology topology;
    int host[64];
    char *text;
    if (argc > 3 && (!setlocale(LC_ALL, argv[3]) || strcmp(localeconv()->decimal_point, ",")))
        return 3;
    if (slackline_problem_read(argv[1], set, 2, &problem) || slackline_planner_make(&planner) || slackline_planner_set_time_limit(planner, 0) ||
        slackline_planner_plan(planner, problem, &plan) || slackline_problem_write(problem, &text, NULL) || puts(text) < 0 ||
        slackline_cluster_read(argv[2], NULL, &cluster)) {
        puts(slackline_error());
        return 1;
    }
    for (int i = 0; i < 6; i++)
        if (slackline_plan_write(plan, forms[i], &text, NULL) || puts(text) < 0)
            return 2;
    if (slackline_topology_search(cluster, 1, 0.01, host, &topology, &text) || puts(text) < 0)
        return 2;
    return argc > 3 && strcmp(localeconv()->decimal_point, ",") ? 4 : 0;
}
E
# shellcheck disable=SC2046,SC2086
cc -std=c11 $strict "$folder/comma.c" $(pkg-config --cflags --libs slackline) -o "$folder/comma" || fail "the program with a locale does not compile"
if localedef -i de_DE -f UTF-8 "$folder/de_DE.UTF-8" >/dev/null 2>&1; then
    for how in "" de_DE.UTF-8; do
        # shellcheck disable=SC2086
        LOCPATH=$folder LD_LIBRARY_PATH=$libraries "$folder/comma" "$source/examples/four-ranks.yaml" "$source/examples/cluster.yaml" $how >"$folder/said$how" ||
            fail "with the locale '$how': exit $? $(head -c 300 "$folder/said$how")"
        sed -i -E 's/"solve_ms": ?[0-9.e+-]+//' "$folder/said$how"
    done
    grep -q '20\.5' "$folder/said" || fail "the latency is not in the text"
    cmp "$folder/said" "$folder/saidde_DE.UTF-8" || fail "a locale with commas changes texts: $(diff "$folder/said" "$folder/saidde_DE.UTF-8" | head -6 | cut -c1-200)"
else
    echo "not tried: a locale with commas cannot be made here"
fi

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

# A prefix with blanks, and away again: no file and no folder of ours stays.
cmake --install "$build" --prefix "$folder/a prefix" >"$folder/log" 2>&1 && cp "$build/installed.txt" "$folder/" || { cat "$folder/log"; fail "a prefix with blanks"; }
eval "cc -std=c11 $strict '$example' $(PKG_CONFIG_PATH=$(dirname "$(find "$folder/a prefix" -name slackline.pc)") pkg-config --cflags --libs slackline) -o '$folder/spaced'" ||
    fail "pkg-config in a prefix with blanks"
LD_LIBRARY_PATH=$(dirname "$(find "$folder/a prefix" -name libslackline.so)") "$folder/spaced" | head -1 | grep -q "$promise" || fail "a prefix with blanks plans otherwise"
cmake -S "$folder/user" -B "$folder/user/spaced" -DCMAKE_PREFIX_PATH="$folder/a prefix" >"$folder/log" 2>&1 && cmake --build "$folder/user/spaced" >>"$folder/log" 2>&1 &&
    "$folder/user/spaced/slackline_user" | head -1 | grep -q "$promise" || { cat "$folder/log"; fail "find_package(slackline) in a prefix with blanks"; }
"$folder/a prefix/bin/slackline" plan "$folder/a prefix/share/doc/slackline/examples/four-ranks.yaml" | grep -q "makespan 390 ms" || fail "the command in a prefix with blanks"
"$folder/a prefix/bin/slackline" doctor | grep -q 'present  libslackline_probe' || fail "a prefix with blanks: $("$folder/a prefix/bin/slackline" doctor | grep -A1 libslackline_probe)"
[ -s "$(find "$folder/a prefix" -name libnccl-profiler-slackline.so)" ] || fail "NCCL's plug-in is not installed"
if command -v redis-server >/dev/null; then # the loader parts LD_PRELOAD at blanks
    "$folder/a prefix/bin/slackline" watch --http off --out "$folder/watched" -- sh -c 'case $LD_PRELOAD in *" "*) exit 9;; esac; [ -s "$LD_PRELOAD" ]' 2>"$folder/log" ||
        fail "the probe in a prefix with blanks: exit $? $(cat "$folder/log")"
    ! grep -q "cannot be preloaded" "$folder/log" || fail "$(cat "$folder/log")"
fi
echo kept >"$folder/a prefix/include/slackline/mine.h"
cmake -DMANIFEST="$folder/installed.txt" -P "$source/src/library/uninstall.cmake" >"$folder/log" 2>&1 || { cat "$folder/log"; fail "uninstall"; }
[ "$(find "$folder/a prefix" -type f -o -type l)" = "$folder/a prefix/include/slackline/mine.h" ] || fail "uninstall: $(find "$folder/a prefix" -type f -o -type l | head -3) is there"
rm -r "$folder/a prefix/include/slackline"
[ -z "$(find "$folder/a prefix" -name '*slackline*')" ] && [ -d "$folder/a prefix/bin" ] || fail "uninstall: folders: $(find "$folder/a prefix" | head)"
! cmake -DMANIFEST="$folder/installed.txt" -P "$source/src/library/uninstall.cmake" >"$folder/log" 2>&1 && grep -q "nothing was installed" "$folder/log" || fail "uninstall twice: $(cat "$folder/log")"
# A folder above that is called so, too, is not ours.
export DESTDIR=$folder/slackline/dest
cmake --install "$build" --prefix /slackline >"$folder/log" 2>&1 && cp "$build/installed.txt" "$folder/" && [ -f "$DESTDIR/slackline/bin/slackline" ] &&
    cmake -DMANIFEST="$folder/installed.txt" -P "$source/src/library/uninstall.cmake" >"$folder/log" 2>&1 || { cat "$folder/log"; fail "uninstall below slackline"; }
[ -z "$(find "$DESTDIR" -type f -o -type l)" ] && [ -d "$DESTDIR/slackline/bin" ] && [ -z "$(find "$DESTDIR/slackline/" -mindepth 1 -name '*slackline*')" ] ||
    fail "uninstall below slackline: $(find "$folder/slackline" | head)"
unset DESTDIR

# Loaded by a program that was not linked to it.
cat >"$folder/load.c" <<'E'
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    const char *(*version)(void);
    if (!library)
        return puts(dlerror()), 1;
    *(void **)&version = dlsym(library, "slackline_version");
    puts(version());
    return dlclose(library);
}
E
cc "$folder/load.c" -o "$folder/load" -ldl && [ "$("$folder/load" "$libraries/libslackline.so.${version%.*}")" = "$version" ] || fail "dlopen"

# Visible are the declared functions and nothing else; nothing of MPI, CUDA or Redis is needed.
nm -D --defined-only "$libraries/libslackline.so" | awk '{print $3}' | sort >"$folder/visible"
find "$source/include/slackline" -name '*.h' ! -name transport.h -exec cat {} + | sed 's@/\*.*@@' | grep -o '\bslackline_[a-z_]*(' | tr -d '(' | sort -u >"$folder/declared"
# comments name functions too: what they name must be there all the same
diff "$folder/declared" "$folder/visible" >"$folder/log" || { cat "$folder/log"; fail "declared (<) is not what is visible (>)"; }
[ "$(wc -l <"$folder/visible")" -gt 40 ] || fail "only $(wc -l <"$folder/visible") functions"
if command -v readelf >/dev/null; then
    readelf -d "$libraries/libslackline.so" | grep -q "SONAME.*libslackline\.so\.${version%.*}\]" || fail "SONAME"
    readelf -d "$libraries/libslackline.so" | grep NEEDED | grep -qiE 'mpi|cuda|redis|dnnl' && fail "it needs more than it says"
fi
# The same of the transport's library, where it is built; it needs only what carries messages.
if [ -e "$libraries/libslackline_transport.so" ]; then
    nm -D --defined-only "$libraries/libslackline_transport.so" | awk '{print $3}' | sort >"$folder/visible"
    sed 's@/\*.*@@' "$source/include/slackline/transport.h" | grep -o '\bslackline_[a-z_]*(' | tr -d '(' | sort -u >"$folder/declared"
    diff "$folder/declared" "$folder/visible" >"$folder/log" || { cat "$folder/log"; fail "transport: declared (<) is not what is visible (>)"; }
    needed=$(readelf -d "$libraries/libslackline_transport.so" | grep NEEDED | grep -vE 'libc\.so|libcrypto|libxxhash|libpthread|ld-linux|libdl')
    [ -z "$needed" ] || fail "libslackline_transport needs more than it says: $needed"
    cat >"$folder/carry.c" <<'E'
#include <slackline/transport.h>
#include <stdio.h>
int main(void) {
    slackline_transport_options options;
    slackline_transport *transport;
    unsigned char key[32] = {0};
    slackline_transport_defaults(&options);
    options.ranks = 2;
    options.key = key;
    if (slackline_transport_prepare(&options, &transport)) /* finds the delegate in ../bin */
        return puts(slackline_transport_error()), 1;
    slackline_transport_close(transport, 0);
    return puts(slackline_transport_version()) < 0;
}
E
    # shellcheck disable=SC2046,SC2086
    cc -std=c11 $strict "$folder/carry.c" $(pkg-config --cflags --libs slackline_transport) -o "$folder/carry" || fail "a program with slackline_transport"
    [ "$(PATH=/nowhere LD_LIBRARY_PATH=$libraries "$folder/carry")" = "$version" ] ||
        fail "slackline_transport: $(PATH=/nowhere LD_LIBRARY_PATH=$libraries "$folder/carry")"
fi
"$folder/usr/bin/slackline" --version | grep -q "$version" || fail "the installed command"
echo passed
