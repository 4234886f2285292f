#!/bin/sh
# The first process of the controller, in mount, process and network namespaces of its own: the machine as it is, but
# with a home, a /tmp, a table of host names and leases of the laboratory's. Says "ready" and waits for ever.
# usage: controller.sh FOLDER CACHE   CACHE is the plugin's, which is shared but for its leases
set -eu
folder=$1 cache=$2

mount -t proc proc /proc
mkdir -p "$folder/home/.ssh" "$folder/leases" "$folder/locks" "$cache/leases"
chmod 700 "$folder/home" "$folder/home/.ssh"
# ssh looks for its files in the home that passwd names, whatever HOME says
awk -F: -v OFS=: -v home="$folder/home" '$1 == "root" { $6 = home } { print }' /etc/passwd >"$folder/passwd"
mount --bind "$folder/passwd" /etc/passwd
mount --bind "$folder/hosts" /etc/hosts
mount --bind "$folder/leases" "$cache/leases"
[ ! -d /run/lock ] || mount --bind "$folder/locks" /run/lock
# a /tmp of its own, in which nothing but tests' folders of this machine are to be seen
tests=pytest-of-$(id -un)
mkdir -p -m 700 "/tmp/$tests"
mkdir "$folder/tmp"
mount -t tmpfs -o mode=1777 private "$folder/tmp"
mkdir "$folder/tmp/$tests"
mount --bind "/tmp/$tests" "$folder/tmp/$tests"
mount --rbind "$folder/tmp" /tmp
ip link set lo up
ip link add lab type bridge
ip address add 192.0.2.1/24 dev lab
ip link set lab up
echo ready
sleep infinity &
wait
