"""Settings of the host: in the lease before they are set, and set back by whoever ends last, or by the reaper."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pytest_vmstorage.config.settings import HostWishes
from pytest_vmstorage.errors import HostError, ProvisionError
from pytest_vmstorage.host.lease import HostSetting, Lease, LeaseBook, this_process
from pytest_vmstorage.host.settings import HostSettings
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.lab.reaper import reap

CPU = "devices/system/cpu"
PERFORMANCE = HostWishes(governor="performance")


class Host:
    """Files laid out as in the sysfs of a machine with two cpufreq policies, and runs that share a lease book.

    Names and values are those of Linux 6.x with acpi-cpufreq: what the tests have is the reading and writing of them.
    """

    def __init__(self, folder: Path) -> None:
        self.sysfs = folder / "sys"
        self.book = LeaseBook(folder / "leases")
        self.shell = LocalShell()
        for number, governor in enumerate(("schedutil", "powersave")):
            self.put(f"{CPU}/cpufreq/policy{number}/scaling_governor", governor)
            self.put(f"{CPU}/cpufreq/policy{number}/scaling_available_governors", "performance powersave schedutil ")

    def put(self, name: str, text: str) -> None:
        """Write a file as the kernel has it, with a newline."""
        path = self.sysfs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def read(self, name: str) -> str:
        """What a file says now."""
        return (self.sysfs / name).read_text().strip()

    @property
    def governors(self) -> list[str]:
        """Those of both policies."""
        return [self.read(f"{CPU}/cpufreq/policy{number}/scaling_governor") for number in (0, 1)]

    def run(self, run_id: str = "0123456789", **fields: object) -> HostSettings:
        """A run with its own lease, of a process that lives unless told otherwise."""
        known = {"owner": this_process(), "expires": time.time() + 3600, "uri": None, "ssh": None, "folder": ""}
        lease = Lease.model_validate({"run_id": run_id, **known, **fields})
        self.book.write(lease)
        return HostSettings(
            self.shell,
            lease,
            self.book,
            lambda settings: self.book.write(lease.model_copy(update={"settings": settings})),
            sysfs=str(self.sysfs),
        )

    def leased(self) -> list[tuple[str, str, str]]:
        """What leases say: which file, from what, to what."""
        found = [(Path(one.path).parent.name, one.was, one.now) for lease in self.book for one in lease.settings]
        return sorted(found)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A machine whose governors differ."""
    return Host(tmp_path)


def test_all_cpus_get_the_governor_and_their_own_back(host: Host) -> None:
    """The lease knows what each was as long as it is not that again."""
    run = host.run()
    run.apply(PERFORMANCE, "/")
    assert host.governors == ["performance", "performance"]
    assert host.leased() == [("policy0", "schedutil", "performance"), ("policy1", "powersave", "performance")]
    assert run.notes("/") == {"CPU governor": "performance, set for this run from schedutil/powersave (--vm-governor)"}
    run.restore()
    assert host.governors == ["schedutil", "powersave"]
    assert host.leased() == []


def test_it_is_in_the_lease_before_it_is_set(host: Host) -> None:
    """A run that is killed between the two leaves nothing that nobody knows of."""
    seen: list[tuple[list[str], list[tuple[str, str, str]]]] = []
    run = host.run()
    note = run._note

    def look(settings: tuple[HostSetting, ...]) -> None:
        note(settings)
        seen.append((host.governors, host.leased()))

    run._note = look
    run.apply(PERFORMANCE, "/")
    assert seen[0][0] == ["schedutil", "powersave"]
    assert len(seen[0][1]) == 2


def test_a_governor_that_is_there_already_is_nobodys(host: Host) -> None:
    """It is neither leased nor set back, and the row says so."""
    for number in (0, 1):
        host.put(f"{CPU}/cpufreq/policy{number}/scaling_governor", "performance")
    run = host.run()
    run.apply(PERFORMANCE, "/")
    assert host.leased() == []
    assert run.notes("/") == {"CPU governor": "performance, as it was found (--vm-governor)"}


def test_a_governor_that_the_host_lacks_is_refused(host: Host) -> None:
    """With those it has; nothing was set."""
    with pytest.raises(HostError) as caught:
        host.run().apply(HostWishes(governor="ondemand"), "/")
    assert caught.value.told == (
        "--vm-governor=ondemand is not available on this host. It has: performance, powersave, schedutil."
    )
    assert host.governors == ["schedutil", "powersave"]


@pytest.mark.parametrize(
    ("wishes", "sentence"),
    [
        (PERFORMANCE, "--vm-governor=performance cannot be set: this host shows no CPU governor (no cpufreq), as most"),
        (HostWishes(turbo="off"), "--vm-turbo=off cannot be set: this host shows no turbo (neither intel_pstate/no_"),
    ],
)
def test_a_machine_without_cpufreq_says_so(host: Host, wishes: HostWishes, sentence: str) -> None:
    """As in most virtual machines, and in the one this is developed on."""
    for path in sorted(host.sysfs.rglob("scaling_*")):
        path.unlink()
    with pytest.raises(HostError) as caught:
        host.run().apply(wishes, "/")
    assert str(caught.value).startswith(sentence)
    assert caught.value.told.endswith('Leave it out; rows then say "unknown".')


@pytest.mark.parametrize(
    ("file", "was", "wanted", "value"),
    [
        ("intel_pstate/no_turbo", "0", "off", "1"),
        ("intel_pstate/no_turbo", "1", "on", "0"),
        ("cpufreq/boost", "1", "off", "0"),
        ("cpufreq/boost", "0", "on", "1"),
    ],
)
def test_turbo_has_two_switches_that_turn_opposite_ways(
    host: Host, file: str, was: str, wanted: str, value: str
) -> None:
    """intel_pstate's says no_turbo, everybody else's boost."""
    host.put(f"{CPU}/{file}", was)
    run = host.run()
    run.apply(HostWishes(turbo=wanted), "/")
    assert host.read(f"{CPU}/{file}") == value
    assert run.notes("/") == {"turbo": f"{wanted}, set for this run from {was} (--vm-turbo)"}
    run.restore()
    assert host.read(f"{CPU}/{file}") == was


def test_of_two_runs_the_one_that_ends_last_sets_back(host: Host) -> None:
    """Workers of xdist are such runs; the second finds what the first set, and knows what was before."""
    first, second = host.run("1111111111"), host.run("2222222222")
    first.apply(PERFORMANCE, "/")
    second.apply(PERFORMANCE, "/")
    first.restore()
    assert host.governors == ["performance", "performance"]
    second.restore()
    assert host.governors == ["schedutil", "powersave"]


def test_two_runs_cannot_want_different_things(host: Host) -> None:
    """The second is refused, and the first keeps what it has."""
    host.run("1111111111").apply(PERFORMANCE, "/")
    with pytest.raises(HostError, match=r"--vm-governor=powersave cannot be set: another run .* at performance\."):
        host.run("2222222222").apply(HostWishes(governor="powersave"), "/")
    assert host.governors == ["performance", "performance"]


def test_what_somebody_else_changed_meanwhile_is_theirs(host: Host) -> None:
    """An administrator's word is the later one."""
    run = host.run()
    run.apply(PERFORMANCE, "/")
    host.put(f"{CPU}/cpufreq/policy0/scaling_governor", "powersave")
    run.restore()
    assert host.governors == ["powersave", "powersave"]


def test_a_killed_runs_settings_are_set_back_by_the_reaper(host: Host) -> None:
    """Its sentence says what; a living run's are left."""
    dead = this_process().model_copy(update={"started_ticks": 1})
    living, killed = host.run("1111111111"), host.run("2222222222", owner=dead)
    killed.apply(PERFORMANCE, "/")
    (sentence,) = map(str, reap(host.book, host.shell))
    what = "0 guest(s), scaling_governor set back to schedutil, scaling_governor set back to powersave"
    assert f"left: {what} (" in sentence
    assert host.governors == ["schedutil", "powersave"]
    living.apply(PERFORMANCE, "/")
    assert reap(host.book, host.shell) == []
    assert host.governors == ["performance", "performance"]


def test_what_a_living_run_took_over_is_left_to_it(host: Host) -> None:
    """The killed one's lease goes, the setting does not."""
    dead = this_process().model_copy(update={"started_ticks": 1})
    killed, living = host.run("2222222222"), host.run("1111111111")
    killed.apply(PERFORMANCE, "/")
    living.apply(PERFORMANCE, "/")
    host.book.write(next(one for one in host.book if one.run_id == "2222222222").model_copy(update={"owner": dead}))
    assert len(reap(host.book, host.shell)) == 1
    assert host.governors == ["performance", "performance"]
    living.restore()
    assert host.governors == ["schedutil", "powersave"]


def test_a_boot_has_set_all_back_already(host: Host) -> None:
    """And may have set it to something else since."""
    dead = this_process().model_copy(update={"boot_id": "another"})
    run = host.run(owner=dead)
    run.apply(PERFORMANCE, "/")
    (lease,) = host.book
    old = tuple(one.model_copy(update={"boot_id": "another"}) for one in lease.settings)
    host.book.write(lease.model_copy(update={"settings": old}))
    (sentence,) = map(str, reap(host.book, host.shell))
    assert "left: 0 guest(s) (" in sentence
    assert host.governors == ["performance", "performance"]


def test_a_lease_cannot_have_any_file_written(host: Host, tmp_path: Path) -> None:
    """One that is damaged or hostile: only what is set here is set back."""
    victim = tmp_path / "victim"
    victim.write_text("now\n")
    boot = this_process().boot_id
    bad = HostSetting(path=str(victim), was="was", now="now", boot_id=boot)
    host.run(owner=this_process().model_copy(update={"started_ticks": 1}))
    (lease,) = host.book
    host.book.write(lease.model_copy(update={"settings": (bad,)}))
    assert len(reap(host.book, host.shell)) == 1
    assert victim.read_text() == "now\n"


def test_what_cannot_be_written_is_told_with_the_kernels_word(host: Host) -> None:
    """A file that nobody may write, root included; what was set beside it can still be set back."""
    path = host.sysfs / CPU / "cpufreq/policy1/scaling_governor"
    path.unlink()
    path.symlink_to("/proc/version")
    run = host.run()
    with pytest.raises(HostError, match=r"--vm-governor=performance could not be set: .*That takes root on the host"):
        run.apply(PERFORMANCE, "/")
    assert host.read(f"{CPU}/cpufreq/policy0/scaling_governor") == "performance"
    run.restore()
    assert host.read(f"{CPU}/cpufreq/policy0/scaling_governor") == "schedutil"


def test_what_cannot_be_set_back_stays_in_the_lease(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run tries again."""
    run = host.run()
    run.apply(PERFORMANCE, "/")
    monkeypatch.setattr("pytest_vmstorage.host.settings._WRITE", "echo no right >&2; exit 1")
    with pytest.raises(ProvisionError, match=r"A setting of the host could not be set back: no right\."):
        run.restore()
    assert len(host.leased()) == 2
    monkeypatch.undo()
    run.restore()
    assert host.governors == ["schedutil", "powersave"]


def test_no_device_has_no_scheduler(host: Host) -> None:
    """/proc lies on none."""
    with pytest.raises(HostError, match=r"--vm-host-scheduler=none has no device to be set on: none .* below /proc\."):
        host.run().apply(HostWishes(scheduler="none"), "/proc")


def test_two_sides_have_their_settings_by_turns(host: Host) -> None:
    """In the lease at every time, and in the end all is as it was found; the same once more touches nothing."""
    run = host.run()
    for _ in range(2):
        run.change(PERFORMANCE, "/")
        assert host.governors == ["performance", "performance"]
        run.change(HostWishes(governor="schedutil"), "/")
        assert host.governors == ["schedutil", "schedutil"]
        assert host.leased() == [("policy1", "powersave", "schedutil")]
        run.change(HostWishes(), "/")
        assert host.governors == ["schedutil", "powersave"]
        assert host.leased() == []
    run.change(PERFORMANCE, "/")
    host.put(f"{CPU}/cpufreq/policy0/scaling_governor", "powersave")
    run.change(PERFORMANCE, "/")
    assert host.governors == ["powersave", "performance"]
