"""Settings of the host for a run: CPU governor, turbo, I/O scheduler; written down, set, and set back."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from pytest_vmstorage.config.settings import HostWishes
from pytest_vmstorage.errors import HostError, ProvisionError, UnsupportedError
from pytest_vmstorage.host.files import Files, read_files
from pytest_vmstorage.host.guard import READS, guard_of
from pytest_vmstorage.host.lease import HostSetting, Lease, LeaseBook
from pytest_vmstorage.host.shell import Shell

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
# pairs of a path and a value; each is tried, and the kernel's messages go to stderr
_WRITE = 'failed=0; while [ $# -gt 1 ]; do echo "$2" >"$1" || failed=1; shift 2; done; exit $failed'
# device mapper and md hand I/O on, and the disks at the bottom schedule it; a partition has its disk's queue
_QUEUES = r"""# reads
sys=$2
leaves() {
    path=$(readlink -f "$sys/class/block/$1"); [ -e "$path/partition" ] && path=${path%/*}
    below=$(ls "$path/slaves" 2>/dev/null)
    [ -n "$below" ] || { echo "$sys/class/block/${path##*/}/queue/scheduler"; return; }
    for one in $below; do leaves "$one"; done
}
source=$1
[ -b "$source" ] || source=$(df --output=source -- "$1" | tail -n 1)
[ -b "$source" ] || exit 3
name=$(readlink -f -- "$source"); leaves "${name##*/}" | sort -u
"""
# a lease may be damaged or hostile: only files that this module sets are ever set back
_OURS = re.compile(
    r"/.*/(devices/system/cpu/(cpufreq/policy\d+/scaling_governor|intel_pstate/no_turbo|cpufreq/boost)"
    r"|class/block/[^/]+/queue/scheduler)"
)
_TURBO = (("devices/system/cpu/intel_pstate/no_turbo", "1", "0"), ("devices/system/cpu/cpufreq/boost", "0", "1"))
"""Files that switch turbo, with their values for off and on (the kernel's admin-guide/pm, intel_pstate and cpufreq)."""


def set_back(shell: Shell, settings: Sequence[HostSetting], held: Collection[str]) -> list[str]:
    """Set files back to what they were; a phrase for each kind of file. Raises ProvisionError if one cannot be written.

    Files that another run holds, that somebody else changed since, or that belong to an earlier boot are left alone.
    """
    boot = shell.read(_BOOT_ID).strip()
    ours = [one for one in settings if one.path not in held and one.boot_id == boot and _OURS.fullmatch(one.path)]
    values = _values(shell, [one.path for one in ours])
    ours = [one for one in ours if values.get(one.path) == one.now]
    problem = _write(shell, {one.path: one.was for one in ours})
    if problem:
        raise ProvisionError(f"A setting of the host could not be set back: {problem}.", code="VM416")
    kinds = dict.fromkeys((PurePosixPath(one.path).name, one.was) for one in ours)
    return [f"{name} set back to {was}" for name, was in kinds]


class HostSettings:
    """The settings that one run makes on its host; each file is in the run's lease before it is written.

    `note` puts settings into the lease. `sysfs` is where the host's sysfs is mounted.
    """

    def __init__(
        self,
        shell: Shell,
        lease: Lease,
        book: LeaseBook,
        note: Callable[[tuple[HostSetting, ...]], None],
        *,
        sysfs: str = "/sys",
    ) -> None:
        self._shell = shell
        self._lease = lease
        self._book = book
        self._note = note
        self._sysfs = sysfs
        self._settings: tuple[HostSetting, ...] = ()
        self._wishes = HostWishes()

    def apply(self, wishes: HostWishes, folder: str) -> None:
        """Make all settings; the scheduler is set on the device below the folder for disks.

        Raises HostError where the host lacks a setting, or this user the right.
        """
        self._wishes = wishes
        if wishes.governor:
            self._governor(wishes.governor)
        if wishes.turbo:
            self._turbo(wishes.turbo)
        if wishes.scheduler:
            self._scheduler(wishes.scheduler, folder)

    def change(self, wishes: HostWishes, folder: str) -> None:
        """Replace the previous settings by these; equal wishes change nothing.

        Raises as `apply` and `restore` do.
        """
        if wishes != self._wishes:
            self.restore()
            self.apply(wishes, folder)

    def notes(self, disk: str) -> Mapping[str, str]:
        """The settings as a row shows them; the scheduler is also set on the device below the row's disk.

        Raises UnsupportedError where that device has no such scheduler.
        """
        wishes, said = self._wishes, {}
        if wishes.governor:
            said["CPU governor"] = f"{wishes.governor}, {self._before('scaling_governor')} (--vm-governor)"
        if wishes.turbo:
            said["turbo"] = f"{wishes.turbo}, {self._before('no_turbo', 'boost')} (--vm-turbo)"
        if wishes.scheduler:
            try:
                names = self._scheduler(wishes.scheduler, disk)
            except HostError as error:
                raise UnsupportedError(error.what, hint=error.hint, code=error.code) from None
            said["host scheduler"] = f"{wishes.scheduler} on {', '.join(names)} (--vm-host-scheduler)"
        return said

    def _before(self, *files: str) -> str:
        changed = dict.fromkeys(one.was for one in self._settings if PurePosixPath(one.path).name in files)
        return f"set for this run from {'/'.join(changed)}" if changed else "as it was found"

    def restore(self) -> None:
        """Set all back; raises ProvisionError, and then the lease still names the settings."""
        if self._settings:
            with self._book.alone():
                set_back(self._shell, self._settings, self._held())
                self._settings, self._wishes = (), HostWishes()
                self._note(())

    def _governor(self, name: str) -> None:
        files = self._look("devices/system/cpu/cpufreq/policy*/scaling_*governor*")
        chosen = [path for path in files if path.endswith("/scaling_governor")]
        if not chosen:
            raise _lacking(f"--vm-governor={name}", "CPU governor", "no cpufreq")
        for path in chosen:
            offered = " ".join(files.get(path.replace("scaling_", "scaling_available_") + "s", ())).split()
            if offered and name not in offered:
                raise HostError(
                    f"--vm-governor={name} is not available on this host.",
                    hint=f"It has: {', '.join(offered)}.",
                    code="VM415",
                )
        self._set(f"--vm-governor={name}", dict.fromkeys(chosen, name))

    def _turbo(self, wanted: str) -> None:
        for file, off, on in _TURBO:
            found = self._look(file)
            if found:
                self._set(f"--vm-turbo={wanted}", dict.fromkeys(found, on if wanted == "on" else off))
                return
        raise _lacking(f"--vm-turbo={wanted}", "turbo", "neither intel_pstate/no_turbo nor cpufreq/boost")

    def _scheduler(self, name: str, path: str) -> list[str]:
        """Set the scheduler on the devices below that path, and return their names."""
        option = f"--vm-host-scheduler={name}"
        done = self._shell.run(["sh", "-c", _QUEUES, "sh", path, self._sysfs])
        files = _look_at(self._shell, done.stdout.split()) if done.ok else {}
        if not files:
            raise HostError(
                f"{option} has no device to be set on: none can be seen below {path}.",
                hint="Leave it out.",
                code="VM415",
            )
        for file, lines in files.items():
            offered = lines[0].replace("[", "").replace("]", "").split()
            if name not in offered:
                where = PurePosixPath(file).parts[-3]
                raise HostError(
                    f"{option} is not available on {where}.", hint=f"It has: {', '.join(offered)}.", code="VM415"
                )
        self._set(option, dict.fromkeys(files, name))
        return [PurePosixPath(file).parts[-3] for file in files]

    def _set(self, option: str, wanted: Mapping[str, str]) -> None:
        with self._book.alone():
            values, held = _values(self._shell, wanted), self._held()
            for path, value in wanted.items():
                if path in held and held[path].now != value:
                    raise HostError(
                        f"{option} cannot be set: another run of pytest-vmstorage on this host has {path} at"
                        f" {held[path].now}.",
                        hint="Wait for its end.",
                        code="VM417",
                    )
            boot = self._shell.read(_BOOT_ID).strip()
            known = _by_path(self._settings)
            new = [
                HostSetting(path=path, was=held[path].was if path in held else values[path], now=value, boot_id=boot)
                for path, value in wanted.items()
                if path not in known and (path in held or values[path] != value)
            ]
            if not new:
                return
            # the old values are on disk before they are overwritten
            self._settings = (*self._settings, *new)
            self._note(self._settings)
            problem = _write(self._shell, wanted)
            values = _values(self._shell, wanted)
            for path, value in wanted.items():
                if values.get(path) != value:
                    problem = problem or f"{path} is {values.get(path)}"
            if problem:
                raise HostError(
                    f"{option} could not be set: {problem}.", hint="That takes root on the host.", code="VM416"
                )

    def _held(self) -> Mapping[str, HostSetting]:
        return _by_path(self._book.held_beside(self._lease))

    def _look(self, pattern: str) -> Files:
        # the shell expands the pattern, which has no blanks
        done = self._shell.run(["sh", "-c", f'{READS}\ngrep -asH "" "$1"/{pattern}', "sh", self._sysfs])
        return read_files(done.stdout)


def _by_path(settings: Iterable[HostSetting]) -> Mapping[str, HostSetting]:
    return {one.path: one for one in settings}


def _lacking(option: str, what: str, why: str) -> HostError:
    return HostError(
        f"{option} cannot be set: this host shows no {what} ({why}), as most virtual machines do.",
        hint='Leave it out; rows then say "unknown".',
        code="VM415",
    )


def _look_at(shell: Shell, paths: Iterable[str]) -> Files:
    return read_files(shell.run(["grep", "-asH", "", "--", *paths, "/dev/null"]).stdout)


def _values(shell: Shell, paths: Iterable[str]) -> Mapping[str, str]:
    """The value of each file; among several words the one in brackets, which is in effect."""
    words = {path: lines[0].split() for path, lines in _look_at(shell, paths).items()}
    return {
        path: next((word.strip("[]") for word in found if word.startswith("[")), " ".join(found))
        for path, found in words.items()
    }


def _write(shell: Shell, values: Mapping[str, str]) -> str:
    """Write the values; returns the error, "" if there is none."""
    words = [word for pair in values.items() for word in pair]
    for path in values:
        guard_of(shell).allow(path)
    done = shell.run(["sh", "-c", _WRITE, "sh", *words])
    return "" if done.ok else done.tail(1).rstrip(".")
