"""What a format offers beside speed: a French study of 2017 tells it in words, here it is timed and counted.

It compared raw, qcow2 and ZFS volumes by ease of handling, thin provisioning, snapshot and migration, without a figure.
Here each is an operation on whole images, on the file system as it is found, and on an xfs and a btrfs made for it, on
which raw has snapshots too.

    pytest examples/studies/test_whole_images.py
    STUDY=published DATASET=tank GROUP=vg0 pytest examples/studies/test_whole_images.py    # with vmstorage.toml's
"""

import os

import pytest
from presets import Preset, choose

from pytest_vmstorage import ImageOperations

PRESET = choose(
    quick=Preset(disk="256M", small="64M", large="64M"),
    published=Preset(disk="32G", small="8G", large="8G"),
)
FILES = [
    (format_, {"host_fs": host_fs}) for format_ in ("raw", "qcow2", "vmdk") for host_fs in ("as-found", "xfs", "btrfs")
]
VOLUMES = [
    ("raw", {"backing": f"{kind}:{os.environ[name]}"})
    for kind, name in (("zvol", "DATASET"), ("lvm", "GROUP"))
    if name in os.environ
]


def cells():
    """The images as parametrize has them."""
    for format_, ground in FILES + VOLUMES:
        mark = pytest.mark.storage(format=format_, size=PRESET.disk, **ground)
        yield pytest.param(marks=mark, id=f"{format_}-{next(iter(ground.values()))}")


@pytest.mark.parametrize((), list(cells()))
def test_image(measure_image):
    measure_image(ImageOperations(data=PRESET.small), rounds=3)
