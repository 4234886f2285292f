"""Makes guest and host forget what they cached of the disk under test, before each round."""

from __future__ import annotations

from pytest_vmstorage.command import check_time
from pytest_vmstorage.errors import WorkloadError
from pytest_vmstorage.hygiene import Hygiene
from pytest_vmstorage.subject import Subject
from pytest_vmstorage.workloads.base import Target, Workload

# the disk's own cached pages and no others (BLKFLSBUF): the tools are not read anew in each round
FORGET = 'sync; blockdev --flushbufs "$1"; rm -f "$2"'
# of a file only its own pages: dd with nocache and count=0 is posix_fadvise(POSIX_FADV_DONTNEED) (coreutils manual)
FORGET_FILE = (
    'sync "$1" && dd if="$1" iflag=nocache count=0 status=none && { [ -z "$3" ] || blockdev --flushbufs "$3"; } &&'
    ' rm -f "$2"'
)
# files come and go, so that nobody can name the pages: all go, where there is the right to
FORGET_ALL = 'sync && { [ "$(id -u)" != 0 ] || echo 3 >/proc/sys/vm/drop_caches; } && rm -f "$2"'
# where the user wants no pages dropped: only a stale result goes
KEEP_PAGES = 'sync; rm -f "$2"'
KEEP_DIRTY = 'rm -f "$2"'


def forget(subject: Subject, workload: Workload, target: Target, hygiene: Hygiene) -> str:
    """Drop cached pages in guest and host, as far as the user wants it; what was done on the host."""
    # the output file goes too: a stale result is never read as a new one
    output = workload.output_file(target) or "/nonexistent"
    script, words = (FORGET_FILE, (output, subject.device)) if subject.is_file else (FORGET, (output,))
    if workload.needs_folder:
        script = FORGET_ALL
    if not hygiene.has("guest-caches"):
        script = KEEP_PAGES if hygiene.has("sync") else KEEP_DIRTY
    done = subject.shell.run(["/bin/sh", "-c", script, "sh", subject.disk, *words], timeout_s=120)
    what = "Dropping the guest's cached pages of the disk"
    check_time(done, what)
    if not done.ok:
        raise WorkloadError(f"{what} failed.", output=done.tail())
    if hygiene.has("host-caches"):
        return subject.drop_host_caches()
    if hygiene.has("sync"):
        subject.sync_host()
    return hygiene.caches("host-caches", done="")
