#!/usr/bin/env bash
# labels: slow
# The Debian package: made by CPack, with what it depends on; what is in it works from where it was unpacked; installed on a
# system of its own (debootstrap, where there is one and packages can be had) it trains.
set -u
build=$1 source=$2
for tool in cpack dpkg-deb dpkg-shlibdeps; do
    command -v $tool >/dev/null || { echo "skipped: $tool is missing"; exit 77; }
done
if grep -q '^SL_SANITIZE:.*=\(ON\|thread\)' "$build/CMakeCache.txt"; then
    echo "skipped: a build with sanitizers is not packed"
    exit 77
fi
for file in slackline-worker libslackline.so pages/man1/slackline.1; do
    [ -e "$build/$file" ] || { echo "skipped: $file is not built"; exit 77; }
done
folder=$(mktemp -d)
root=
finish() {
    [ -z "$root" ] || umount "$root/proc" "$root/dev/shm" 2>/dev/null
    rm -rf --one-file-system "$folder"
}
trap finish EXIT
fail() { echo "FAILED: $*"; exit 1; }

cpack --config "$build/CPackConfig.cmake" -G DEB -B "$folder/made" >"$folder/log" 2>&1 || { cat "$folder/log"; fail "cpack"; }
package=$(find "$folder/made" -maxdepth 1 -name 'slackline_*.deb')
[ -n "$package" ] || fail "no package"
version=$("$build/slackline" --version | sed -n '1s/slackline //p')
[ "$(dpkg-deb -f "$package" Version)" = "$version" ] || fail "version $(dpkg-deb -f "$package" Version)"
depends=$(dpkg-deb -f "$package" Depends)
for name in libc6 libyaml-0 libjansson4 libhiredis libmicrohttpd12 libdnnl libopenmpi3 libhwloc15 libxxhash0 openmpi-bin; do
    [[ $depends == *$name* ]] || fail "it does not depend on $name: $depends"
done
[[ $(dpkg-deb -f "$package" Recommends) == *redis-server* ]] || fail "redis-server is not recommended"

dpkg-deb -x "$package" "$folder/tree" || fail "unpacking"
for file in bin/slackline bin/slackline-worker bin/slackline-delegate bin/slackline-solver include/slackline/slackline.h \
    share/man/man1/slackline-plan.1.gz share/doc/slackline/copyright share/doc/slackline/changelog.gz share/bash-completion/completions/slackline; do
    [ -f "$folder/tree/usr/$file" ] || fail "it lacks /usr/$file"
done
# Its terms: a copyright file in Debian's form (DEP-5) that names the licence and refers to the system's copy of the text.
copyright=$folder/tree/usr/share/doc/slackline/copyright
[ "$(head -1 "$copyright")" = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/" ] || fail "copyright: no DEP-5 format"
awk -v RS= '/^Files: \*\n/ && /\nCopyright: the slackline authors\n/ && /\nLicense: Apache-2.0$/ {n++} END {exit n != 1}' "$copyright" || fail "copyright: no stanza for all files"
awk -v RS= '/^License: Apache-2.0\n / && /\/usr\/share\/common-licenses\/Apache-2.0/ {n++} END {exit n != 1}' "$copyright" || fail "copyright: no reference to the system's text"
grep -vE '^(|[A-Z][A-Za-z-]*: .*| .*)$' "$copyright" && fail "copyright: lines that are no fields"
(cd "$folder/tree" && find . -iname 'LICEN[CS]E*' -o -iname 'COPYING*' | grep .) && fail "it has a copy of the licence's text"
for header in "$folder"/tree/usr/include/slackline/*.h; do
    head -1 "$header" | grep -qF 'SPDX-License-Identifier: Apache-2.0' || fail "${header##*/} does not say its licence"
done

# What it needs of others, by package and version: what Depends names is there.
python3 - "$folder/tree/usr/share/doc/slackline/slackline.spdx.json" "$version" "$depends" <<'P' || fail "the bill of materials"
import json, re, subprocess, sys

bill, version, depends = json.load(open(sys.argv[1])), sys.argv[2], sys.argv[3]
packages = {one["name"]: one for one in bill["packages"]}
assert bill["spdxVersion"] == "SPDX-2.3" and packages["slackline"]["versionInfo"] == version and packages["slackline"]["licenseDeclared"] == "Apache-2.0"
wanted = {re.split("[ :(]", one.strip())[0] for one in depends.split(",")}
libraries = {name for name in wanted if name.startswith("lib") and name not in ("libc6", "libgcc-s1")}
assert len(libraries) > 5 and libraries <= set(packages), libraries - set(packages)
for name, one in packages.items():
    if name != "slackline":
        assert one["versionInfo"] == subprocess.check_output(["dpkg-query", "-W", "-f", "${Version}\n", name], text=True).split()[0], one
named = {one["relatedSpdxElement"] for one in bill["relationships"]}
assert named == {one["SPDXID"] for one in packages.values()}, named
P

(cd "$folder/tree" && find . -type f ! -path './usr/*' | grep .) && fail "files outside /usr"
"$folder/tree/usr/bin/slackline" doctor >"$folder/said" || fail "the doctor, from where it was unpacked: $(grep broken "$folder/said")"

dpkg-deb --ctrl-tarfile "$package" | tar -xO ./triggers | grep -qx 'activate-noawait ldconfig' || fail "the loader is not told of the libraries"

dpkg-deb -f "$package" Description | tail -n +2 | grep -E '^  |.{80}' && fail "the description has lines that are shown as they are, or are too long"
gunzip -t "$folder/tree/usr/share/man/man1/"*.gz "$folder/tree/usr/share/doc/slackline/changelog.gz" || fail "packed pages"
if command -v lintian >/dev/null; then
    lintian --fail-on error "$package" >"$folder/log" 2>/dev/null || fail "lintian: $(grep ^E: "$folder/log")"
fi

[ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null || { echo "not tried: a system of its own needs root and debootstrap"; exit 0; }
mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null | awk '$1 == "bookworm" && $2 == "main" {print $3; exit}')
debootstrap --variant=minbase bookworm "$folder/root" $mirror >"$folder/log" 2>&1 || { echo "not tried: debootstrap: $(tail -1 "$folder/log")"; exit 0; }
root=$folder/root
cp /etc/resolv.conf /etc/hosts "$root/etc/" 2>/dev/null
cp -r /etc/apt/sources.list /etc/apt/sources.list.d "$root/etc/apt/" 2>/dev/null
cp -r /etc/apt/apt.conf.d/99* "$root/etc/apt/apt.conf.d/" 2>/dev/null
cp -r /usr/share/keyrings/. "$root/usr/share/keyrings/" 2>/dev/null
mount -t proc proc "$root/proc" && mount -t tmpfs -o size=256m shm "$root/dev/shm" || fail "mounting"
cp "$package" "$root/slackline.deb"
there() { chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
files() { (cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./tmp -o -path ./var/lib/dpkg -o -path ./var/lib/apt -o -path ./var/cache -o -path ./var/log \) -prune -o -print) | sort; }
there apt-get update >"$folder/log" 2>&1 || { tail -3 "$folder/log"; echo "not tried: no packages can be had"; exit 0; }
files >"$folder/before"
there apt-get install -y --no-install-recommends /slackline.deb >>"$folder/log" 2>&1 || { tail -5 "$folder/log"; fail "apt-get install ./slackline.deb"; }
there apt-get check >"$folder/log" 2>&1 || fail "dependencies: $(cat "$folder/log")"
# only what it depends on is there: no compiler, no cmake, no redis
there sh -c 'command -v gcc || command -v cmake' && fail "a compiler came with it"
there slackline doctor >"$folder/said" || fail "the doctor there: $(cat "$folder/said")"
cat "$folder/said"
grep -q 'absent *redis-server' "$folder/said" || fail "redis-server is there, though it was not installed"
grep -q 'present *two ranks' "$folder/said" || fail "two ranks do not start there"
examples=/usr/share/doc/slackline/examples
there slackline --version | head -1 | grep -q "slackline $version" || fail "the version there"
there slackline plan $examples/four-ranks.yaml | grep -q 'makespan 390 ms' || fail "plan"
there slackline train $examples/slow-link.yaml --set iterations=3 --out /run/try >"$folder/said" 2>&1 || fail "train: $(tail -3 "$folder/said")"
there slackline train $examples/slow-link.yaml --set iterations=3 --set transport=delegated --out /run/two >"$folder/said" 2>&1 || fail "delegates: $(tail -3 "$folder/said")"
there slackline report /run/try && [ -s "$root/run/try/report.html" ] || fail "report"
watching="echo in | slackline watch --out /run/watched -- mpirun --allow-run-as-root --oversubscribe -np 1 cat"
there sh -c "$watching" >"$folder/said" 2>&1 && fail "watch without redis-server"
grep -q 'redis-server is not installed (Debian: apt install redis-server)' "$folder/said" || fail "watch does not say what is missing: $(cat "$folder/said")"
there apt-get install -y --no-install-recommends redis-server >"$folder/log" 2>&1 || fail "redis-server: $(tail -3 "$folder/log")"
there sh -c "$watching" >"$folder/said" 2>&1 || fail "watch: $(tail -3 "$folder/said")"
grep -qx in "$folder/said" || fail "watch keeps the program's output: $(cat "$folder/said")"
there ldconfig -p | grep -q "libslackline.so.${version%.*}" || fail "the loader does not know the library"
# not what was run there, but all that was installed goes
rm -rf "$root/run/try" "$root/run/two" "$root/run/watched"
there dpkg --purge slackline >"$folder/log" 2>&1 || fail "removing: $(cat "$folder/log")"
files | grep -i slackline | grep -v '^./slackline.deb$' && fail "files of it are still there"
[ ! -e "$root/var/lib/dpkg/info/slackline.list" ] || fail "dpkg still knows it"
there apt-get autoremove -y --purge >"$folder/log" 2>&1 || fail "removing what it brought: $(tail -3 "$folder/log")"
# other packages may leave caches and users' files; nothing that runs or is loaded
files | comm -13 "$folder/before" - | grep -E '/(s?bin|lib|include)/.*(mpi|dnnl|jansson|yaml|hiredis)' && fail "what it brought is still there"
echo "installed, run and removed on a system of its own"
exit 0
