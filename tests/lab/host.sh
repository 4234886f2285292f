#!/bin/sh
# The first process of a lab host, in namespaces of its own: gives it a file tree, says "ready" and waits for ever.
# Killed, it takes every process, mount, loop device and network interface of the host with it.
# usage: host.sh NAME FOLDER LAYER   FOLDER holds the host's own files; LAYER is a tree with sshd to be laid over it, or ""
set -eu
name=$1 folder=$2 layer=$3

hostname "$name"
mkdir -p "$folder/upper" "$folder/work" "$folder/tree"
# the machine's programs, read only, below the host's own files
mount -t overlay "$name" -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" "$folder/tree"
cd "$folder/tree"
[ -z "$layer" ] || cp -R "$layer/." .
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs -o mode=1777 shm dev/shm
# what this machine has and a lab host has not: homes, the project, its caches, programs of other origin, Python
for place in root home work usr/local tmp run var/tmp var/cache var/lib/libvirt var/log etc/libvirt; do
    [ ! -d "$place" ] || mount -t tmpfs -o mode=755 private "$place"
done
chmod 1777 tmp var/tmp
rm -f usr/bin/python3* usr/bin/virsh
mkdir -p run/sshd run/lock root/.ssh etc/libvirt etc/lab var/lib/libvirt/images var/log/libvirt/qemu var/cache/libvirt
chmod 700 root root/.ssh

# a disk of its own, which may be filled
truncate -s 3G "$folder/images"
mkfs.ext4 -q -F "$folder/images"
mount -o loop "$folder/images" var/lib/libvirt/images
chmod 711 var/lib/libvirt/images

cp "$folder/ssh_host_ed25519_key" etc/lab/
cp "$folder/authorized_keys" root/.ssh/authorized_keys
# "!" in place of root's password would lock sshd's door to keys too
sed -i 's/^root:[^:]*:/root:*:/' etc/shadow
grep -q '^sshd:' etc/passwd || echo 'sshd:x:64054:65534::/run/sshd:/usr/sbin/nologin' >>etc/passwd
cat >etc/lab/sshd_config <<'END'
HostKey /etc/lab/ssh_host_ed25519_key
PidFile /run/sshd.pid
PermitRootLogin yes
PasswordAuthentication yes
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
LogLevel VERBOSE
END
# as Debian has it, but for cgroups, which are one tree for the whole machine and would be left behind
echo 'cgroup_controllers = []' >etc/libvirt/qemu.conf
printf '%s\n' 'auth_unix_rw = "none"' 'unix_sock_rw_perms = "0777"' >etc/libvirt/libvirtd.conf

pivot_root . mnt
cd /
umount -l /mnt
echo ready
# a child to wait for, so that wait never returns; orphans are reaped by it too
sleep infinity &
wait
