"""A workload of one's own in a few lines: how long a copy takes until it is on the disk.

`Copy` makes a file before each round, outside of what is measured, copies it, and waits until the copy is on the disk.
Its options are fields, checked when they are made; a line "seconds NUMBER" is what it prints, and nothing more has to
be said to read it. The matrix, thresholds, saved runs and the layers' accounts are those of every other workload.

    pytest examples/own_workload
"""

import pytest

from pytest_vmstorage import Metric, Workload


class Copy(Workload):
    """`cp` of a file of `mib` MiB on the file system under test, and `sync` of the copy."""

    tool = "cp"
    package = "coreutils"
    needs_folder = True
    metrics = (Metric(name="seconds", unit="s", better="lower"),)

    mib: int = 32

    def setup(self, target):
        """A file to copy, with data that nothing can shrink."""
        return (("dd", "if=/dev/urandom", f"of={target.folder}/from", "bs=1M", f"count={self.mib}", "conv=fsync"),)

    def argv(self, target):
        """The copy, and its time by bash's own clock."""
        # by itself cp lets the copy share the blocks where the file system can (XFS, btrfs), and copies nothing
        script = "cp --reflink=never from to && sync to && echo seconds $((${EPOCHREALTIME/./} - begin))e-6"
        return ("bash", "-c", f"cd {target.folder} && begin=${{EPOCHREALTIME/./}} && {script}")

    def cleanup(self, target):
        """Both files go."""
        return (("rm", "-f", f"{target.folder}/from", f"{target.folder}/to"),)


@pytest.mark.parametrize("guest_fs", ["ext4", "xfs"])
@pytest.mark.parametrize("cache", ["none", "writeback"])
@pytest.mark.storage(size="320M")
def test_copy(measure):
    assert measure(Copy(mib=32)).seconds < 60
