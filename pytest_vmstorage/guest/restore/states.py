"""Saved guests on a host: named by their dependencies, checked, copied, given another XML, kept within a limit.

A state is a file of libvirt's with the appliance in memory as it was before its first command. A kept state is never
restored itself: each run has a copy in its own folder, whose beginning it rewrites for each guest.

Source: struct _virQEMUSaveHeader in libvirt's src/qemu/qemu_saveimage.h, version 2 (libvirt 0.9.5 and later; read and
written with 9.0): 16 bytes of magic, five little-endian numbers of 32 bits, 56 bytes without use, the XML that ends
with a zero byte, a cookie that does so too, and zeros up to `room`. libvirt leaves 64 KiB there for longer XML.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
import struct
import threading
from collections.abc import Mapping
from types import MappingProxyType

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.buses import BUSES, CACHES, Bus
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.settings import Accel
from pytest_vmstorage.errors import ProvisionError
from pytest_vmstorage.guest.domain_xml import NOBODY, GuestSpec, domain_xml
from pytest_vmstorage.guest.provenance import Provenance
from pytest_vmstorage.host.resident import ResidentFiles
from pytest_vmstorage.host.shell import Shell, check

MAGIC = b"LibvirtQemudSave"
VERSION = 2
_NUMBERS = struct.Struct("<5I")
_BEFORE = len(MAGIC) + _NUMBERS.size + 56


class SaveImage(BaseModel):
    """The beginning of a saved guest's file, before QEMU's stream: `xml`, libvirt's `cookie`, `room` bytes for both."""

    model_config = ConfigDict(frozen=True)

    xml: str
    cookie: bytes
    room: int

    @property
    def size_bytes(self) -> int:
        """The length of the beginning, where QEMU's stream starts."""
        return _BEFORE + self.room

    def with_xml(self, xml: str) -> bytes:
        """The beginning, as long as before, for a domain of that XML that runs at once; raises ValueError."""
        text = xml.encode() + b"\0"
        content = text + self.cookie
        if len(content) > self.room:
            raise ValueError(f"XML of {len(text)} bytes does not fit into the {self.room} bytes of a saved guest")
        numbers = _NUMBERS.pack(VERSION, self.room, 1, 0, len(text) if self.cookie else 0)
        return MAGIC + numbers + bytes(56) + content.ljust(self.room, b"\0")


def read_save_image(data: bytes) -> SaveImage:
    """Read the beginning of a file, of which `data` may have more; raises ValueError for any other file.

    A file that libvirt has not finished has another magic; a compressed stream cannot be used.
    """
    if len(data) < _BEFORE or not data.startswith(MAGIC):
        raise ValueError("it is not what libvirt saves a guest in")
    version, room, _, compressed, cookie_at = _NUMBERS.unpack_from(data, len(MAGIC))
    if version != VERSION or compressed:
        raise ValueError(f"it is of version {version}, compressed by {compressed}, and not of {VERSION} and by 0")
    content = data[_BEFORE : _BEFORE + room]
    if len(content) < room or cookie_at > room:
        raise ValueError("its beginning is not whole")
    xml = content[: cookie_at or room].partition(b"\0")[0].decode()
    cookie = content[cookie_at:].partition(b"\0")[0] + b"\0" if cookie_at else b""
    return SaveImage(xml=xml, cookie=cookie, room=room)


KEPT_BYTES = 2 * 2**30
"""Limit of all kept states on a host; an appliance of 512 MiB takes 140 MiB."""

_HEAD_BYTES = 2**20
_TAKE = """
cd -- "$1" 2>/dev/null && [ -e "$2" ] && [ -e "$2.sum" ] || exit 3
# side by side: what is summed is read once; a copy that fails, as on a full disk, is no damage of what is kept
cp --reflink=auto --sparse=always -- "$2" "$3" &
printf '%s  %s\\n' "$(cat -- "$2.sum")" "$2" | b2sum --quiet -c -
said=$?
wait $! || { rm -f -- "$3"; [ $said != 0 ] || exit 3; }
exit $said
"""
_KEEP = """
set -e
mkdir -p -m 700 -- "$1"
cd -- "$1"
for old in state-* .state-*.new; do
    case $old in "$5"*) ;; *) rm -f -- "$old" ;; esac
done
rm -f -- "$2.sum"
cp --reflink=auto --sparse=always -- "$3" ".$2.new"
sum=$(b2sum <".$2.new")
mv -- ".$2.new" "$2"
printf '%s\\n' "${sum%% *}" >"$2.sum"
ls -t | grep -v '[.]sum$' | {
    left=$4
    while read -r name; do
        left=$((left - $(stat -c %b -- "$name") * 512))
        [ "$left" -gt 0 ] || rm -f -- "$name" "$name.sum"
    done
}
"""


class State(BaseModel):
    """A run's own copy of a saved guest: its `path` on the host, and its beginning."""

    model_config = ConfigDict(frozen=True)

    path: str
    head: SaveImage


class States:
    """The saved guests of one lab host in `folder`, and a run's copies of them in `own`.

    `conditions` are the host's part of the states' names. States of another boot of the host than `boot_id` are of no
    use and removed. On this machine the copies stay in the page cache.
    """

    def __init__(
        self,
        shell: Shell,
        folder: str,
        own: str,
        *,
        boot_id: str,
        conditions: Mapping[str, str],
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self._shell, self._folder, self._own, self._kept_bytes = shell, folder, own, kept_bytes
        self._of_boot = f"state-{hashlib.sha256(boot_id.encode()).hexdigest()[:8]}-"
        self._conditions = {**conditions, "boot_id": boot_id}
        self._provenance = Provenance(shell)
        self._taken: dict[str, State | None] = {}
        self._keeping = threading.Lock()
        self._resident = ResidentFiles(shell)

    def name(self, spec: GuestSpec) -> str:
        """The name of the state for that guest, a digest of everything that the state depends on."""
        parts = {
            **self._conditions,
            "qemu_sha256": self._provenance.binary(spec.emulator),
            "root_sha256": spec.root_sha256,
            "xml": neutral_xml(spec),
            # the XML has only the path of the disk
            "size_bytes": spec.config.size if spec.config is not None and BUSES[spec.config.bus].is_ata else None,
        }
        return self._of_boot + hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    def path(self, name: str) -> str:
        """The path of the run's own copy."""
        return f"{self._own}/{name}"

    def take(self, name: str) -> State | None:
        """The run's own copy, made if need be; None where the state is missing, or damaged and then removed."""
        if name not in self._taken:
            done = self._shell.run(["sh", "-c", _TAKE, "sh", self._folder, name, self.path(name)])
            self._taken[name] = self._read(name) if done.ok else None
            if self._taken[name] is not None:
                self._resident.hold(self.path(name))
            elif done.returncode != 3:
                self.drop(name)
        return self._taken[name]

    def keep(self, name: str) -> State:
        """Keep the run's own copy for later runs, and remove the oldest over the limit; raises ProvisionError."""
        state = self._read(name)
        if state is None:
            raise ProvisionError(f"{self.path(name)} is not what libvirt saves a guest in.", code="VM516")
        argv = ["sh", "-c", _KEEP, "sh", self._folder, name, state.path, str(self._kept_bytes), self._of_boot]
        # a state that another thread has half kept would be taken for one that a killed run left
        with self._keeping:
            check(self._shell.run(argv), f"keeping a saved guest in {self._folder}")
        self._taken[name] = state
        self._resident.hold(state.path)
        return state

    def drop(self, name: str) -> None:
        """Remove a state that cannot be used."""
        self._taken[name] = None
        self._resident.release(self.path(name))
        kept = f"{self._folder}/{name}"
        self._shell.run(["rm", "-f", "--", kept, f"{kept}.sum", self.path(name)])

    def close(self) -> None:
        """Let the run's copies leave the page cache; they are removed with the run's folder."""
        self._resident.close()

    def write_head(self, state: State, xml: str) -> None:
        """Write that XML into the run's own copy; raises ProvisionError."""
        try:
            head = state.head.with_xml(xml)
        except ValueError as error:
            raise ProvisionError(f"{error}.", code="VM516") from None
        argv = ["dd", f"of={state.path}", "bs=1M", "conv=notrunc", "iflag=fullblock", "status=none"]
        check(self._shell.run(argv, stdin=head), "naming a saved guest anew")

    def _read(self, name: str) -> State | None:
        path = self.path(name)
        done = self._shell.run(["sh", "-c", f"head -c {_HEAD_BYTES} -- {shlex.quote(path)} | base64 -w0"])
        try:
            return State(path=path, head=read_save_image(base64.b64decode(done.stdout)))
        except ValueError:
            return None


def is_restorable(spec: GuestSpec) -> bool:
    """Whether such a guest may be restored: it boots the appliance, and looks at its disk afresh."""
    return spec.config is not None and spec.image is None and has_restorable_disk(spec.config)


def has_restorable_disk(config: StorageConfig) -> bool:
    """Whether a saved guest looks at such a disk afresh, and QEMU leaves the disk as it is.

    When QEMU restores an ATA disk it turns the write cache on, whatever the disk was (hw/ide/core.c,
    ide_drive_post_load: it looks at byte 85 of the identify data for word 85). Then nothing is flushed for a write, and
    the guest, which was told that there is no write cache, asks for no flush: tried with 7.2.22, where of 1017 writes
    with writethrough on sata 4 were flushed to the device, and on ide none.
    """
    bus = BUSES[config.bus]
    loses_its_mode = bus.is_ata and not CACHES[config.cache].write_cache
    return bus.is_restorable and not config.is_null and not loses_its_mode


NOT_CALIBRATED: Mapping[Bus, bool] = MappingProxyType({})
"""What a host without a calibration says of its buses."""


def is_proven(spec: GuestSpec, calibrated: Mapping[Bus, bool] = NOT_CALIBRATED) -> bool:
    """Whether such a guest, restored, was shown to have the figures of a booted one; `calibrated` as `is_meant_for`."""
    if spec.config is None or not is_restorable(spec):
        return False
    return is_meant_for(spec.config, None, spec.accel, calibrated)


def is_meant_for(
    config: StorageConfig, boot: str | None, accel: Accel, calibrated: Mapping[Bus, bool] = NOT_CALIBRATED
) -> bool:
    """Whether the appliance is to be restored for that cell with --vm-boot=`boot`, if all goes well.

    `calibrated` says of buses whether the host's own calibration found restored guests to be equal to booted ones.
    """
    is_equal = calibrated.get(config.bus, accel in BUSES[config.bus].proven_restored)
    return (boot == "restore" or (boot is None and is_equal)) and has_restorable_disk(config)


def neutral_xml(spec: GuestSpec) -> str:
    """The XML without the parts in which guests of one state may differ: names, files, and the host's own settings.

    The write cache, the size and the like are the disk's: a driver that is bound again asks for them.
    """
    config = spec.config
    assert config is not None
    of_guest = ("bus", "machine", "iothread", "queues", "queue_size", "vcpus", "memory", "emulator")
    # no guest sees the host's side of its cache, and only ATA disks with a write cache are restored
    plain = type(config)(**{name: getattr(config, name) for name in of_guest}, size="1G")
    paths = {what: what for what in ("name", "disk", "console")}
    update = {**paths, "uuid": NOBODY, "genid": NOBODY, "config": plain, "is_block": False, "pinning": None}
    return domain_xml(spec.model_copy(update=update))


def remove_states(shell: Shell, folder: str, *, look_only: bool = False) -> int:
    """Remove all states in a folder that no run needs any more, or only count them; returns their number."""
    script = 'cd -- "$1" 2>/dev/null || exit 0; ls -A | grep -c -v "[.]sum$"; [ -n "$2" ] || rm -rf -- "$1"'
    done = shell.run(["sh", "-c", script, "sh", folder, "look" if look_only else ""])
    return int(done.stdout or 0)
