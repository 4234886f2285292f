"""Static web pages from the disk under test: nginx serves them to wrk over the guest's loopback."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field, model_validator

from pytest_vmstorage.errors import ConfigError, UnsupportedError, WorkloadError
from pytest_vmstorage.results.run import Metric
from pytest_vmstorage.units import Bytes, Seconds, format_size
from pytest_vmstorage.workloads.base import MIB, Commands, FileWorkload, Many, Seed, Target, metrics_in
from pytest_vmstorage.workloads.script import FRESH, bash

if TYPE_CHECKING:
    from typing import Unpack

    from pytest_vmstorage.workloads.signatures import WebOptions

_BLOCK = 4096
_SOURCE = 8 * MIB
_START_SECONDS = 3.0
_MISSING = "vmstorage: missing "
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_BYTES = {"": 1, "K": 2**10, "M": MIB, "G": 2**30, "T": 2**40}

# one process cuts the pages out of one line of random bytes; nginx's settings and wrk's script, which chooses pages,
# lie in the scratch folder
_MAKE = (
    FRESH
    + r"""
fresh "$1" "$2"
chmod 755 "$1"
check_room "$1" "$3" "the pages need"
cd "$1"
random_line | awk -v pages="$4" -v size="$5" -v seed="$6" '
  {
    srand(seed); ORS = ""
    for (i = 0; i < pages; i++) {
      name = "p" i
      print substr($0, 1 + int(rand() * (length($0) - size)), size) > name
      close(name)
    }
  }'
printf '%s' "$7" >"$2/nginx.conf"
printf '%s' "$8" >"$2/pages.lua"
"""
)

# a guest without a network has its loopback down
_RUN = r"""
set -eo pipefail
for tool in nginx wrk; do
  command -v "$tool" >/dev/null || { echo "vmstorage: missing $tool"; exit 0; }
done
read -r flags </sys/class/net/lo/flags
[ $((flags & 1)) = 1 ] || busybox ip link set lo up
nginx -v 2>&1
nginx -c "$1/nginx.conf" -p "$1" -e "$1/error.log" || { cat "$1/error.log" >&2; exit 1; }
status=0
wrk --latency -t 1 -c "$2" -d "$3" -s "$1/pages.lua" "http://127.0.0.1:$4" || status=$?
nginx -c "$1/nginx.conf" -p "$1" -e "$1/error.log" -s quit
while [ -e "$1/nginx.pid" ]; do sleep 0.05; done
cat "$1/error.log"
exit $status
"""

_STOP = '[ ! -e "$1/nginx.pid" ] || kill "$(cat "$1/nginx.pid")" || true'

_CONF = """\
user root;
worker_processes {workers};
pid {place}/nginx.pid;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  sendfile {sendfile};
  client_body_temp_path {place}/body;
  proxy_temp_path {place}/proxy;
  fastcgi_temp_path {place}/fastcgi;
  uwsgi_temp_path {place}/uwsgi;
  scgi_temp_path {place}/scgi;
  server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""

_LUA = """\
math.randomseed({seed})
request = function()
  return wrk.format("GET", "/p" .. math.random(0, {last}))
end
"""

_RATE = re.compile(r"^Requests/sec:\s*([\d.]+)", re.MULTILINE)
_TRANSFER = re.compile(r"^Transfer/sec:\s*([\d.]+)([KMGT]?)B", re.MULTILINE)
_LATENCY = re.compile(r"^\s+(50|99)%\s+([\d.]+)(us|ms|s|m|h)$", re.MULTILINE)
_WRONG = re.compile(r"^\s*(Socket errors:.*|Non-2xx or 3xx responses:.*)$", re.MULTILINE)


class Web(FileWorkload):
    """nginx serves `pages` files of `size` bytes from the disk under test; wrk asks for them in random order.

    wrk keeps `connections` open for `duration` seconds, each with the next request after each answer; `seed` decides
    the order. Server and load run in the same guest, over its loopback, and share its CPUs. `workers` and `sendfile`
    are nginx's.

    Each page comes from the disk once, and then from the guest's page cache: unless `pages` times `size` is larger
    than the guest's memory, it measures nginx, the network code and the CPU, and storage only in the first moments.
    So did the study of 2017, which had one page (`Web.published()`: one page, 100 connections, as Phoronix'
    pts/apache; its server was Apache and its client ab, which requests a single page). Nothing is written.

    Figures: `requests` a second, `lat_p50` and `lat_p99` in seconds, `bw` in MiB/s with headers. An answer other than a
    page, or a connection that fails, is an error. Skipped where the guest has no nginx or wrk.
    """

    tool: ClassVar[str] = "nginx"
    shown: ClassVar[tuple[str, ...]] = ("requests", "lat_p99")
    metrics: ClassVar[tuple[Metric, ...]] = (
        *metrics_in("requests/s", "higher", "requests"),
        *metrics_in("s", "lower", "lat_p50", "lat_p99"),
        *metrics_in("MiB/s", "higher", "bw"),
    )

    pages: Many = Field(1000, description="Number of pages.")
    size: Bytes = Field(16 * 2**10, description="Bytes of a page.")
    connections: Annotated[int, Field(ge=1, le=1000)] = Field(
        10, description="Number of connections that wrk keeps open."
    )
    duration: Seconds = Field(3.0, description="How long wrk asks for pages, in whole seconds.")
    workers: Annotated[int, Field(ge=1, le=1000)] = Field(1, description="Number of nginx's worker processes.")
    sendfile: bool = Field(True, description="Whether nginx sends files by sendfile(2).")
    seed: Seed = Field(1, description="Number that decides the order of the pages.")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(8080, description="Port on the guest's loopback.")

    if TYPE_CHECKING:

        def __init__(self, **options: Unpack[WebOptions]) -> None: ...

    @model_validator(mode="after")
    def _goes_together(self) -> Web:
        if not 0 < self.size <= _SOURCE // 2:
            raise ConfigError(
                f"Web(size={format_size(self.size)}) is not the size of a page.", hint="Give up to 4M.", code="VM302"
            )
        if self.duration < 1 or self.duration != int(self.duration):
            raise ConfigError(
                f"Web(duration={self.duration:g}) is not whole seconds, which is all wrk takes.",
                hint="Give 1 or more.",
                code="VM302",
            )
        return self

    @classmethod
    def published(cls) -> Web:
        """The load of a study of 2017, for a minute."""
        return cls(pages=1, connections=100, duration=60)

    @property
    def label(self) -> str:
        """The pages and connections, then options that differ from the defaults."""
        parts = ["web", f"{self.pages} pages", format_size(self.size), f"c={self.connections}"]
        return " ".join([*parts, *self._changed("workers", "seed"), *([] if self.sendfile else ["sendfile=off"])])

    @property
    def bytes_on_disk(self) -> int:
        """Each page in whole blocks of 4 KiB, and one for its inode and its name."""
        return self.pages * (-(-self.size // _BLOCK) + 1) * _BLOCK

    @property
    def expected_seconds(self) -> float:
        """Its duration, and the time to start and stop."""
        return self.duration + _START_SECONDS

    def setup(self, target: Target) -> Commands:
        """Make the pages, nginx's settings and wrk's script; fails without room."""
        place, own = self.place(target), self.scratch_path(target)
        sendfile = "on" if self.sendfile else "off"
        conf = _CONF.format(place=own, root=place, port=self.port, workers=self.workers, sendfile=sendfile)
        lua = _LUA.format(seed=self.seed, last=self.pages - 1)
        numbers = map(str, (self.bytes_on_disk, self.pages, self.size, self.seed))
        return (bash(_MAKE, place, own, *numbers, conf, lua),)

    def argv(self, target: Target) -> tuple[str, ...]:
        """nginx starts, wrk runs, nginx ends."""
        return bash(_RUN, self.scratch_path(target), str(self.connections), f"{self.duration:.0f}s", str(self.port))

    def cleanup(self, target: Target) -> Commands:
        """Stop an nginx that still runs, remove pages and settings."""
        return (bash(_STOP, self.scratch_path(target)), *super().cleanup(target))

    def parse(self, text: str) -> Mapping[str, float]:
        """Figures from wrk; raises WorkloadError for answers other than pages, UnsupportedError without the tools."""
        missing = [line.removeprefix(_MISSING) for line in text.splitlines() if line.startswith(_MISSING)]
        if missing:
            raise UnsupportedError(
                f"{self.label} needs {missing[0]}, which the guest does not have.",
                hint="Install nginx and wrk in the guest.",
                code="VM329",
            )
        wrong = _WRONG.search(text)
        if wrong:
            raise WorkloadError(f"Not every page was served: {wrong[1].strip()}.", output=text, code="VM710")
        rate, moved = _RATE.search(text), _TRANSFER.search(text)
        latency = {percent: float(number) * _SECONDS[unit] for percent, number, unit in _LATENCY.findall(text)}
        if rate is None or moved is None or len(latency) != 2 or not float(rate[1]):
            raise WorkloadError("wrk printed no figures.", output=text, code="VM702")
        return {
            "requests": float(rate[1]),
            "lat_p50": latency["50"],
            "lat_p99": latency["99"],
            "bw": float(moved[1]) * _BYTES[moved[2]] / MIB,
        }
