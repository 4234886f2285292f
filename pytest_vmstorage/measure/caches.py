"""Makes guest and host forget what they cached of the disk under test, before each round."""

from __future__ import annotations

from pytest_vmstorage.config.settings import Hygiene
from pytest_vmstorage.errors import WorkloadError
from pytest_vmstorage.host.shell import check_time, run_line
from pytest_vmstorage.measure.system import SystemUnderTest
from pytest_vmstorage.workloads.base import Target, Workload

# the disk's own cached pages, once they are written, and no others (BLKFLSBUF): the tools are not read anew in each
# round; a stale result is emptied, as each further process takes an emulated guest longer than what it does
_STALE = '[ -z "$2" ] || : >"$2"'
FORGET = f'{_STALE}; exec blockdev --flushbufs "$1"'
# of a file only its own pages, once they are written: dd with nocache and count=0 is posix_fadvise(POSIX_FADV_DONTNEED)
# on the whole file (coreutils manual)
FORGET_FILE = (
    f'{{ {_STALE}; }} && dd if=/dev/null of="$1" oflag=nocache conv=notrunc,fdatasync count=0 status=none &&'
    ' { [ -z "$3" ] || exec blockdev --flushbufs "$3"; }'
)
# files come and go, so that nobody can name the pages: all go, where there is the right to
FORGET_ALL = f'sync && {{ [ "$(id -u)" != 0 ] || echo 3 >/proc/sys/vm/drop_caches; }} && {{ {_STALE}; }}'
# where the user wants no pages dropped
KEEP_PAGES = f"sync; {_STALE}"
KEEP_DIRTY = _STALE


def forget_in_guest(system: SystemUnderTest, workload: Workload, target: Target, hygiene: Hygiene) -> None:
    """Drop cached pages where the workload runs, as far as the user wants it; raises WorkloadError."""
    # the output file goes too: a stale result is never read as a new one
    output = workload.output_file(target) or ""
    script, words = (FORGET_FILE, (output, system.paths.device)) if system.paths.is_file else (FORGET, (output,))
    if workload.needs_folder:
        script = FORGET_ALL
    if not hygiene.has("guest-caches"):
        script = KEEP_PAGES if hygiene.has("sync") else KEEP_DIRTY
    done = run_line(system.shell, script, system.paths.disk, *words, timeout_s=120)
    what = "Dropping the guest's cached pages of the disk"
    check_time(done, what)
    if not done.ok:
        raise WorkloadError(f"{what} failed.", output=done.tail())


def forget_on_host(system: SystemUnderTest, hygiene: Hygiene) -> str:
    """Drop what the host cached of the disk, as far as the user wants it; what was done."""
    if hygiene.has("host-caches"):
        return system.drop_caches()
    if hygiene.has("sync"):
        system.write_back()
    return hygiene.caches("host-caches", done="")
