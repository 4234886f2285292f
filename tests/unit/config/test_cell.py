"""StorageConfig: one cell, its id, and the cells that cannot exist.

Tests also of `config.rules`: `config.rules.backing`, `config.rules.device`, `config.rules.image`, `config.rules.rule`.
"""

from __future__ import annotations

from typing import get_args

import pytest
from pydantic import ValidationError

from pytest_vmstorage.config.cell import AXES, FIELDS, StorageConfig, axis_text, make_config, varying_fields
from pytest_vmstorage.config.qcow2_cache import CACHE_FIELDS
from pytest_vmstorage.config.rules import RULES
from pytest_vmstorage.config.rules.rule import Rule
from pytest_vmstorage.errors import ConfigError


def test_a_cell_is_its_id() -> None:
    """str() is the axes in one order; the state stands there only where it is not the usual one."""
    assert str(StorageConfig()) == "raw-none-virtio-blk-off"
    config = make_config({"format": "qcow2", "cache": "writeback", "bus": "virtio-scsi", "preallocation": "full"})
    assert str(config) == "qcow2-writeback-virtio-scsi-full"
    assert str(StorageConfig(state="fresh")) == "raw-none-virtio-blk-off-fresh"


def test_a_label_tells_the_size_too() -> None:
    """Two cells that differ in size only have one id and two labels."""
    assert StorageConfig(size="512M").label == "raw-none-virtio-blk-off 512M"


def test_cells_are_values() -> None:
    """Equal fields make equal cells, whichever way the size was written; none can be changed."""
    assert {StorageConfig(size="1G"), StorageConfig(size=2**30)} == {StorageConfig()}
    with pytest.raises(ValidationError):
        StorageConfig().format = "qcow2"


def test_every_axis_is_a_field_and_size_is_no_axis() -> None:
    """The marker takes all fields; parametrize names are the axes."""
    assert set(AXES) == set(FIELDS) - {"size"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("format", "qcow3"), ("cache", "writethru"), ("bus", "floppy"), ("preallocation", "fill"), ("state", "old")],
)
def test_an_unknown_value_is_refused_with_those_there_are(name: str, value: str) -> None:
    """One sentence: the axis, the value, the values it can have."""
    with pytest.raises(ConfigError) as caught:
        make_config({name: value})
    allowed = get_args(StorageConfig.model_fields[name].annotation)
    assert caught.value.told == f"{name}={value!r} is not known. {name} is one of: {', '.join(allowed)}."


@pytest.mark.parametrize("value", [["raw"], None, 3, {"raw"}])
def test_a_value_of_another_type_is_refused_like_an_unknown_one(value: object) -> None:
    """A list in place of a name is a sentence too, and no TypeError."""
    with pytest.raises(ConfigError, match=r"^format=.* is not known"):
        make_config({"format": value})


def test_an_unknown_field_is_refused_with_those_there_are() -> None:
    """A slip in a marker's keyword is found before any test."""
    with pytest.raises(
        ConfigError,
        match=r"no field 'chache'\. Did you mean 'cache'\? It has: format, cache, bus, preallocation, state, .*, size",
    ):
        make_config({"chache": "none"})


@pytest.mark.parametrize("size", ["1023k", "0", "1048577", "1.5M1"])
def test_a_size_that_no_disk_can_have_is_refused(size: str) -> None:
    """At least a MiB and whole sectors."""
    with pytest.raises(ConfigError, match=r"multiple of 512 bytes|is not a size"):
        make_config({"size": size})


@pytest.mark.parametrize("backing", ["ssd", "device:", ":ssd", "", "zfs"])
def test_a_backing_that_nothing_can_be_is_refused(backing: str) -> None:
    """The kinds are listed, and how one of several is named."""
    with pytest.raises(ConfigError, match=r"is not known. backing is one of: file, partition, lvm, zvol, device"):
        make_config({"backing": backing})


def test_a_backing_is_a_kind_and_a_name() -> None:
    """The name is that of vmstorage.toml."""
    config = make_config({"backing": "device:nvme0"})
    assert (config.backing_kind, config.backing_name) == ("device", "nvme0")
    assert make_config({}).backing_name == ""


@pytest.mark.parametrize(
    "values",
    [
        {"guest_fs": "ext4", "guest_mkfs": "-d /etc"},
        {"guest_fs": "xfs", "guest_mount": "remount"},
        {"host_fs": "btrfs", "host_mkfs": "/dev/sda"},
        {"host_fs": "ext4", "host_mount": "loop"},
    ],
    ids=str,
)
def test_options_that_reach_beyond_the_file_system_are_refused(values: dict[str, object]) -> None:
    """Before anything is made: a path, another device, a mount of another kind."""
    with pytest.raises(ConfigError, match="cannot be used"):
        make_config(values)


@pytest.mark.parametrize("path", ["qemu-system-x86_64", "./qemu", "", "~/qemu"])
def test_an_emulator_is_a_path_from_the_root(path: str) -> None:
    """Any other would be another file for the shell of each host, and for libvirt."""
    with pytest.raises(
        ConfigError, match=f"emulator={path!r} is not the path of a QEMU binary. Write it from the root"
    ):
        make_config({"emulator": path})


def test_two_emulators_are_two_cells() -> None:
    """By their whole paths; "default" is the host's own."""
    old, new = (make_config({"emulator": f"/opt/qemu-{number}/bin/qemu"}) for number in (7, 9))
    assert str(old) == "raw-none-virtio-blk-off-emulator=/opt/qemu-7/bin/qemu"
    assert str(new) == "raw-none-virtio-blk-off-emulator=/opt/qemu-9/bin/qemu"
    assert make_config({"emulator": "default"}) == StorageConfig()


def test_a_guest_has_the_memory_to_boot() -> None:
    """Less is refused before anything is made."""
    with pytest.raises(ConfigError, match="does not boot"):
        make_config({"memory": "64M"})


def test_raw_has_no_metadata_to_preallocate() -> None:
    """qemu-img refuses it; here it is refused before any test, with the reason, its source and a way out."""
    with pytest.raises(ConfigError, match="raw-none-virtio-blk-metadata cannot exist: raw has no metadata") as caught:
        make_config({"preallocation": "metadata"})
    assert "(rule raw-metadata; source: qemu-img: " in caught.value.what
    assert "deselect" in caught.value.hint
    assert make_config({"format": "qcow2", "preallocation": "metadata"}).preallocation == "metadata"


LIMITS = ("total_iops_sec", "total_bytes_sec")

IMPOSSIBLE: dict[str, list[dict[str, object]]] = {
    "raw-metadata": [{"preallocation": "metadata"}],
    "preallocation-without-effect": [{"format": "vmdk", "preallocation": "full"}],
    "subformat": [{"subformat": "fixed"}, {"format": "vmdk", "subformat": "fixed"}],
    "native-needs-direct": [{"io": "native", "cache": "writeback"}, {"io": "native", "cache": "unsafe"}],
    "io-of-vmdk-extents": [
        {"format": "vmdk", "subformat": "monolithicFlat", "io": "native"},
        {"format": "vmdk", "subformat": "twoGbMaxExtentSparse", "io": "io_uring"},
    ],
    "zeroes-unmap-needs-discard": [{"detect_zeroes": "unmap"}],
    "ide-needs-pc": [{"bus": "ide", "machine": "q35"}],
    "iothread-needs-virtio": [{"bus": "sata", "iothread": True}, {"bus": "nvme", "iothread": True}],
    "queues-need-virtio": [{"bus": "usb", "queues": 2}, {"bus": "lsilogic", "queue_size": 64}],
    "queue-size": [{"queue_size": 100}, {"queue_size": 2048}, {"queue_size": 2}],
    "queues-of-blk": [{"queues": 1025}],
    "queues-of-scsi": [{"bus": "virtio-scsi", "queues": 1023}],
    "vcpus-of-machine": [{"bus": "ide", "vcpus": 256}, {"vcpus": 289}],
    "vpc-size": [{"format": "vpc", "size": "3T"}],
    "file-has-no-name": [{"backing": "file:ssd"}],
    "queue-size-of-scsi": [{"bus": "virtio-scsi", "queue_size": 64}],
    "least-limits": [{"total_iops_sec": 9}, {"total_bytes_sec": "511k"}, {"total_bytes_sec": 0}],
    "most-limits": [{"total_iops_sec": 10**15 + 1}, {"bus": "nvme", "total_bytes_sec": 10**15 + 1}],
    "qcow2-only": [{"cluster_size": "64k"}, {"format": "vdi", "l2_cache_size": "1M"}, {"metadata_cache_size": "1M"}],
    "cluster-size": [{"format": "qcow2", "cluster_size": "96k"}, {"format": "qcow2", "cluster_size": "4M"}],
    "extended-l2": [{"format": "qcow2", "extended_l2": True, "cluster_size": "8k"}],
    "layers-arrive-filled": [
        {"format": "qcow2", "compression": "zstd", "state": "fresh"},
        {"format": "qcow2", "backing_chain": 2, "state": "aged"},
        {"format": "vmdk", "subformat": "streamOptimized", "state": "rewritten"},
    ],
    "layers-lie-under-files": [
        {"format": "qcow2", "compression": "zstd", "guest_fs": "ext4"},
        {"format": "qcow2", "snapshots": 1, "guest_fs": "xfs"},
    ],
    "layers-allocate-late": [{"format": "qcow2", "snapshots": 1, "preallocation": "metadata"}],
    "snapshots-stand-alone": [
        {"format": "qcow2", "snapshots": 1, "backing_chain": 1},
        {"format": "qcow2", "snapshots": 1, "compression": "zlib"},
    ],
    "layers-need-room": [
        {"format": "qcow2", "snapshots": 3, "size": "1M"},
        {"format": "qcow2", "backing_chain": 64, "size": "16M"},
    ],
    "l2-cache-of-layers": [
        {"format": "qcow2", "backing_chain": 1, "l2_cache_size": "1M"},
        {"format": "qcow2", "backing_chain": 1, "metadata_cache_size": "1M"},
    ],
    "one-cache-size": [{"format": "qcow2", "l2_cache_size": "1M", "metadata_cache_size": "2M"}],
    "l2-cache-of-whole-slices": [
        {"format": "qcow2", "l2_cache_size": "4k"},
        {"format": "qcow2", "l2_cache_size": "10k"},
        {"format": "qcow2", "l2_cache_size": 1000, "cluster_size": 512},
        {"format": "qcow2", "l2_cache_size": "4k", "cluster_size": "2M"},
    ],
    "metadata-cache-too-small": [
        {"format": "qcow2", "metadata_cache_size": "263k"},
        {"format": "qcow2", "metadata_cache_size": "8M", "cluster_size": "2M"},
    ],
    "compressed-or-encrypted": [{"format": "qcow2", "compression": "zlib", "encryption": "luks"}],
    "aged-needs-allocation": [{"state": "aged", "preallocation": "falloc"}],
    "native-has-no-guest": [
        {"backing": "native", "bus": "sata"},
        {"backing": "native", "vcpus": 2},
        {"backing": "native", "total_iops_sec": 200},
        {"backing": "native", "emulator": "/usr/bin/qemu-system-x86_64"},
    ],
    "null-has-no-storage": [
        {"backing": "null", "format": "qcow2"},
        {"backing": "null", "preallocation": "full"},
        {"backing": "null", "format": "qcow2", "compression": "zstd"},
        {"backing": "null", "format": "qcow2", "encryption": "luks"},
        {"backing": "null", "format": "qcow2", "backing_chain": 1},
        {"backing": "null", "format": "qcow2", "snapshots": 1},
        {"backing": "null", "io": "native"},
        {"backing": "null", "discard": "unmap"},
        {"backing": "null", "detect_zeroes": "on"},
        {"backing": "null", "host_fs": "xfs"},
    ],
    "null-keeps-nothing": [
        *({"backing": "null", "state": state} for state in ("fresh", "rewritten", "aged")),
        {"backing": "null", "guest_fs": "ext4"},
    ],
    "null-has-no-name": [{"backing": "null:nvme0"}],
    "machine-is-as-it-is": [
        {"backing": "machine:esx", "format": "qcow2"},
        {"backing": "machine:esx", "guest_fs": "ext4"},
        {"backing": "machine:esx", "vcpus": 2},
    ],
    "machine-has-a-name": [{"backing": "machine"}],
    "block-formats": [{"backing": "device", "format": "vdi"}],
    "block-preallocation": [{"backing": "partition:p1", "preallocation": "full"}],
    "block-layers": [{"backing": "lvm", "format": "qcow2", "backing_chain": 1}],
    "block-has-no-first-write": [{"backing": "device", "state": "fresh"}, {"backing": "lvm", "state": "aged"}],
    "host-fs-needs-a-file": [{"backing": "zvol", "host_fs": "xfs"}],
    "host-fs-options": [{"host_mkfs": "-O ^has_journal"}, {"host_mount": "noatime"}],
    "guest-fs-options": [{"guest_mkfs": "-m 0"}],
    "guest-fs-size": [{"guest_fs": "xfs", "size": "299M"}, {"guest_fs": "btrfs", "size": "109M"}],
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_rule_refuses_its_cells_and_says_so(rule: Rule) -> None:
    """The sentence has the cell, the reason, the rule's name and who says so."""
    for values in IMPOSSIBLE[rule.name]:
        with pytest.raises(ConfigError) as caught:
            make_config(values)
        assert caught.value.what.endswith(f"{rule.reason} (rule {rule.name}; source: {rule.source}).")


@pytest.mark.parametrize(
    "values",
    [
        {"io": "native"},
        {"io": "native", "cache": "directsync", "bus": "usb"},
        {"bus": "ide", "machine": "pc"},
        {"bus": "virtio-scsi", "iothread": True, "queues": 4, "vcpus": 4},
        {"queues": 2, "queue_size": 1024},
        {"total_iops_sec": 10, "total_bytes_sec": "512k"},
        {"total_iops_sec": 10**15, "bus": "nvme"},
        {"total_bytes_sec": "50M", "backing": "null"},
        {"format": "qcow2", "cluster_size": 512},
        {"format": "qcow2", "extended_l2": True},
        {"format": "vmdk", "subformat": "twoGbMaxExtentFlat"},
        {"format": "vpc", "subformat": "fixed"},
        {"format": "qcow2", "encryption": "luks", "backing_chain": 3},
        {"format": "qcow2", "encryption": "luks", "snapshots": 2},
        {"format": "qcow2", "backing_chain": 3, "compression": "zlib"},
        {"format": "qcow2", "backing_chain": 3, "l2_cache_size": "1M", "bus": "nvme"},
        {"format": "qcow2", "l2_cache_size": "8k", "cluster_size": "2M"},
        {"format": "qcow2", "l2_cache_size": "1k", "cluster_size": 512},
        {"format": "qcow2", "metadata_cache_size": "264k"},
        {"format": "qcow2", "metadata_cache_size": "8200k", "cluster_size": "2M"},
        {"backing": "native", "host_fs": "ext4", "host_mount": "noatime", "state": "aged"},
        {"backing": "device:ssd", "format": "qcow2", "state": "fresh"},
        {"backing": "zvol", "state": "fresh"},
        {"backing": "null", "cache": "unsafe", "bus": "virtio-scsi", "iothread": True, "queues": 2, "scheduler": "bfq"},
        {"guest_fs": "xfs", "guest_mkfs": "-d agcount=64", "scheduler": "bfq", "memory": "1G"},
    ],
    ids=str,
)
def test_what_can_exist_is_let_through(values: dict[str, object]) -> None:
    """The neighbours of what is refused."""
    assert make_config(values)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("io", "native", "native"),
        ("iothread", True, "iothread=yes"),
        ("iothread", False, "iothread=no"),
        ("queues", 4, "queues=4"),
        ("cluster_size", 65536, "cluster_size=64k"),
        ("l2_cache_size", None, "l2_cache_size=default"),
        ("total_iops_sec", 200, "total_iops_sec=200"),
        ("total_bytes_sec", 50 * 2**20, "total_bytes_sec=50M"),
        ("subformat", None, "default"),
        ("subformat", "fixed", "fixed"),
    ],
)
def test_a_number_or_a_yes_bears_its_axis_name(name: str, value: object, text: str) -> None:
    """A "4" would say nothing; "native" does."""
    assert axis_text(name, value) == text


def test_default_is_a_value_of_axes_that_qemu_decides() -> None:
    """A sweep can have it beside others, also in TOML, which has no null; the cell is that of no value at all."""
    for name in ("subformat", "queues", "queue_size", "cluster_size", *CACHE_FIELDS, *LIMITS, "emulator"):
        assert make_config({name: "default"}) == StorageConfig()
        assert axis_text(name, "default").endswith("default")


def test_what_was_chosen_stands_in_the_id() -> None:
    """Behind the first four, in the axes' order, and only where it is no default."""
    config = StorageConfig(format="qcow2", vcpus=2, queues=2, io="native", cluster_size="128k")
    assert str(config) == "qcow2-none-virtio-blk-off-native-queues=2-cluster_size=128k-vcpus=2"


@pytest.mark.parametrize(
    ("values", "machine"), [({}, "q35"), ({"bus": "ide"}, "pc"), ({"machine": "pc"}, "pc"), ({"bus": "usb"}, "q35")]
)
def test_the_machine_follows_the_bus_unless_it_is_given(values: dict[str, object], machine: str) -> None:
    """q35 has no IDE."""
    assert make_config(values).machine_type == machine


def test_a_saved_cell_reads_back() -> None:
    """What the journal and the saved file hold is the same cell again."""
    config = make_config({"format": "qcow2", "size": "3G", "state": "fresh", "io": "native", "l2_cache_size": "1M"})
    assert StorageConfig.model_validate_json(config.model_dump_json()) == config


def test_a_misspelt_field_is_told_with_the_one_that_is_near() -> None:
    """Before all that there are."""
    with pytest.raises(ConfigError, match=r"has no field 'fromat'\. Did you mean 'format'\? It has: format, cache,"):
        make_config({"fromat": "raw"})


@pytest.mark.parametrize("name", ["queues", "vcpus", "backing_chain", "memory", "size"])
def test_a_yes_is_no_number(name: str) -> None:
    """Python takes True for 1; where a yes is meant it is taken."""
    with pytest.raises(ConfigError, match=f"{name}=True is "):
        make_config({name: True})
    assert make_config({"iothread": True}).iothread


def test_the_fields_that_vary_are_told_in_their_order() -> None:
    """Those in which not all cells are equal; of no cell, and of one, none."""
    cells = [StorageConfig(), StorageConfig(vcpus=2), StorageConfig(cache="unsafe", size="2G")]
    assert varying_fields(cells) == ("cache", "vcpus", "size")
    assert varying_fields([]) == varying_fields(cells[:1]) == ()
