# reads
# Every block device with all by which it may be listed: lines of words with a tab between.
# Works with udev and without; $1 is "partitions" where partition tables are to be read as well.
tab=$(printf '\t')
for block in /sys/class/block/*; do
	[ -r "$block/dev" ] || continue
	name=${block##*/} number=0 whole=
	if [ -r "$block/partition" ]; then
		read -r number <"$block/partition"
		whole=$(readlink -f "$block/..")
		whole=${whole##*/}
	fi
	printf 'node\t%s\t%s\t%s\n' "$name" "$number" "$whole"
	for file in wwid device/wwid serial device/serial loop/backing_file; do
		[ -r "$block/$file" ] || continue
		text=$(tr -d '\000' <"$block/$file") 2>/dev/null
		[ -z "$text" ] || printf '%s\t%s\t%s\n' "${file##*/}" "$name" "$text"
	done
	if [ -r "$block/device/vpd_pg80" ]; then
		# a SCSI serial number, behind a header of four bytes
		printf 'serial\t%s\t%s\n' "$name" "$(tail -c +5 "$block/device/vpd_pg80" | tr -d '\000')"
	fi
	if [ "$1" = partitions ] && [ "$number" != 0 ]; then
		blkid -p -o export "/dev/$name" 2>/dev/null |
			sed -n "s/^PART_ENTRY_UUID=/partuuid$tab$name$tab/p; s/^PART_ENTRY_NAME=/partlabel$tab$name$tab/p"
	fi
done
for link in /dev/disk/by-id/* /dev/disk/by-partuuid/* /dev/disk/by-partlabel/*; do
	[ -L "$link" ] || continue
	target=$(readlink -f "$link")
	printf 'link\t%s\t%s\n' "${target#/dev/}" "${link#/dev/disk/}"
done
