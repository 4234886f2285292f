#!/bin/sh
# Makes a lab host of the Debian tree $1, which stands there freshly installed and runs nowhere yet.
# usage: machine_setup.sh TREE
set -eu
cd "$1"

echo labvm >etc/hostname
printf '127.0.0.1 localhost\n127.0.1.1 labvm\n' >etc/hosts
# the initrd mounts the root read-only and systemd looks here whether it stays so
echo '/dev/disk/by-id/virtio-vmstorage-root / ext4 rw,noatime 0 1' >etc/fstab
: >etc/machine-id
cat >etc/systemd/network/lab.network <<'END'
[Match]
Name=en* eth*
[Network]
Address=10.0.2.15/24
Gateway=10.0.2.2
LinkLocalAddressing=no
END

# keys come with each start, on a disk that is a tar archive
rm -f etc/ssh/ssh_host_*
cat >etc/systemd/system/labvm-seed.service <<'END'
[Unit]
DefaultDependencies=no
Requires=dev-disk-by\x2did-virtio\x2dlabvm\x2dseed.device
After=dev-disk-by\x2did-virtio\x2dlabvm\x2dseed.device systemd-remount-fs.service
Before=ssh.service
[Service]
Type=oneshot
ExecStart=tar -x -f /dev/disk/by-id/virtio-labvm-seed -C / --no-same-owner
[Install]
RequiredBy=ssh.service
END
cat >etc/ssh/sshd_config.d/lab.conf <<'END'
PermitRootLogin yes
PasswordAuthentication no
# sessions of logind cost an emulated CPU half a second each
UsePAM no
END

# a machine of 4 GiB, in which guests run too
echo 'options zfs zfs_arc_max=268435456' >etc/modprobe.d/zfs.conf
printf 'zfs\ndm_mod\ndm_snapshot\nkvm_amd\n' >etc/modules-load.d/lab.conf

chroot . systemctl -q enable systemd-networkd ssh libvirtd labvm-seed
# what a machine of a few minutes needs not
chroot . systemctl -q mask getty@tty1.service serial-getty@ttyS0.service systemd-networkd-wait-online.service \
	apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer \
	libvirt-guests.service zfs-import-cache.service zfs-import-scan.service systemd-udev-settle.service
rm -rf usr/share/doc usr/share/man usr/share/locale var/lib/apt/lists/* var/cache/apt/*
