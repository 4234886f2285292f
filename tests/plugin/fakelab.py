"""A plugin for pytester runs that opens the shipped fake lab; VMS_FAKE (JSON) says how it behaves.

That is `pytest_vmstorage.testing.LabOptions`, and: `log`, a file that gets a line for each event; `open`, the sentence
with which the host refuses; `leases`, a folder: then hosts are leased for real, by files in it; `interrupts`, the round
of the run at which the user presses Ctrl-C; `kills`, a pattern of cells a round of which kills this process, such
as `raw-*` or `raw-* round 2`. Several
hosts are as many fakes, of the names that the user gave.
"""

from __future__ import annotations

import fnmatch
import itertools
import json
import os
import signal
from pathlib import Path


def pytest_vmstorage_open_lab(config, settings, say):
    """Open the fake in place of the real lab."""
    # not imported before: these tests also count what a run without storage tests imports
    from pytest_vmstorage.errors import HostError
    from pytest_vmstorage.host.calibrations import held_calibration
    from pytest_vmstorage.host.lock import HostLease
    from pytest_vmstorage.host.shell import LocalShell
    from pytest_vmstorage.testing.lab import make_lab
    from pytest_vmstorage.testing.options import LabOptions

    wishes = json.loads(os.environ["VMS_FAKE"])
    log, refusal, leases, kills, interrupts = map(wishes.pop, ("log", "open", "leases", "kills", "interrupts"))
    rounds = itertools.count(1)

    def note(event):
        with Path(log).open("a") as stream:
            stream.write(f"{os.getpid()} {event}\n")

    def before_round(cell, number):
        if next(rounds) == interrupts:
            raise KeyboardInterrupt
        if fnmatch.fnmatch(f"{cell} round {number}", kills):
            note(f"killed by {cell}")
            os.kill(os.getpid(), signal.SIGKILL)

    if refusal:
        raise HostError(refusal, hint="Install it.")
    name, lease = settings.host or "fakehost", None
    if leases:
        folder = Path(leases) / name
        folder.mkdir(parents=True, exist_ok=True)
        lease = HostLease(LocalShell(), name, wait_s=settings.wait_s, folders=(str(folder),))
        lease.keep(say)
    say("opening the fake lab")
    note(f"open {settings.host}" if settings.host else "open")
    lab = make_lab(
        Path(log).parent / f"lab-{os.getpid()}",
        settings=settings,
        options=LabOptions.model_validate({"accel": "kvm", "name": name, **wishes}),
        host_lease=lease,
        note=note,
        before_round=before_round,
    )
    lab.calibration = held_calibration(lab.facts).calibration
    return lab
