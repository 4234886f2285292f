"""Debian packages, extracted and never installed: no chroot, no root, no package script runs here."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.errors import ProvisionError
from pytest_vmstorage.host.shell import NOT_FOUND, Shell, check
from pytest_vmstorage.text import read_pairs

DEFAULT_SUITE: Final = "bookworm"
KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_POCKETS: Final = ("", "-updates", "-security")
_LIST: Final = "downloaded-packages"
_MERGED_USR: Final = 'for d in bin sbin lib lib64; do mkdir -p "$1/usr/$d"; ln -s "usr/$d" "$1/$d"; done'
_TIMEOUT_S: Final = 1800.0


class Source(BaseModel):
    """One suite of one Debian mirror."""

    model_config = ConfigDict(frozen=True)

    uri: str
    suite: str

    def line(self) -> str:
        """The entry in apt's one-line format; only Debian's own key is trusted."""
        return f"deb [signed-by={KEYRING}] {self.uri} {self.suite} main"


def host_suite(os_release: str) -> str:
    """VERSION_CODENAME of a Debian host's /etc/os-release; on any other distribution the default suite."""
    fields = read_pairs(os_release)
    values = {name: value.strip().strip('"') for name, value in fields.items()}
    if values.get("ID") != "debian":
        return DEFAULT_SUITE
    return values.get("VERSION_CODENAME") or DEFAULT_SUITE


def host_sources(apt: Path = Path("/etc/apt")) -> dict[str, str]:
    """The texts of the host's apt source files by path; unreadable ones are left out."""
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
    texts: dict[str, str] = {}
    for file in files:
        if file.suffix in (".list", ".sources") and file.is_file():
            try:
                texts[str(file)] = file.read_text(errors="replace")
            except OSError:
                continue
    return texts


def debian_sources(texts: Mapping[str, str], suite: str) -> tuple[Source, ...]:
    """The host's own Debian mirrors for `suite` and its updates; deb.debian.org where the host has none.

    Other vendors use Debian's suite names too, so an entry counts only with the component main and a path with debian.
    """
    wanted = {suite + pocket for pocket in _POCKETS}
    found: dict[Source, None] = {}
    for name, text in texts.items():
        for uri, its_suite, components in _deb822(text) if name.endswith(".sources") else _one_line(text):
            if its_suite in wanted and "main" in components and _is_debian(uri):
                found[Source(uri=uri, suite=its_suite)] = None
    if any(source.suite == suite for source in found):
        return tuple(found)
    archive, security = "http://deb.debian.org/debian", "http://deb.debian.org/debian-security"
    return tuple(Source(uri=security if p == "-security" else archive, suite=suite + p) for p in _POCKETS)


def _is_debian(uri: str) -> bool:
    parts = urlsplit(uri)
    return parts.scheme != "cdrom" and any(step.startswith("debian") for step in parts.path.split("/"))


def _one_line(text: str) -> Iterator[tuple[str, str, list[str]]]:
    for line in text.splitlines():
        words = line.split("#", 1)[0].split()
        if not words or words[0] != "deb":
            continue
        if len(words) > 1 and words[1].startswith("["):
            end = next((at for at, word in enumerate(words) if word.endswith("]")), len(words))
            words = [words[0], *words[end + 1 :]]
        if words[3:]:
            yield words[1].rstrip("/"), words[2], words[3:]


def _deb822(text: str) -> Iterator[tuple[str, str, list[str]]]:
    kept = "\n".join(line.rstrip() for line in text.splitlines() if not line.startswith("#"))
    for stanza in kept.split("\n\n"):
        fields = _fields(stanza)
        if "deb" not in fields.get("types", []) or fields.get("enabled") in (["no"], ["false"]):
            continue
        for uri in fields.get("uris", []):
            for suite in fields.get("suites", []):
                yield uri.rstrip("/"), suite, fields.get("components", [])


def _fields(stanza: str) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    name = ""
    for line in stanza.splitlines():
        if line[:1] in " \t":
            fields.setdefault(name, []).extend(line.split())
        elif ":" in line:
            name, value = line.split(":", 1)
            name = name.lower()
            fields[name] = value.split()
    return fields


def unpack(
    packages: Sequence[str], sources: Sequence[Source], suite: str, tree: Path, shell: Shell, *, root: bool
) -> dict[str, str]:
    """Extract `packages` and their dependencies into the new folder `tree`; returns all versions by name.

    `root` says whether this process has root's rights. Raises ProvisionError with the tool's last lines.
    """
    argv = [
        *("mmdebstrap", "--mode=chrootless", "--variant=extract", "--format=directory", "--architectures=amd64"),
        *("--aptopt=APT::Install-Recommends false", "--aptopt=Acquire::Retries 3"),
        *(f"--aptopt={option}" for option in _proxies(shell)),
        # Nothing is run in extract mode, so what mmdebstrap fears of this mode under root cannot happen.
        *(("--skip=check/chrootless",) if root else ()),
        f"--setup-hook={_MERGED_USR}",
        f'--extract-hook=ls "$1/var/cache/apt/archives" >"$1/{_LIST}"',
        f"--include={','.join(packages)}",
        *(suite, str(tree), "-"),
    ]
    lines = "".join(source.line() + "\n" for source in sources)
    done = shell.run(argv, timeout_s=_TIMEOUT_S, stdin=lines.encode())
    mirrors = ", ".join(sorted({source.uri for source in sources}))
    check(done, "downloading the guest appliance's packages", hint=f"Is {mirrors} reachable? Is the disk full?")
    return versions((tree / _LIST).read_text())


def versions(listing: str) -> dict[str, str]:
    """Package versions by name in a listing of apt's archives folder, which writes a colon as %3a."""
    found: dict[str, str] = {}
    for file in listing.split():
        if file.endswith(".deb"):
            name, version, _arch = file.removesuffix(".deb").split("_")
            found[name] = version.replace("%3a", ":")
    return found


def require(programs: Mapping[str, str], shell: Shell) -> None:
    """Raise ProvisionError that names the packages of the missing `programs` (program -> package)."""
    script = "; ".join(f"command -v {shlex.quote(name)} || echo missing {shlex.quote(name)}" for name in programs)
    lines = shell.run(["sh", "-c", script]).stdout.splitlines()
    missing = [line.split()[1] for line in lines if line.startswith("missing ")]
    if missing:
        packages = " ".join(sorted({programs[name] for name in missing}))
        raise ProvisionError(
            f"The guest appliance cannot be built without {', '.join(missing)}.",
            hint=f"apt install {packages}",
            code="VM521",
        )


def _proxies(shell: Shell) -> list[str]:
    # mmdebstrap does not read the host's apt configuration; behind a proxy it would reach nothing.
    keys = ("Acquire::http::Proxy", "Acquire::https::Proxy")
    done = shell.run(["apt-config", "dump", "--format", '%f "%v";%n', *keys])
    if done.returncode == NOT_FOUND:
        return []
    return [line for line in done.stdout.splitlines() if line.startswith(keys) and '""' not in line]
