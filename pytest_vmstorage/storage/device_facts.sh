# reads
# All that speaks against writing to the block device $1: lines of words with a tab between; $2... are folders
# that must not lie on it. Writes nothing.
# shellcheck disable=SC2046 # words that were printed to be split
export LC_ALL=C
number() { # NODE: its MAJOR:MINOR
	[ -b "$1" ] && set -- $(stat -L -c '%t %T' -- "$1") && echo "$((0x$1)):$((0x$2))"
}
below() { # MAJOR:MINOR: that and all that it is made of
	echo "$1"
	[ ! -e "/sys/dev/block/$1/partition" ] || below "$(cat "/sys/dev/block/$1/../dev")"
	for slave in "/sys/dev/block/$1/slaves/"*; do
		[ ! -r "$slave/dev" ] || below "$(cat "$slave/dev")"
	done
}
# udev looks into a device that was just closed, which is no use of it
[ ! -S /run/udev/control ] || udevadm settle --timeout=10
node=$1
shift
dev=$(number "$node") || { printf 'missing\t%s\n' "$node"; exit; }
sys=$(readlink -f "/sys/dev/block/$dev")
printf 'self\t%s\t%s\t%s\t%s\t%s\n' "${sys##*/}" "$dev" "$(cat "$sys/size")" "$(cat "$sys/ro")" \
	"$([ -e "$sys/partition" ] && echo partition || echo whole)"
[ ! -r "$sys/device/model" ] || printf 'model\t%s\n' "$(cat "$sys/device/model")"

# itself, its partitions, and the device whose partition it is
family=$sys
for part in "$sys"/*/partition; do
	[ ! -e "$part" ] || family="$family ${part%/partition}"
done
[ ! -e "$sys/partition" ] || family="$family ${sys%/*}"
numbers=' ' nodes=' '
for one in $family; do
	name=${one##*/}
	numbers="$numbers$(cat "$one/dev") "
	nodes="$nodes/dev/$name "
	for holder in "$one"/holders/*; do
		[ ! -e "$holder" ] || printf 'holder\t%s\t%s\n' "$name" "$(cat "$holder/dm/name" 2>/dev/null || echo "${holder##*/}")"
	done
	if ! found=$(wipefs --no-act --noheadings --output TYPE "/dev/$name" 2>&1); then
		printf 'unknown\tsignatures of %s\t%s\n' "$name" "$(echo "$found" | tail -n 1)"
		continue
	fi
	for type in $found; do
		printf 'signature\t%s\t%s\n' "$name" "$type"
	done
done

# one mountinfo for each mount namespace that can be seen; btrfs has a number of its own, and names its source
stat -L -c '%i %n' /proc/self/ns/mnt /proc/[0-9]*/ns/mnt 2>/dev/null | sort -u -k1,1 | while read -r _ space; do
	cat "${space%ns/mnt}mountinfo" 2>/dev/null
done | awk -v numbers="$numbers" -v nodes="$nodes" '{
	source = ""
	for (i = 7; i < NF; i++) if ($i == "-") { source = $(i + 2); break }
	if (index(numbers, " " $3 " ") || index(nodes, " " source " ")) print "mount\t" source "\t" $5
}' | sort -u
awk 'NR > 1 && $2 == "partition" { print $1 }' /proc/swaps | while read -r swap; do
	case "$numbers" in *" $(number "$swap") "*) printf 'swap\t%s\n' "$swap" ;; esac
done
for file in /sys/block/loop*/loop/backing_file; do
	[ -r "$file" ] || continue
	case "$numbers" in *" $(number "$(cat "$file")") "*) loop=${file#/sys/block/} && printf 'holder\t%s\t%s\n' "$(cat "$file")" "${loop%%/*}" ;; esac
done
for path in / "$@"; do
	set -- $(findmnt -nrvo MAJ:MIN,SOURCE -T "$path" 2>/dev/null)
	[ -e "/sys/dev/block/$1" ] || set -- "$(number "$2")"
	[ -z "$1" ] || ! below "$1" | grep -qx "$dev" || printf 'holds\t%s\n' "$path"
done

find -L /proc/[0-9]*/fd -maxdepth 1 -type b -exec stat -L -c '%t %T %n' {} + 2>/dev/null | while read -r major minor file; do
	case "$numbers" in *" $((0x$major)):$((0x$minor)) "*) ;; *) continue ;; esac
	pid=${file#/proc/}
	pid=${pid%%/*}
	printf 'opener\t%s (pid %s)\n' "$(cat "/proc/$pid/comm")" "$pid"
done | sort -u
if [ "$(cat "$sys/ro")" = 0 ]; then
	# opens the device with O_EXCL, which fails while it is mounted, swapped to or a part of something; writes nothing
	if ! said=$(wipefs --all --no-act "/dev/${sys##*/}" 2>&1); then
		case "$said" in
		*busy*) printf 'busy\n' ;;
		*) printf 'unknown\texclusive use of %s\t%s\n' "${sys##*/}" "$(echo "$said" | tail -n 1)" ;;
		esac
	fi
fi
printf 'end\n'
