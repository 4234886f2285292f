"""Which guests are restored, which are booted, and what happens where a state cannot be had; on fakes.

Tests of `guest.restore.restoring`, and of what `guest.restore.parking` does with the disk.
"""

from __future__ import annotations

import re
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest
from page_cache import ON_DISK, cached_bytes

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.settings import Accel
from pytest_vmstorage.errors import GuestDiedError, GuestError, HypervisorError, LostError
from pytest_vmstorage.guest.agent import AgentShell
from pytest_vmstorage.guest.domain_xml import GuestSpec
from pytest_vmstorage.guest.instance import Begun
from pytest_vmstorage.guest.restore import parking
from pytest_vmstorage.guest.restore.parking import park, wait_until_awake, wake
from pytest_vmstorage.guest.restore.restoring import Restoring
from pytest_vmstorage.guest.restore.states import is_meant_for
from pytest_vmstorage.results import spans
from pytest_vmstorage.results.spans import SpanRecorder, recording
from pytest_vmstorage.testing.guest import FakeDomain, FakeHypervisor
from pytest_vmstorage.testing.shell import FakeShell
from unit.guest.restore.test_states import FILE, spec, states

PARK = re.compile("unbind")
STREAM = {"format": "vmdk", "subformat": "streamOptimized"}
WAKE, SAID, ERRORS = (f"/run/vmstorage-parked.{what}" for what in ("wake", "said", "errors"))


class Saving(FakeDomain):
    """A guest whose state comes into a real file."""

    def save(self, path: str) -> None:
        """As libvirt does."""
        super().save(path)
        Path(path).write_bytes(FILE)


class Scene:
    """What begins guests from states in a folder, of which there are none at first."""

    def __init__(self, folder: Path) -> None:
        self.guest = FakeShell().answer(PARK)
        self.booted: list[str] = []
        self.domains: list[FakeDomain] = []
        self.restored: list[str] = []
        self.noted: list[str] = []
        self.said: list[str] = []
        self.hypervisor = FakeHypervisor(self._boot)
        self.hypervisor.restore = self._restore  # type: ignore[method-assign]
        self.refusals: list[HypervisorError] = []
        self.answers = True
        self.states = states(folder)
        self.restoring = Restoring(
            self.hypervisor,
            self.states,
            xml_of=lambda one: f"<domain><name>{one.name}</name><uuid>{one.uuid}</uuid></domain>",
            note=self.noted.append,
            timeout_s=1,
            say=self.said.append,
        )

    def _boot(self, xml: str) -> FakeDomain:
        self.booted += re.findall("<name>(.*)</name>", xml)
        return Saving(self.guest)

    def _restore(self, xml: str, path: str) -> FakeDomain:
        if self.refusals:
            raise self.refusals.pop(0)
        assert xml.encode() in Path(path).read_bytes()
        self.restored += re.findall("<name>(.*)</name>", xml)
        self.domains.append(FakeDomain(self.guest, boots=self.answers))
        return self.domains[-1]

    def begin(self, **fields: object) -> Begun:
        """Begin a guest of a cell with those fields."""
        return self.restoring.begin(spec(**fields))


def test_the_first_is_saved_and_all_are_restored(tmp_path: Path) -> None:
    """One boot for all; what is booted for it is in the lease before, and gone after."""
    scene = Scene(tmp_path)
    assert [scene.begin(format=kind).is_restored for kind in ("raw", "qcow2", "raw")] == [True] * 3
    assert scene.booted == ["vms-r-1-saved"]
    assert scene.restored == ["vms-r-1"] * 3
    assert list(scene.hypervisor.domains) == scene.noted
    assert scene.hypervisor.running == []
    assert scene.said == ["saving a guest from which others are restored"]


def test_saved_guests_are_in_memory_until_it_is_closed() -> None:
    """All guests of a run are restored from them, and the host's caches are dropped between."""
    with tempfile.TemporaryDirectory(dir=ON_DISK) as folder:
        scene = Scene(Path(folder))
        scene.begin()
        path = Path(scene.states.path(scene.states.name(spec())))
        assert cached_bytes(path) >= len(FILE)
        scene.restoring.close()
        assert cached_bytes(path) == 0


@pytest.mark.parametrize(
    ("state", "is_filled", "fills"), [("filled", False, "yes"), ("filled", True, "no"), ("fresh", False, "no")]
)
def test_nothing_waits_to_fill_what_is_filled(tmp_path: Path, state: str, fills: str, *, is_filled: bool) -> None:
    """The host wrote it already; such a guest is restored from the same saved one."""
    scene = Scene(tmp_path)
    scene.begin()
    scene.restoring.begin(spec(state=state).model_copy(update={"is_filled": is_filled}))
    assert scene.guest.files[WAKE].decode().split()[1] == fills
    assert scene.booted == ["vms-r-1-saved"]


def test_one_is_restored_while_another_wakes(tmp_path: Path) -> None:
    """Each from the run's copy with its own name in it, which no other one writes until that one was restored."""
    scene, met = Scene(tmp_path), threading.Barrier(2)
    scene.begin()
    restore = scene.hypervisor.restore

    def slowly(xml: str, path: str) -> FakeDomain:
        time.sleep(0.05)
        domain = restore(xml, path)
        assert isinstance(domain, FakeDomain)
        domain.wait_for_agent = lambda _timeout_s: met.wait(60) >= 0  # type: ignore[method-assign]
        return domain

    scene.hypervisor.restore = slowly  # type: ignore[method-assign]
    with ThreadPoolExecutor(2) as workers:
        assert [one.is_restored for one in workers.map(lambda _number: scene.begin(), range(2))] == [True] * 2


def test_who_waits_until_the_first_of_its_kind_is_saved_is_not_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a minute of saving is not one of restoring, which takes less than a second."""
    scene, recorder = Scene(tmp_path), SpanRecorder()
    now = time.monotonic()
    told: list[list[str]] = []

    class Slow(Saving):
        def save(self, path: str) -> None:
            limit = now + 60
            while not any(steps[-1:] == ["queue"] for steps in _open_steps(recorder)):
                assert time.monotonic() < limit
                time.sleep(0.01)
            with monkeypatch.context() as context:
                context.setattr(spans, "time", Mock(monotonic=lambda: time.monotonic() + 30))
                told.append(recorder.slow())
            super().save(path)

    scene.hypervisor.start = lambda _xml: Slow(scene.guest)  # type: ignore[method-assign]
    with recording(recorder, scene.said.append), ThreadPoolExecutor(2) as workers:
        assert [one.is_restored for one in workers.map(lambda _number: scene.begin(), range(2))] == [True] * 2
    assert told == [[]]
    assert {one.step for one in recorder.timeline().spans} == {"queue", "save", "restore"}


def _open_steps(recorder: SpanRecorder) -> list[list[str]]:
    return [[one.step for one in thread.open] for thread in list(recorder._threads.values())]


def test_guests_of_two_kinds_are_restored_side_by_side(tmp_path: Path) -> None:
    """And saved so, too."""
    scene, met = Scene(tmp_path), threading.Barrier(2)
    restore, boot = scene.hypervisor.restore, scene.hypervisor.start

    def together(xml: str, path: str) -> FakeDomain:
        met.wait(60)
        domain = restore(xml, path)
        assert isinstance(domain, FakeDomain)
        return domain

    def booted(xml: str) -> FakeDomain:
        met.wait(60)
        return boot(xml)

    scene.hypervisor.restore, scene.hypervisor.start = together, booted  # type: ignore[method-assign]
    with ThreadPoolExecutor(2) as workers:
        begun = list(workers.map(lambda bus: scene.begin(bus=bus), ("virtio-blk", "virtio-scsi")))
    assert [one.is_restored for one in begun] == [True] * 2
    assert len(set(scene.booted)) == 1
    assert len(scene.booted) == 2
    assert sum(1 for path in (tmp_path / "kept").iterdir() if path.suffix != ".sum") == 2


def test_after_ctrl_c_nobody_saves_or_boots_another(tmp_path: Path) -> None:
    """Who waited for the one that was being saved gets an error, at once."""
    scene, waits = Scene(tmp_path), threading.Event()

    def interrupted(_xml: str) -> FakeDomain:
        waits.wait(60)
        raise KeyboardInterrupt

    def wait() -> Begun:
        waits.set()
        return scene.begin()

    scene.hypervisor.start = interrupted  # type: ignore[method-assign]
    with ThreadPoolExecutor(2) as workers:
        first = workers.submit(scene.begin)
        while not scene.said:
            time.sleep(0.001)
        second = workers.submit(wait)
        with pytest.raises(HypervisorError, match="No guest is begun any more"):
            second.result(60)
        with pytest.raises(KeyboardInterrupt):
            first.result(60)
    assert scene.said == ["saving a guest from which others are restored"]


def test_ctrl_c_while_one_starts_that_is_to_be_saved_leaves_no_guest(tmp_path: Path) -> None:
    """libvirt may have started it by the time the interrupt is seen, and nobody holds it."""
    scene = Scene(tmp_path)
    start = scene.hypervisor.start

    def interrupted(xml: str) -> FakeDomain:
        start(xml)
        raise KeyboardInterrupt

    scene.hypervisor.start = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        scene.begin()
    assert scene.booted == ["vms-r-1-saved"]
    assert scene.hypervisor.running == []


class Endless(Saving):
    """A guest that does in `step` what it does until it is destroyed."""

    def __init__(self, shell: FakeShell, step: str, reached: threading.Event) -> None:
        super().__init__(shell)
        self.step, self.reached, self.gone = step, reached, threading.Event()

    def _take(self, step: str) -> None:
        if step == self.step:
            self.reached.set()
            assert self.gone.wait(60), f"nobody ended it in: {step}"
            raise GuestDiedError("The guest ended.")

    def wait_for_agent(self, timeout_s: float) -> bool:
        """As libvirt does."""
        self._take("boot")
        return super().wait_for_agent(timeout_s)

    def save(self, path: str) -> None:
        """As libvirt does."""
        self._take("save")
        super().save(path)

    def destroy(self) -> None:
        """As libvirt does."""
        super().destroy()
        self.gone.set()


@pytest.mark.parametrize("step", ["boot", "save"])
def test_who_stops_waits_for_no_guest_that_is_being_saved(tmp_path: Path, step: str) -> None:
    """It ends; the one that was to be restored from it is neither booted, nor is a next one of another kind."""
    scene, reached = Scene(tmp_path), threading.Event()
    scene.hypervisor = FakeHypervisor(lambda _xml: Endless(scene.guest, step, reached))
    scene.restoring._hypervisor = scene.hypervisor
    with ThreadPoolExecutor(2) as workers:
        saved = workers.submit(scene.begin)
        assert reached.wait(60)
        waiting = workers.submit(scene.begin)
        scene.restoring.stop()
        for begun in (saved, waiting):
            with pytest.raises(HypervisorError, match="No guest is begun any more"):
                begun.result(60)
    with pytest.raises(HypervisorError, match="No guest is begun any more"):
        scene.begin(bus="nvme")
    assert len(scene.hypervisor.domains) == 1
    assert scene.hypervisor.running == []
    assert scene.said == ["saving a guest from which others are restored"]


def test_who_stops_waits_for_no_guest_that_is_restored(tmp_path: Path) -> None:
    """One that was restored and does not answer yet is ended; where the run goes on after all, others are begun."""
    scene, reached = Scene(tmp_path), threading.Event()
    scene.begin()
    restored = Endless(scene.guest, "boot", reached)
    scene.hypervisor.restore = lambda _xml, _path: restored  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as workers:
        begun = workers.submit(scene.begin)
        assert reached.wait(60)
        scene.restoring.stop()
        with pytest.raises(HypervisorError, match="No guest is begun any more"):
            begun.result(60)
    scene.restoring.go_on()
    scene.hypervisor.restore = scene._restore  # type: ignore[method-assign]
    assert scene.begin().is_restored


def test_one_that_cannot_be_ended_keeps_nobody_from_stopping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its host was lost, say; what was saved before is not ended once more."""
    scene, reached = Scene(tmp_path), threading.Event()
    scene.begin(bus="virtio-scsi")
    domain = Endless(scene.guest, "boot", reached)
    monkeypatch.setattr(scene.hypervisor, "start", lambda _xml: domain)
    with ThreadPoolExecutor(1) as workers:
        begun = workers.submit(scene.begin)
        assert reached.wait(60)
        end = Mock(side_effect=LostError("The host is gone."))
        with monkeypatch.context() as patch:
            patch.setattr(FakeDomain, "destroy", end)
            patch.setattr(Endless, "destroy", end)
            scene.restoring.stop()
        assert end.call_count == 1
        domain.destroy()
        with pytest.raises(HypervisorError, match="No guest is begun any more"):
            begun.result(60)


@pytest.mark.parametrize("step", ["start", "keep"])
def test_what_is_under_way_when_the_run_stops_goes_no_further(tmp_path: Path, step: str) -> None:
    """One that was being started is not booted to be saved, one that was kept is not restored."""
    scene = Scene(tmp_path)
    of = scene.hypervisor if step == "start" else scene.states
    do = getattr(of, step)

    def stopped(what: str) -> object:
        done = do(what)
        scene.restoring.stop()
        return done

    setattr(of, step, stopped)
    with pytest.raises(HypervisorError, match="No guest is begun any more"):
        scene.begin()
    assert scene.booted == ["vms-r-1-saved"]
    assert scene.restored == []
    assert scene.hypervisor.running == []
    assert bool(list(tmp_path.glob("kept/state-*"))) == (step == "keep")


def test_what_cannot_be_restored_is_booted(tmp_path: Path) -> None:
    """And nothing is saved for it."""
    scene = Scene(tmp_path)
    assert not scene.begin(bus="nvme").is_restored
    assert (scene.booted, scene.noted) == (["vms-r-1"], [])


def on(accel: str, **fields: object) -> GuestSpec:
    """A guest of a cell with those fields, run by that accelerator."""
    return spec(**fields).model_copy(update={"accel": accel})


@pytest.mark.parametrize("bus", ["virtio-blk", "virtio-scsi", "sata", "ide"])
def test_where_nobody_says_how_what_is_proven_is_restored(tmp_path: Path, bus: str) -> None:
    """The first guest of a kind too: all rows of a run begin alike."""
    scene = Scene(tmp_path)
    assert [scene.restoring.begin_proven(on("tcg", bus=bus)).is_restored for _ in range(2)] == [True, True]
    assert scene.booted == ["vms-r-1-saved"]


@pytest.mark.parametrize(
    ("boot", "accel", "way"),
    [
        ("restore", "kvm", "begin"),
        ("restore", "tcg", "begin"),
        (None, "tcg", "begin_proven"),
        (None, "kvm", None),
        ("fresh", "tcg", None),
    ],
)
def test_who_did_not_ask_for_it_has_guests_restored_where_a_bus_is_proven(
    tmp_path: Path, boot: str | None, accel: Accel, way: str | None
) -> None:
    """Elsewhere guests are as they would be if there were no saved ones."""
    restoring = Scene(tmp_path).restoring
    assert restoring.way(boot, accel) == (getattr(restoring, way) if way else None)


@pytest.mark.parametrize(("accel", "bus"), [("kvm", "virtio-blk"), ("kvm", "sata"), ("tcg", "usb"), ("tcg", "nvme")])
def test_where_nobody_says_how_what_is_not_proven_is_booted(tmp_path: Path, accel: str, bus: str) -> None:
    """However many there are, and though a saved one may lie there."""
    scene = Scene(tmp_path)
    scene.restoring.begin(on(accel, bus=bus))
    assert [scene.restoring.begin_proven(on(accel, bus=bus)).is_restored for _ in range(3)] == [False] * 3


@pytest.mark.parametrize(
    ("boot", "accel", "fields", "is_meant"),
    [
        (None, "tcg", {"bus": "virtio-blk"}, True),
        (None, "tcg", {"bus": "usb"}, False),
        (None, "tcg", {"bus": "nvme"}, False),
        (None, "kvm", {"bus": "virtio-blk"}, False),
        ("restore", "kvm", {"bus": "sata"}, True),
        ("restore", "tcg", {"bus": "nvme"}, False),
        ("restore", "tcg", {"bus": "virtio-blk", "backing": "null"}, False),
        ("fresh", "tcg", {"bus": "virtio-blk"}, False),
    ],
)
def test_what_is_meant_to_be_restored_is_known_before(
    tmp_path: Path, boot: str | None, accel: Accel, fields: dict[str, object], is_meant: bool
) -> None:
    """By the cell alone, as guests are then begun."""
    scene = Scene(tmp_path)
    one = on(accel, **fields)
    assert one.config is not None
    way = scene.restoring.way(boot, accel)
    is_restored = way is not None and way(one).is_restored
    assert is_meant_for(one.config, boot, accel) is is_restored is is_meant


def test_the_hosts_own_calibration_comes_before_what_was_proven_elsewhere(tmp_path: Path) -> None:
    """Under KVM too; a bus of which it says nothing is as without it."""
    scene = Scene(tmp_path)
    assert scene.restoring.way(None, "kvm") is None
    scene.restoring.calibrated = {"virtio-blk": True, "sata": False}
    assert scene.restoring.way(None, "kvm") == scene.restoring.begin_proven
    for accel, bus, is_restored in (
        ("kvm", "virtio-blk", True),
        ("kvm", "virtio-scsi", False),
        ("tcg", "sata", False),
        ("tcg", "virtio-scsi", True),
    ):
        one = on(accel, bus=bus)
        assert one.config is not None
        assert is_meant_for(one.config, None, one.accel, scene.restoring.calibrated) is is_restored
        assert scene.restoring.begin_proven(one).is_restored is is_restored
    assert is_meant_for(StorageConfig(bus="sata"), "restore", "tcg", scene.restoring.calibrated)
    assert not is_meant_for(StorageConfig(), "fresh", "kvm", scene.restoring.calibrated)


@pytest.mark.parametrize("what", ["restore", "park", "agent"])
def test_where_one_step_fails_guests_are_booted(tmp_path: Path, what: str) -> None:
    """With a sentence, and once: the next one of its kind is not tried."""
    scene = Scene(tmp_path)
    if what == "restore":
        scene.refusals.append(HypervisorError("restoring the guest failed: no."))
    elif what == "park":
        scene.guest.answer(PARK, stderr="no driver", returncode=1)
    else:
        scene.hypervisor = FakeHypervisor(lambda _xml: Saving(scene.guest, boots=False))
        scene.restoring._hypervisor = scene.hypervisor
    assert not scene.begin().is_restored
    assert not scene.begin(format="qcow2").is_restored
    assert [line for line in scene.said if "so such guests are booted: " in line] == scene.said[1:]
    assert len(scene.said) == 2
    assert not list(tmp_path.glob("kept/state-*"))
    assert len(scene.hypervisor.running) == 2


def test_one_that_was_found_wrong_is_not_restored_again(tmp_path: Path) -> None:
    """Its state goes; those of others stay."""
    scene = Scene(tmp_path)
    scene.begin()
    scene.begin(vcpus=2)
    scene.restoring.distrust(spec(), "its clock is wrong")
    assert not scene.begin().is_restored
    assert scene.begin(vcpus=2).is_restored
    assert scene.said[-1] == "a restored guest cannot be used, so such guests are booted: its clock is wrong"


def test_without_libvirts_helper_it_is_said_once_and_nobody_tries_again(tmp_path: Path) -> None:
    """For all kinds of guests, also for two that find it out side by side; libvirt 9.0's own sentence."""
    scene = Scene(tmp_path)
    sentence = (
        "saving the guest failed: internal error: Child process (LIBVIRT_LOG_OUTPUTS=3:file:/tmp/vms/libvirt.log"
        " /usr/lib/libvirt/libvirt_iohelper /tmp/state 0) unexpected exit status 1: libvirt:  error : cannot execute"
        " binary /usr/lib/libvirt/libvirt_iohelper: No such file or directory."
    )
    met = threading.Barrier(2)

    class Helpless(Saving):
        def save(self, path: str) -> None:
            met.wait(5)
            raise HypervisorError(sentence)

    def boot(xml: str) -> FakeDomain:
        scene.booted += re.findall("<name>(.*)</name>", xml)
        return Helpless(scene.guest) if "-saved</name>" in xml else Saving(scene.guest)

    scene.hypervisor = FakeHypervisor(boot)
    scene.restoring._hypervisor = scene.hypervisor
    with ThreadPoolExecutor(2) as workers:
        begun = list(workers.map(lambda bus: scene.begin(bus=bus), ("virtio-blk", "virtio-scsi")))
    begun.append(scene.begin(vcpus=2))
    assert [one.is_restored for one in begun] == [False] * 3
    assert len(scene.booted) == 5
    told = [line for line in scene.said if line != "saving a guest from which others are restored"]
    assert told == [
        "guests are booted, which takes longer than restoring them: libvirt_iohelper, by which libvirt restores guests,"
        " is not installed on this host. Install the package libvirt-daemon (Debian 12, Ubuntu) or"
        " libvirt-daemon-common (where libvirt-daemon is split)."
    ]


def test_one_that_does_not_wake_is_gone_before_another_is_booted(tmp_path: Path) -> None:
    """It has the same UUID."""
    scene = Scene(tmp_path)
    scene.answers = False
    assert not scene.begin().is_restored
    assert [one.destroyed for one in scene.domains] == [True]
    assert scene.booted == ["vms-r-1-saved", "vms-r-1"]
    assert scene.said[-1].endswith("booted: The guest restored did not answer in 1.0 s. [VM501]")


@pytest.mark.parametrize(
    ("fields", "word"),
    [({}, "yes"), ({"state": "aged"}, "yes"), ({"state": "fresh"}, "no"), ({"format": "vmdk"}, "yes"), (STREAM, "no")],
)
def test_a_guest_whose_disk_is_not_written_is_told_so(tmp_path: Path, fields: dict[str, object], word: str) -> None:
    """Nothing is to wait in it for that, and take its memory."""
    scene = Scene(tmp_path)
    assert scene.begin(**fields).is_restored
    assert scene.guest.files[WAKE].decode().split()[1:] == [word]


def test_it_is_told_the_time_and_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it prints before its last word is what it says of itself."""
    monkeypatch.setattr(parking.time, "time", lambda: 1795352400.25)
    shell = FakeShell({SAID: b"6.1|1|2\nvdb|1\nwoken\n"})
    guest = AgentShell(FakeDomain(shell))
    wake(guest, fills=True)
    assert shell.files[WAKE] == b"1795352400.250000 yes\n"
    assert wait_until_awake(guest) == "6.1|1|2\nvdb|1"


def test_a_shell_that_does_not_listen_yet_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe that nobody reads refuses; one that nobody ever reads is an error."""
    refusals = [HypervisorError("guest agent failed: No such device or address.")] * 3
    domain = FakeDomain(FakeShell())
    opened = domain._guest_file_open

    def refuse(path: str, mode: str = "r") -> object:
        if refusals:
            raise refusals.pop()
        return opened(path, mode)

    monkeypatch.setattr(domain, "_guest_file_open", refuse)
    wake(AgentShell(domain), fills=False)
    assert domain.shell.files[WAKE].endswith(b" no\n")
    monkeypatch.setattr(parking, "READY_S", 0.0)
    refusals += [HypervisorError("guest agent failed: No such device or address.")] * 9
    with pytest.raises(GuestError, match="does not wake: guest agent failed: No such device"):
        wake(AgentShell(domain), fills=False)


def test_parking_and_waking_tell_what_went_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the last line of what the guest said; one that says nothing is not waited for without end."""
    shell = FakeShell().answer(PARK, stderr="sh: cannot create unbind", returncode=2)
    with pytest.raises(GuestError, match="does not release its disk: sh: cannot create unbind"):
        park(shell)
    guest = AgentShell(FakeDomain(shell))
    with pytest.raises(GuestError, match=f"says nothing: .*'{SAID}'"):
        wait_until_awake(guest)
    shell.files.update({SAID: b"not woken\n", ERRORS: b"date: why\nsh: cannot create bind\n"})
    with pytest.raises(GuestError, match="does not find its disk: sh: cannot create bind"):
        wait_until_awake(guest)
    monkeypatch.setattr(parking, "WAKE_S", 0.0)
    shell.files.update({SAID: b"6.1|1|2\n", ERRORS: b""})
    with pytest.raises(GuestError, match="does not find its disk: it does not say so in 0 s"):
        wait_until_awake(guest)


def test_a_forgotten_one_is_saved_anew(tmp_path: Path) -> None:
    """For who wants another boot's memory layout."""
    scene = Scene(tmp_path)
    scene.begin()
    scene.restoring.forget(spec())
    assert scene.begin().is_restored
    assert scene.booted == ["vms-r-1-saved"] * 2
