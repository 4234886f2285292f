#!/bin/busybox sh
# PID 1 of the guest: as little as possible before the agent answers. The root is read-only; what is written lives in RAM.
busybox=/bin/busybox
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
$busybox mount -a
for word in $($busybox cat /proc/cmdline); do
	case $word in
	vmstorage.modules=?*) $busybox modprobe -a $(IFS=,; echo ${word#*=}) ;;
	esac
done
$busybox mkdir /dev/virtio-ports
for file in /sys/class/virtio-ports/*/name; do
	read -r name <"$file"
	port=${file%/name}
	$busybox ln -s "../${port##*/}" "/dev/virtio-ports/$name"
done
echo 'vmstorage: agent started'
qemu-ga -m virtio-serial -p /dev/virtio-ports/org.qemu.guest_agent.0 -t /run &
wait $!
echo "vmstorage: the agent ended with status $?; powering off"
$busybox poweroff -f
