#!/bin/busybox sh
# The initrd's only task: find the appliance's root by its serial and hand over. Modules are numbered in load order.
/bin/busybox mount -t devtmpfs devtmpfs /dev
/bin/busybox mount -t sysfs sysfs /sys
for module in /modules/*.ko; do
	/bin/busybox insmod "$module"
done
tries=0
while [ -z "$root" ]; do
	for file in /sys/block/*/serial; do
		read -r serial <"$file"
		[ "$serial" = vmstorage-root ] && root=${file%/serial} && root=/dev/${root##*/}
	done
	[ -n "$root" ] && break
	tries=$((tries + 1))
	[ $tries -gt 100 ] && echo 'vmstorage: no disk with the serial vmstorage-root' && /bin/busybox poweroff -f
	/bin/busybox usleep 50000
done
/bin/busybox mount -t @FORMAT@ -o ro "$root" /root || {
	echo "vmstorage: the root $root cannot be mounted"
	/bin/busybox poweroff -f
}
/bin/busybox mount -o move /dev /root/dev
/bin/busybox mount -o move /sys /root/sys
exec /bin/busybox switch_root /root /sbin/init
