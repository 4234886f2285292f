"""Options that only fio knows are checked by fio: on the host, or where the host cannot, in the guest."""

from __future__ import annotations

import re
import shutil

import pytest

from pytest_vmstorage import Fio
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.measure.option_checks import OptionChecks
from pytest_vmstorage.testing.shell import FakeShell

CHECK = ("fio", "--parse-only", "-")
HIPRI = Fio(rw="randread", extra={"hipri": 1})
NOT_THERE = "fio: engine libaio not loadable\nfio: failed to load engine\nfio: job vmstorage dropped\n"


def host(**answer: object) -> FakeShell:
    """A machine with a fio that gives that answer."""
    return FakeShell().answer(re.compile("command -v")).answer(CHECK, **answer)  # type: ignore[arg-type]


def test_a_workload_is_checked_once_on_the_host_and_not_in_guests() -> None:
    """With all its options, and nothing is said; one that needs no check asks nothing."""
    shell, guest, checks, said = host(), FakeShell(), OptionChecks(), []
    for workload in (HIPRI, HIPRI, Fio(rw="randread")):
        checks.on_host(shell, "lab01", workload, said.append)
        checks.where_it_runs(guest, workload)
    asked = [one for one in shell.asked if one.argv == CHECK]
    assert [one.stdin for one in asked] == [HIPRI.option_check.stdin.encode()]  # type: ignore[union-attr]
    assert (guest.asked, said) == ([], [])


def test_a_refused_option_is_told_in_fios_words() -> None:
    """With the host that said so, and without what says only that fio ends."""
    shell = host(stderr="Bad option <hipri=1>\nDid you mean prio?\nfio: job vmstorage dropped\n", returncode=1)
    sentence = (
        r"fio on lab01 refuses the options of fio randread 4k qd1 hipri=1: Bad option <hipri=1>\. Did you mean prio"
    )
    with pytest.raises(ConfigError, match=sentence):
        OptionChecks().on_host(shell, "lab01", HIPRI, pytest.fail)
    with pytest.raises(ConfigError, match="exit status 3"):
        OptionChecks().on_host(host(returncode=3), "lab01", HIPRI, pytest.fail)


@pytest.mark.parametrize(
    ("shell", "why"),
    [
        (FakeShell().answer(re.compile("command -v"), returncode=1), "lab01 has no fio"),
        (host(stderr=NOT_THERE, returncode=1), "fio on lab01 says engine libaio not loadable"),
    ],
)
def test_where_the_host_cannot_judge_the_guest_does(shell: FakeShell, why: str) -> None:
    """That is said once, and the guest is asked once."""
    guest, checks, said = host(), OptionChecks(), []
    for _ in range(2):
        checks.on_host(shell, "lab01", HIPRI, said.append)
        checks.where_it_runs(guest, HIPRI)
    rest = "the options of fio randread 4k qd1 hipri=1 are checked where it runs, before its first round"
    assert said == [f"{why}: {rest}"]
    assert [one.argv for one in guest.asked] == [CHECK]


def test_a_guest_refuses_as_a_host_does() -> None:
    """Also where it has no such engine, for nothing else can judge then."""
    with pytest.raises(ConfigError, match=r"fio there refuses the options of .*: Bad option <hipri=1>"):
        OptionChecks().where_it_runs(host(stderr="Bad option <hipri=1>\n", returncode=1), HIPRI)
    with pytest.raises(ConfigError, match=r"hipri=1 cannot run: fio there says engine libaio not loadable"):
        OptionChecks().where_it_runs(host(stderr=NOT_THERE, returncode=1), HIPRI)


@pytest.mark.skipif(shutil.which("fio") is None, reason="install fio to have this tested")
def test_a_real_fio_judges() -> None:
    """hipri belongs to other engines than libaio."""
    uring = Fio(rw="randread", ioengine="io_uring", extra={"hipri": 1, "registerfiles": 1})
    OptionChecks().on_host(LocalShell(), "here", uring, pytest.fail)
    for extra, said in (
        ({"hipri": 1}, "Bad option <hipri=1>"),
        ({"dedupe_mode": "x"}, "failed parsing dedupe_mode=x"),
        ({"dedupe_percentage": 101}, "dedupe_percentage: max value out of range: 101"),
    ):
        with pytest.raises(ConfigError, match=f"fio on here refuses the options of fio randread 4k qd1 .*: .*{said}"):
            OptionChecks().on_host(LocalShell(), "here", Fio(rw="randread", extra=extra), pytest.fail)
    # a machine with fewer CPUs refuses none
    OptionChecks().on_host(LocalShell(), "here", Fio(rw="read", extra={"cpus_allowed": 900}), pytest.fail)
