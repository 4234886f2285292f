# What a lab host can do, by doing it small: the argument is a folder, made and removed here; $emulator is QEMU's path or "".
# Says one line for each trial: its name, its exit status, the last line of what it said; tabs between them.
export LC_ALL=C
where=$1
mkdir -p -- "$where" && cd -- "$where" || exit 1
trap 'cd / && rm -rf -- "$where"' EXIT
trap 'exit 1' HUP INT TERM

try() { # NAME COMMAND...
	name=$1 && shift
	said=$(timeout 20 "$@" 2>&1 </dev/null)
	status=$?
	printf '%s\t%s\t%s\n' "$name" "$status" "$(printf '%s\n' "$said" | grep . | tail -n 1 | tr '\t' ' ' | cut -c 1-300)"
}
create() { # NAME FORMAT OPTIONS [MORE...]
	name=$1 format=$2 options=$3 && shift 3
	try "$name" qemu-img create -q -f "$format" ${options:+-o "$options"} "$@" "$name" 1M
}
# the exit status of qemu-img proves nothing: some file systems and formats take the option and allocate nothing
allocated='[ "$(($(stat -c "%b * %B" -- "$1")))" -ge 1048576 ] ||
	{ echo "the image takes no room on the file system"; false; }'

# PBKDF2 keeps a processor busy for 2 s, so it runs beside the others; qemu-img measures its own processor time, and on
# kernels that count it by ticks it says "Unable to get accurate CPU usage" now and then
luks='n=0; until qemu-img create -q -f qcow2 --object secret,id=s,data=x \
	-o encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=100 luks 1M; do n=$((n + 1)); [ $n -lt 20 ] || exit 1; done'
try encryption.luks sh -c "$luks" >luks.said &
luks_pid=$!

try user id -u
try cores getconf _NPROCESSORS_ONLN
try memory_kib sed -n 's/^MemAvailable: *\([0-9]*\).*/\1/p' /proc/meminfo
try mount_options findmnt -n -o OPTIONS -T .
try zfs_compression sh -c 'zfs get -H -o value compression "$(findmnt -n -o SOURCE -T .)"'
try drop_caches test -w /proc/sys/vm/drop_caches
try io_uring_disabled cat /proc/sys/kernel/io_uring_disabled
# by the folders that distributions have it in
try io_helper sh -c 'ls /usr/lib/libvirt/libvirt_iohelper /usr/libexec/libvirt_iohelper /usr/lib64/libvirt/libvirt_iohelper \
	2>/dev/null | grep .'
for tool in fio lvm zfs; do
	try "tool.$tool" sh -c 'command -v "$1" || { echo "$1: command not found"; false; }' sh "$tool"
done
# opened, and not looked for: a node may be there whose kernel has no such driver, and opening one loads its module
for device in loop-control mapper/control zfs; do
	try "dev.$device" sh -c ': <"/dev/$1"' sh "$device"
done

try direct dd if=/dev/zero of=direct bs=4096 count=1 oflag=direct status=none
try fallocate fallocate -l 1M fallocated
try extents sh -c 'filefrag -s -v fallocated >extents &&
	{ grep -q unwritten extents || { echo "no extent is marked unwritten"; false; }; }'
try punch fallocate -p -o 0 -l 65536 fallocated

for format in raw qcow2 vmdk vdi qed vpc; do
	create "format.$format" "$format" ''
done
for subformat in monolithicSparse monolithicFlat twoGbMaxExtentSparse twoGbMaxExtentFlat; do
	create "subformat.$subformat" vmdk "subformat=$subformat"
done
try subformat.streamOptimized qemu-img convert -O vmdk -o subformat=streamOptimized -f raw format.raw stream
for subformat in dynamic fixed; do
	create "subformat.$subformat" vpc "subformat=$subformat"
done
create metadata qcow2 preallocation=metadata
for kind in falloc full; do
	try "$kind" sh -c 'qemu-img create -q -f raw -o "preallocation=$1" "$1" 1M && { '"$allocated; }" sh "$kind"
done
create cluster_size.least qcow2 cluster_size=512
create cluster_size.most qcow2 cluster_size=2M
create lazy_refcounts qcow2 compat=1.1,lazy_refcounts=on
create extended_l2 qcow2 compat=1.1,extended_l2=on
for kind in zlib zstd; do
	try "compression.$kind" qemu-img convert -c -O qcow2 -o "compression_type=$kind" -f raw format.raw "$kind"
done
create chain qcow2 '' -b format.qcow2 -F qcow2
try snapshot qemu-img snapshot -c one chain
for io in threads io_uring; do
	try "io.$io" qemu-io -f raw -i "$io" -c 'write -q 0 4k' format.raw
done
# native is refused without O_DIRECT, which -n is
try io.native qemu-io -f raw -n -i native -c 'write -q 0 4k' format.raw

if [ -n "$emulator" ]; then
	try devices sh -c '"$1" -device help | sed -n "s/^name \"\([^\"]*\)\".*/\1/p" |
		grep -x -E "(virtio-(blk|scsi)-pci|lsi53c895a|pvscsi|ide-hd|(ich9-)?ahci|usb-storage|qemu-xhci|nvme)" |
		tr "\n" " "' sh "$emulator"
	# the guest's disk is a device inside usb-storage; what counts is the write cache of that one
	try usb_write_cache sh -c 'printf "info qtree\nquit\n" |
		"$1" -machine q35,accel=tcg -nodefaults -display none -S -monitor stdio -device qemu-xhci \
			-blockdev null-co,node-name=n,read-zeroes=on -device usb-storage,drive=n,write-cache=off |
		tr -d "\r" | sed -n "/dev: scsi-hd/,\$s/.*write-cache = \"\(.*\)\"/\1/p" | head -n 1 | grep .' sh "$emulator"
fi

# in a mount namespace of their own: whatever kills this, the kernel unmounts and frees the loop device
if [ "$(id -u)" = 0 ]; then
	for fs in ext4 xfs btrfs; do
		try "host_fs.$fs" unshare -m sh -c 'truncate -s 320M image && "mkfs.$1" -q image && mkdir -p at &&
			mount -o loop image at && umount at; status=$?; rm -f image; exit $status' sh "$fs"
	done
fi
wait "$luks_pid"
cat luks.said
