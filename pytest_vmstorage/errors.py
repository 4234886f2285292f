"""All errors of this project, with one sentence and one outcome each.

VmStorageError
├── ConfigError          the user asked for something impossible   -> usage error, before any test
├── UnsupportedError     this host or guest cannot do it           -> skip with the reason
├── ProvisionError       a disk, guest or appliance was not made   -> error of that cell
│   ├── SpaceError       a disk does not fit                       -> error of that cell
│   ├── HostError        the lab host cannot be reached or used    -> usage error when found before any test
│   │   └── LostError    its connection was lost             -> error of that cell, and of all after it
│   ├── ForeignPathError a command would write outside of the run's own folders and devices -> error of that cell
│   └── HypervisorError  libvirt or QEMU refused; carries libvirt's number
├── GuestError           the guest was made but cannot be used     -> error of that cell
│   ├── BootTimeoutError no answer within the time limit
│   ├── GuestSilentError no answer any more
│   ├── CommandStuckError a command in it cannot be ended
│   ├── DiskMissingError its kernel does not see the disk
│   └── GuestDiedError   QEMU ended, KVM failed or the kernel panicked
├── AttestationError     the cell is not what its id says          -> error of that cell
└── WorkloadError        the tool failed or printed what it never prints -> error of that cell
    └── LateError        the tool was ended at its time limit

Each error raised here has a code such as VM142, whose entry in `codes.toml` says what it means and what to do;
`vmstorage explain VM142` prints it. An error that a user's own workload raises has none.
"""

from __future__ import annotations

import re
from typing import Self

from pytest_vmstorage.text import plain

_LONGEST = 2000
"""Characters of a sentence with its remedy; a longer one quotes output that nobody reads."""


_CODE = re.compile(r" \[(VM\d{3})\]$", re.MULTILINE)


def signed(text: str, code: str) -> str:
    """The text with the code in brackets at its end, as every refusal is shown; the text alone without a code."""
    return f"{text} [{code}]" if code else text


def split_code(text: str) -> tuple[str, str]:
    """The text without the code at the end of one of its lines, and that code, "" where there is none."""
    found = _CODE.search(text)
    return (text[: found.start()] + text[found.end() :], found[1]) if found else (text, "")


def where_more(text: str) -> str:
    """A sentence with the command that explains the codes in the text, "" where it has none."""
    codes = dict.fromkeys(_CODE.findall(text))
    return f"`vmstorage explain {next(iter(codes)) if len(codes) == 1 else 'CODE'}` says more." if codes else ""


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 4 :]}"


def _fitted(what: str, hint: str) -> str:
    """The sentence, plain, and so short that it fits with its remedy."""
    return _shortened(plain(what), _LONGEST - len(hint) - 1)


class VmStorageError(Exception):
    """Base of all errors here: `what` is one sentence, `hint` is the remedy, `code` that of its entry, "" without one.

    Sentence and remedy quote output of tools and guests, and reach terminals and JUnit files: they are made plain here.
    """

    def __init__(self, what: str, *, hint: str = "", code: str = "") -> None:
        self.code = code
        self.hint = _shortened(plain(hint), _LONGEST // 2)
        self.what = _fitted(what, self.hint)
        super().__init__(self.what)

    def __str__(self) -> str:
        return signed(self.told, self.code)

    @property
    def told(self) -> str:
        """The sentence and the remedy without the code, to be quoted inside another sentence."""
        return f"{self.what} {self.hint}".rstrip()

    def retold(self, what: str, *, code: str = "") -> Self:
        """A copy of this error with another sentence, perhaps another code, and the same traceback."""
        # copy.copy() calls `cls(what)`, and some subclasses need more arguments
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.what = _fitted(what, other.hint)
        other.code = code or self.code
        other.args = (other.what,)
        return other.with_traceback(self.__traceback__)


class ConfigError(VmStorageError):
    """A request of the user that cannot be fulfilled anywhere; found before anything is made."""


class UnsupportedError(VmStorageError):
    """A valid request that this host or guest has no means for."""


class ProvisionError(VmStorageError):
    """A disk, guest or appliance could not be made."""


class SpaceError(ProvisionError):
    """A disk does not fit the folder or device meant for it; removing other disks may make room."""


class HostError(ProvisionError):
    """The lab host cannot be reached, or lacks something every cell needs."""


class ForeignPathError(ProvisionError):
    """A command names a path to write to that is not the run's own; it did not run."""


class LostError(HostError):
    """The connection to the lab host was lost during the run."""


class HypervisorError(ProvisionError):
    """libvirt or QEMU refused; `number` is libvirt's error number, or -1."""

    def __init__(self, what: str, *, hint: str = "", code: str = "", number: int = -1) -> None:
        super().__init__(what, hint=hint, code=code)
        self.number = number


class GuestError(VmStorageError):
    """A guest exists but cannot be used; `console` is the tail of its serial console."""

    def __init__(self, what: str, *, hint: str = "", code: str = "", console: str = "") -> None:
        super().__init__(what, hint=hint, code=code)
        self.console = plain(console)

    def __str__(self) -> str:
        head = super().__str__()
        if not self.console:
            return head
        tail = "\n".join(f"    | {line}" for line in self.console.splitlines())
        return f"{head}\n  the guest's console ended with:\n{tail}"


class BootTimeoutError(GuestError):
    """The guest did not answer within the time limit."""


class GuestSilentError(GuestError):
    """The guest's agent, or QEMU's monitor, answered before, and no longer does."""


class CommandStuckError(GuestError):
    """A command in the guest ran past its limit and cannot be killed, such as one that waits for a disk."""


class DiskMissingError(GuestError):
    """The guest runs, and its kernel does not see the disk under test."""


class GuestDiedError(GuestError):
    """QEMU ended, gave the guest up after an error of KVM, or the guest's kernel panicked."""


class AttestationError(VmStorageError):
    """A field of the cell is not in effect: `asked` and `found` are both shown."""

    def __init__(self, field: str, *, asked: str, found: str, hint: str = "", code: str = "") -> None:
        super().__init__(f"{field} was asked to be {asked} but is {found}.", hint=hint, code=code)
        self.field = field
        self.asked = asked
        self.found = found


class WorkloadError(VmStorageError):
    """A workload's tool failed, or its output could not be read; `output` is its tail."""

    def __init__(self, what: str, *, hint: str = "", code: str = "", output: str = "") -> None:
        super().__init__(what, hint=hint, code=code)
        self.output = plain(output)

    def __str__(self) -> str:
        head = super().__str__()
        if not self.output:
            return head
        tail = "\n".join(f"    | {line}" for line in self.output.splitlines()[-15:])
        return f"{head}\n  the tool's output ended with:\n{tail}"


class LateError(WorkloadError):
    """A workload, or a command needed around it, was ended at its time limit."""
