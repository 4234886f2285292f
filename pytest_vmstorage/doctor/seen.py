"""All that is known of a lab host when its axes are judged."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.doctor.finding import Finding
from pytest_vmstorage.doctor.trials import NOT_TRIED, Trial
from pytest_vmstorage.provision.disk import FolderFacts

NO_GUEST = "no guest can run here"


class Seen(BaseModel):
    """Trials by name, and what libvirt and the guest appliance say; `buses` is libvirt's bus names by machine type.

    `accel` is that of guests here, kvm or tcg. Where no guest runs it is empty, and so are `libvirt`, `qemu`, `modules`
    (the guest kernel's) and `tools` (the guest's, with their versions). `listed` is what
    was found of the entries of vmstorage.toml.
    """

    model_config = ConfigDict(frozen=True)

    trials: Mapping[str, Trial]
    folder: FolderFacts | None = None
    libvirt: str = ""
    qemu: str = ""
    accel: str = ""
    buses: Mapping[str, frozenset[str]] = {}
    modules: frozenset[str] = frozenset()
    tools: Mapping[str, str] = {}
    listed: tuple[Finding, ...] = ()

    def trial(self, name: str) -> Trial:
        """The trial of that name, a failed one where it was not tried."""
        return self.trials.get(name, NOT_TRIED)

    def number(self, name: str) -> int:
        """The number that a trial said, 0 where it said none."""
        said = self.trial(name).said
        return int(said) if said.isdigit() else 0

    @property
    def is_root(self) -> bool:
        """Whether commands on the host run as root."""
        return self.trial("user").said == "0"

    @property
    def has_guests(self) -> bool:
        """Whether guests can run, as far as is known."""
        return bool(self.libvirt)

    def tried(self, axis: str, value: str, name: str, done: str) -> Finding:
        """Yes with what was `done` where that trial succeeded, no with what it said where it failed."""
        trial = self.trial(name)
        return Finding(axis=axis, value=value, status="yes" if trial.ok else "no", why=done if trial.ok else trial.said)

    def needs_guest(self, axis: str, value: str, why: str) -> Finding:
        """Yes where guests can run."""
        ok = self.has_guests
        return Finding(axis=axis, value=value, status="yes" if ok else "no", why=why if ok else NO_GUEST)
