"""What some rounds in one guest leave to tell beside their samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_vmstorage.caution import WorkingSet
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.host_state import HostState
from pytest_vmstorage.hygiene import Hygiene
from pytest_vmstorage.provision.volume import CACHED_IN_ARC
from pytest_vmstorage.results import Proof, Sample
from pytest_vmstorage.subject import Subject
from pytest_vmstorage.workloads.base import Target, Workload

_REMARKED_ROUNDS = 3


class Taken:
    """What some rounds in one guest leave to tell beside their samples; the subject itself is let go with its guest."""

    def __init__(
        self,
        subject: Subject,
        target: Target,
        command: str,
        hygiene: Mapping[str, str],
        guest: Mapping[str, str],
        proof: tuple[Proof, ...],
    ) -> None:
        self.config = subject.config
        self.host = subject.host
        self.made_from = subject.made_from
        self.regions = subject.regions
        self.target = target
        self.command = command
        self.hygiene = hygiene
        self.guest = guest
        self.proof = proof
        self.around = HostState()


def working_set(workload: Workload, taken: Taken, samples: Sequence[Sample]) -> WorkingSet:
    """What the rounds worked on, to be held against memory."""
    return WorkingSet(
        label=workload.label,
        size_bytes=None if workload.needs_folder else taken.target.size_bytes,
        is_direct=all(workload.moved_bytes(sample.raw) is not None for sample in samples),
        through_arc=CACHED_IN_ARC in taken.hygiene.get("disk lies on", ""),
    )


def size_words(worked_on: WorkingSet, config: StorageConfig, around: HostState, hygiene: Hygiene) -> str:
    """What the row says of its size, and of what may have kept it in memory."""
    note = worked_on.note(config, around.memory_bytes)
    return hygiene.words("cache-size", done=note, left_out=f"{worked_on.size}, not held against memory")


def remarks(workload: Workload, samples: Sequence[Sample]) -> Mapping[str, str]:
    """What the figures do not show, by round: a depth that was not reached, a state that was not steady."""
    said = [
        f"round {number}: {', '.join(found)}"
        for number, sample in enumerate(samples, 1)
        if (found := workload.remarks(sample.raw))
    ]
    more = len(said) - _REMARKED_ROUNDS
    told = [*said[:_REMARKED_ROUNDS], *([f"and {more} more of {len(samples)} rounds"] if more > 0 else [])]
    return {"not as asked": ", ".join(told)} if told else {}


def hygiene_words(subject: Subject, warmup: int, host_caches: str, hygiene: Hygiene) -> Mapping[str, str]:
    """What was done before each round, by name; `host_caches` says what was done on the host."""
    judged = hygiene.words("steady-state", done="", left_out="not judged")
    return {
        "state": "none, nothing is kept" if subject.config.is_null else subject.config.state,
        "warm-up rounds": hygiene.words("warmup", done=str(warmup), left_out=str(warmup)),
        "guest caches": hygiene.caches("guest-caches", done="of the disk dropped before each round"),
        "host caches": host_caches,
        **({"steady state": judged} if judged else {}),
        **subject.notes,
    }
