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
    share/man/man1/slackline-plan.1 share/bash-completion/completions/slackline; do
    [ -f "$folder/tree/usr/$file" ] || fail "it lacks /usr/$file"
done
(cd "$folder/tree" && find . -type f ! -path './usr/*' | grep .) && fail "files outside /usr"
"$folder/tree/usr/bin/slackline" doctor >"$folder/said" || fail "the doctor, from where it was unpacked: $(grep broken "$folder/said")"

[ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null || { echo "not tried: a system of its own needs root and debootstrap"; exit 0; }
debootstrap --variant=minbase bookworm "$folder/root" >"$folder/log" 2>&1 || { echo "not tried: debootstrap: $(tail -1 "$folder/log")"; exit 0; }
root=$folder/root
cp /etc/resolv.conf "$root/etc/" 2>/dev/null
cp -r /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d "$root/etc/apt/" 2>/dev/null
mount -t proc proc "$root/proc" && mount -t tmpfs -o size=256m shm "$root/dev/shm" || fail "mounting"
cp "$package" "$root/slackline.deb"
cp -r "$source/examples" "$root/examples"
chroot "$root" apt-get update >"$folder/log" 2>&1
chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends /slackline.deb >>"$folder/log" 2>&1 ||
    { tail -5 "$folder/log"; fail "apt-get install ./slackline.deb"; }
chroot "$root" slackline doctor >"$folder/said" || fail "the doctor there: $(cat "$folder/said")"
cat "$folder/said"
grep -q 'absent *redis-server' "$folder/said" || fail "redis-server is there, though it was not installed"
grep -q 'present *two ranks' "$folder/said" || fail "two ranks do not start there"
chroot "$root" slackline train /examples/slow-link.yaml --set iterations=3 --out /run/try >"$folder/said" 2>&1 || fail "train: $(tail -3 "$folder/said")"
chroot "$root" dpkg -r slackline >"$folder/log" 2>&1 || fail "removing"
[ ! -e "$root/usr/bin/slackline" ] || fail "it is still there"
exit 0
