# shellcheck shell=bash
# As root in namespaces of its own: a root filesystem in memory, of which nothing leads to the machine.
#   sandbox.sh TREE USER PREFIX
# TREE/files is copied into it, and is USER's, who may not become anybody else. Of the machine it has
# the programs and libraries, to be read alone, and Python's PREFIX, where this is another folder.
set -euo pipefail
tree=$1 user=$2 prefix=$3

readable() {
  mkdir -p "$root$2"
  mount --bind "$1" "$root$2"
  mount -o remount,ro,bind,nosuid "$root$2"
}

mount --make-rprivate /
root=$tree/root
mkdir "$root"
mount -t tmpfs -o size=300m,nr_inodes=60k,mode=1777,nosuid tmpfs "$root"
cp -a "$tree/files/." "$root"
chown -hR "$user:$user" "$root"
chown -R 0:0 "$root/side_by_side" # what records is not written to
chown "$user:$user" "$root/side_by_side/log"
readable /usr /real
[ "$prefix" = /usr ] || readable "$prefix" "$prefix"
ln -s /real/lib "$root/usr/lib"
ln -s /real/lib "$root/lib"
[ ! -d /usr/lib64 ] || ln -s /real/lib64 "$root/lib64"
mkdir -p "$root/dev" "$root/proc"
for device in null zero urandom random full; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
for number in 0:stdin 1:stdout 2:stderr; do
  ln -s "/proc/self/fd/${number%:*}" "$root/dev/${number#*:}"
done
mount -t proc proc "$root/proc"
cd "$root"
umask 022
exec chroot . /real/bin/setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs \
  --bounding-set=-all --inh-caps=-all /real/bin/bash -c '
    ulimit -u 400 -v 3000000 -f 40000 -t 30 -Sc 0 -Sn 256
    exec env -i PATH=/real/bin HOME=/home/user /side_by_side/driver'
