"""Cells that name a QEMU binary of their own, on real guests: what runs them, what proves it, and what is caught."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from pytest_vmstorage import Fio, StorageConfig
from pytest_vmstorage.errors import AttestationError, ConfigError
from pytest_vmstorage.guest.domain_xml import GuestSpec, domain_xml
from pytest_vmstorage.guest.emulator import check_emulator
from pytest_vmstorage.guest.libvirt import start
from pytest_vmstorage.host.lease import Lease
from pytest_vmstorage.lab import factory as pool_module
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.lab.opening import driver_cache
from pytest_vmstorage.measure.proof.claim import XML
from pytest_vmstorage.measure.proof.domain import PROCESS, VERSION
from pytest_vmstorage.measure.runner import measure
from pytest_vmstorage.measure.system import Plan
from pytest_vmstorage.results.run import Proof

READ = Fio(rw="randread", bs="4k", size="8M", runtime=1, time_based=True)


def known_qemus() -> set[Path]:
    """Files in which libvirt keeps what it found out about each QEMU."""
    return set(driver_cache().rglob("capabilities/*.xml"))


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder like /usr: QEMU looks for its firmware and modules beside its own binary."""
    folder = tmp_path_factory.mktemp("qemu")
    (folder / "bin").mkdir()
    for name in ("share", "lib"):
        (folder / name).symlink_to(f"/usr/{name}")
    known = known_qemus()
    yield folder
    shutil.rmtree(folder / "bin")
    for path in known_qemus() - known:
        path.unlink()


def copied(lab: Lab, prefix: Path, name: str) -> str:
    """A copy of the host's QEMU under another name."""
    return str(shutil.copy2(os.path.realpath(lab.factory.emulator), prefix / "bin" / name))


def script(prefix: Path, name: str, *lines: str) -> str:
    """An executable script there."""
    path = prefix / "bin" / name
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return str(path)


def proofs_of(proof: tuple[Proof, ...]) -> dict[str, tuple[str, str]]:
    """Status and what was found of the emulator, by where it was read."""
    return {one.where: (one.status, one.found) for one in proof if one.field == "emulator"}


def test_each_cell_has_its_qemu(lab: Lab, prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy runs the guest, its row says so and has its version; the same cell without it has the host's own."""
    known_when_adopting, adopting_it = [], start.adoption

    def adoption(pid_file: Path) -> AbstractContextManager[None]:
        known_when_adopting.append(known_qemus())
        return adopting_it(pid_file)

    monkeypatch.setattr(start, "adoption", adoption)
    path = copied(lab, prefix, "qemu-system-x86_64")
    config = StorageConfig(emulator=path, size="32M")
    guest = lab.guest(config)
    # within, libvirt would wait 80 s for the end of the QEMU that it asked
    (known,) = known_when_adopting
    assert known == known_qemus()
    version = check_emulator(lab.shell, path, "here")
    assert version.startswith(lab.facts.qemu)
    assert proofs_of(guest.proof) == {
        XML: ("proven", path),
        PROCESS: ("proven", path),
        VERSION: ("proven", f"QEMU {version}"),
    }
    (pid,) = lab.shell.run(["pgrep", "-f", "--", f"-uuid {guest.machine.spec.uuid}"]).stdout.split()
    assert Path(f"/proc/{pid}/exe").readlink() == Path(path)
    row = measure(lab.environment(guest.config), READ, Plan(rounds=1, warmup=0))
    assert row.guest["qemu"] == version
    assert str(row.config).endswith(f"-emulator={path}")

    own = lab.guest(StorageConfig(size="32M"))
    assert proofs_of(own.proof) == {XML: ("proven", lab.factory.emulator)}
    assert "qemu" not in lab.environment(own.config).identity.facts


def test_a_link_is_the_binary_that_it_leads_to(lab: Lab, prefix: Path) -> None:
    """Also one over another link: the files are compared, and not their names."""
    link = prefix / "bin" / "linked"
    link.symlink_to(lab.factory.emulator)
    proofs = proofs_of(lab.guest(StorageConfig(emulator=str(link), size="33M")).proof)
    assert proofs[XML] == ("proven", str(link))
    assert proofs[PROCESS] == ("proven", os.path.realpath(lab.factory.emulator))


def test_a_script_that_starts_qemu_is_proven_by_its_version(lab: Lab, prefix: Path) -> None:
    """Which file runs then is for the script to say."""
    path = script(prefix, "wrapped", f'exec {lab.factory.emulator} "$@"')
    proofs = proofs_of(lab.guest(StorageConfig(emulator=path, size="34M")).proof)
    assert {where: status for where, (status, _) in proofs.items()} == {
        XML: "proven",
        PROCESS: "unprovable",
        VERSION: "proven",
    }
    assert proofs[PROCESS][1] == os.path.realpath(lab.factory.emulator)


def test_another_qemu_than_the_label_has_is_caught(lab: Lab, prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The XML tells, and the process."""

    def other(spec: GuestSpec, lease: Lease | None = None) -> str:
        return domain_xml(spec.model_copy(update={"emulator": lab.factory.emulator}), lease)

    path = copied(lab, prefix, "not-taken")
    monkeypatch.setattr(pool_module, "domain_xml", other)
    config = StorageConfig(emulator=path, size="35M")
    with pytest.raises(AttestationError) as caught:
        lab.guest(config)
    assert caught.value.field == f"emulator of {config}"
    assert (caught.value.asked, caught.value.found) == (path, f"{lab.factory.emulator} (live XML)")
    assert f"{os.path.realpath(lab.factory.emulator)} ({PROCESS}), not {path}" in str(caught.value)


def test_another_version_than_the_binary_says_is_caught(lab: Lab, prefix: Path) -> None:
    """QEMU itself is asked for its own."""
    says = '[ "$1" != --version ] || exec echo QEMU emulator version 99.1.0'
    path = script(prefix, "says-99", says, f'exec {lab.factory.emulator} "$@"')
    with pytest.raises(AttestationError) as caught:
        lab.guest(StorageConfig(emulator=path, size="36M"))
    assert caught.value.asked == f"{path} (QEMU 99.1.0)"
    assert caught.value.found.startswith(f"QEMU {lab.facts.qemu}")
    assert caught.value.found.endswith(f"({VERSION})")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda prefix: str(prefix / "bin" / "nosuch"), "there is no such file"),
        (lambda prefix: str(prefix / "bin"), "it is not a file"),
        (lambda _prefix: "/etc/passwd", "it is not executable"),
        (lambda _prefix: shutil.which("qemu-img"), "it prints 'qemu-img version "),
    ],
    ids=["missing", "folder", "not executable", "qemu-img"],
)
def test_what_is_no_qemu_is_refused_before_a_guest_is_made(lab: Lab, prefix: Path, make: object, why: str) -> None:
    """In one sentence, and without a disk."""
    path = make(prefix)  # type: ignore[operator]
    number = lab.factory.next_number()
    with pytest.raises(ConfigError) as caught:
        lab.guest(StorageConfig(emulator=path, size="37M"))
    assert caught.value.what.startswith(f"emulator={path} cannot be used on {lab.host.name}: {why}")
    assert lab.factory.next_number() == number + 1
