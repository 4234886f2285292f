"""Which options of mkfs and mount are taken, as getopt finds them, and what is refused for reaching further."""

from __future__ import annotations

import re

import pytest

from pytest_vmstorage.config.cell import make_config
from pytest_vmstorage.config.fs_options import check_mkfs_options, mount_options
from pytest_vmstorage.errors import ConfigError

TAKEN = [
    ("ext4", "-b 4096 -I512 -qFm 0 -O ^has_journal,metadata_csum -E stride=16,stripe_width=32,nodiscard"),
    ("ext4", "-J size=8,fast_commit_size=2 -e remount-ro -T largefile -L 'my lab' -U random"),
    ("ext3", "-jDb4096 -N 1000"),
    ("xfs", "-d agcount=64,su=64k,sw=2 -l size=32m,internal -b size=4k -i sparse,maxpct=0 -m crc=1,reflink=0 -K"),
    ("xfs", "-ssize=4k -r noalign -n ftype=1 -L lab"),
    ("btrfs", "-n 32k --csum xxhash --nodesize=16k -m single --data single -M -O no-holes,^extref --mixed -fqKv"),
    ("btrfs", ""),
]

REFUSED = [
    # a word that is no option is one more device, or the size
    ("btrfs", "victim", "victim"),
    ("btrfs", "-f victim", "victim"),
    ("btrfs", "-- victim", "-- victim"),
    ("ext4", "victim", "victim"),
    ("ext4", "-F -- victim", "--"),
    ("ext4", "-", "-"),
    # devices and files by name, apart, joined, behind a harmless one, in a cluster
    ("xfs", "-l logdev=victim", "-l logdev=victim"),
    ("xfs", "-llogdev=victim,size=64m", "-llogdev=victim,size=64m"),
    ("xfs", "-l size=64m,logdev=victim", "-l size=64m,logdev=victim"),
    ("xfs", "-qfl logdev=victim", "-qfl logdev=victim"),
    ("xfs", "-l name=victim", "-l name=victim"),
    ("xfs", "-l internal=0", "-l internal=0"),
    ("xfs", "-r rtdev=victim", "-r rtdev=victim"),
    ("xfs", "-d name=victim", "-d name=victim"),
    ("xfs", "-d file,name=victim", "-d file,name=victim"),
    ("xfs", "-pproto", "-pproto"),
    ("xfs", "-c options=victim", "-c"),
    ("xfs", "-N", "-N"),
    ("ext4", "-J device=LABEL=jv", "-J device=LABEL=jv"),
    ("ext4", "-Jsize=8,device=victim", "-Jsize=8,device=victim"),
    ("ext4", "-O journal_dev", "-O journal_dev"),
    ("ext4", "-Ofast_commit,journal_dev", "-Ofast_commit,journal_dev"),
    ("ext4", "-z undofile", "-z"),
    ("ext4", "-qzundofile", "-qzundofile"),
    ("ext4", "-l badblocks", "-l"),
    ("ext4", "-dsrc", "-dsrc"),
    ("ext4", "-text2", "-text2"),
    ("ext4", "-T ext2", "-T ext2"),
    ("ext4", "-e panic", "-e panic"),
    ("ext4", "-E offset=1M", "-E offset=1M"),
    ("ext4", "-L /dev/sda", "-L /dev/sda"),
    ("btrfs", "-rsrc", "-rsrc"),
    ("btrfs", "--rootdir=src", "--rootdir=src"),
    # getopt_long takes the beginning of a name
    ("btrfs", "--root=src", "--root=src"),
    ("btrfs", "--rootdir src", "--rootdir src"),
    ("btrfs", "--subvol x", "--subvol x"),
    ("btrfs", "--force=victim", "--force=victim"),
    ("btrfs", "-n", "-n"),
    ("xfs", "--unsupported", "--unsupported"),
]


@pytest.mark.parametrize(("kind", "options"), TAKEN)
def test_options_that_shape_the_file_system_are_taken(kind: str, options: str) -> None:
    """Apart, joined and in clusters; the words go to mkfs as they were given."""
    words = check_mkfs_options(kind, options, field="host_mkfs")
    assert " ".join(words) == options.replace("'", "")


@pytest.mark.parametrize(("kind", "options", "word"), REFUSED)
def test_all_else_is_refused_by_name(kind: str, options: str, word: str) -> None:
    """Whatever could name another file or device, copy something in, or make something else."""
    with pytest.raises(ConfigError, match=f"{re.escape(repr(word))} is not an option that shapes the {kind}") as error:
        check_mkfs_options(kind, options, field="host_mkfs")
    assert "-b" in error.value.hint


@pytest.mark.parametrize("field", ["host", "guest"])
def test_a_cell_with_such_options_cannot_be(field: str) -> None:
    """On the host as in the guest: it is refused when the cell is made up, long before its disk is."""
    with pytest.raises(ConfigError, match="'victim' is not an option that shapes the btrfs"):
        make_config({f"{field}_fs": "btrfs", f"{field}_mkfs": "victim"})


@pytest.mark.parametrize("options", ["-L a\x00b", "-L a\nb", "-L '\x1b[31m'", "\x00"])
def test_a_character_that_no_line_has_is_told(options: str) -> None:
    """And not a traceback of whoever is given it."""
    for call in (check_mkfs_options, mount_options):
        with pytest.raises(ConfigError, match="contains a control character"):
            call("ext4", options, field="host_mkfs")


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        ("xfs", "logdev=victim"),
        ("xfs", "rtdev=victim"),
        ("ext4", "journal_path=victim"),
        ("ext4", "usrjquota=victim"),
        ("ext4", "sb=8193"),
        ("ext4", "errors=panic"),
        ("ext4", "errors"),
        ("ext4", "commit="),
        ("ext4", "X-mount.mkdir"),
        ("ext4", "x-systemd.automount"),
        ("ext4", "nodatacow"),
        ("btrfs", "device=victim"),
        ("btrfs", "subvol=x"),
        ("btrfs", "rescue=all"),
        ("btrfs", "compress=/etc"),
        ("ext4", "remount"),
        ("ext4", "loop"),
        ("ext4", "ro"),
        ("ext4", "nosuch"),
    ],
)
def test_mount_options_that_are_not_known_are_refused(kind: str, option: str) -> None:
    """They may say what is mounted, or where, or what panics; the hint lists those of the kind."""
    with pytest.raises(ConfigError, match=f"{re.escape(repr(option))} does not say how the {kind} is mounted") as error:
        mount_options(kind, f"-o noatime,{option}", field="host_mount")
    assert "noatime" in error.value.hint
