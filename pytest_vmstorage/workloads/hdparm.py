"""hdparm -t and -T: one stream of reads from the beginning of the disk. Options carry hdparm's own names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, model_validator

from pytest_vmstorage.errors import ConfigError, UnsupportedError, WorkloadError
from pytest_vmstorage.results.run import Metric
from pytest_vmstorage.workloads.base import Target, Workload, metrics_in

if TYPE_CHECKING:
    from typing import Unpack

    from pytest_vmstorage.workloads.signatures import HdparmOptions

_DEVICE_SECONDS = 6.0
_CACHE_SECONDS = 7.0
_BLOCK = 2 * 2**20
_LINES = {
    "buffered_read": re.compile(r"Timing (?:buffered|O_DIRECT) disk reads:(.*)"),
    "cached_read": re.compile(r"Timing (?:O_DIRECT )?cached reads:(.*)"),
}
_RATE = re.compile(r"\s*\d+ MB in\s+[\d.]+ seconds =\s*(\d+\.\d+) (MB|kB)/sec")
_PER_MIB = {"MB": 1.0, "kB": 1024.0}


class Hdparm(Workload):
    """hdparm's timings: `t` reads the disk for up to 3 s, `T` one 2 MiB block again and again; one or both.

    Figures in MiB/s: `buffered_read` of -t, `cached_read` of -T, also with `direct`, which goes around the
    guest's page cache. hdparm reads in blocks of 2 MiB and its "MB" is 2**20 bytes (its source,
    TIMING_BUF_MB). -T without `direct` measures memory, not the disk. A disk smaller than 3 s of reading is
    read once. Raises ConfigError when neither timing is asked for.
    """

    tool: ClassVar[str] = "hdparm"
    writes: ClassVar[bool] = False

    t: bool = Field(False, description="Perform timings of device reads.")
    T: bool = Field(False, description="Perform timings of cache reads.")
    direct: bool = Field(False, description="Use O_DIRECT, which bypasses the page cache, for these timings.")

    if TYPE_CHECKING:

        def __init__(self, **options: Unpack[HdparmOptions]) -> None: ...

    @model_validator(mode="after")
    def _times_something(self) -> Hdparm:
        if not (self.t or self.T):
            raise ConfigError(
                "Hdparm() times nothing.", hint="Write Hdparm(t=True), Hdparm(T=True) or both.", code="VM302"
            )
        return self

    @property
    def _options(self) -> tuple[str, ...]:
        given = {"-t": self.t, "-T": self.T, "--direct": self.direct}
        return tuple(option for option, is_given in given.items() if is_given)

    @property
    def label(self) -> str:
        """The command without its device."""
        return " ".join(("hdparm", *self._options))

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """A rate for each timing."""
        return metrics_in("MiB/s", "higher", *self.shown)

    @property
    def shown(self) -> tuple[str, ...]:
        """All of them."""
        return (*(["buffered_read"] if self.t else []), *(["cached_read"] if self.T else []))

    @property
    def expected_seconds(self) -> float:
        """With the 3 s that hdparm sleeps before each timing, and 2 s more around -T."""
        return _DEVICE_SECONDS * self.t + _CACHE_SECONDS * self.T

    def argv(self, target: Target) -> tuple[str, ...]:
        """The command line; raises ConfigError for a region hdparm cannot keep to, or one below 2 MiB.

        Raises UnsupportedError where the target is a file on no block device: hdparm asks a device for its size.
        """
        if not target.block_device:
            raise UnsupportedError(
                f"{self.label} times block devices, and {target.path} is a file.",
                hint="Leave guest_fs out.",
                code="VM330",
            )
        if target.offset_bytes:
            raise ConfigError(
                f"{self.label} cannot begin at byte {target.offset_bytes}.",
                hint="hdparm reads from the beginning of the disk; give it a whole disk.",
                code="VM311",
            )
        if target.size_bytes < _BLOCK:
            raise ConfigError(
                f"{self.label} reads blocks of 2 MiB, more than {target.path} has.",
                hint="Make the disk larger (the cell's size).",
                code="VM306",
            )
        return ("hdparm", *self._options, target.block_device)

    def parse(self, text: str) -> Mapping[str, float]:
        """Figures from hdparm's own rates; raises WorkloadError where one is missing.

        hdparm computes its rate from microseconds, but prints seconds with two digits: on a fast or small disk
        ("64 MB in  0.01 seconds = 6869.90 MB/sec") a division of its numbers would be 7 % off.
        """
        return {name: _rate(name, text) for name in self.shown}


def _rate(name: str, text: str) -> float:
    line = _LINES[name].search(text)
    match = _RATE.match(line[1]) if line else None
    if match is None or not float(match[1]):
        option = "-t" if name == "buffered_read" else "-T"
        raise WorkloadError(f"hdparm {option} printed no rate.", output=text, code="VM702")
    return float(match[1]) / _PER_MIB[match[2]]
