"""Which hosts --vm-host means: names, `tag:NAME` and `all`, several with commas; pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.inventory import ALL, HOST_NAME, LOCAL, Inventory, find_host

TAG = "tag:"


def choose_hosts(text: str, inventory: Inventory | None) -> tuple[str, ...]:
    """The hosts in the order in which they are first meant, each once; this machine for "".

    Raises ConfigError, one sentence, for what is empty, unknown or given twice, and for one machine under two names.
    """
    if not text:
        return (LOCAL,)
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not part:
            raise ConfigError(f"--vm-host={text} has an empty name.", hint="Write names with one comma between.")
        if parts.count(part) > 1:
            raise ConfigError(f"--vm-host={text} has {part} twice.", hint="Take one of them away.")
    hosts = tuple(dict.fromkeys(name for part in parts for name in _meant(part, text, inventory)))
    _no_twins(hosts, text, inventory)
    return hosts


def _meant(part: str, text: str, inventory: Inventory | None) -> Iterator[str]:
    """The hosts that one part means."""
    if part != ALL and not part.startswith(TAG):
        if HOST_NAME.fullmatch(part) is None:
            raise ConfigError(
                f"--vm-host={text}: {part!r} is not a host name.", hint="Write NAME, USER@NAME, tag:TAG or all."
            )
        yield part
        return
    if inventory is None or not inventory.hosts:
        where = f"{inventory.source} lists none" if inventory else "there is no vmstorage.toml"
        raise ConfigError(
            f"--vm-host={text}: {part} is of hosts that are listed, and {where}.", hint="List them under [hosts.NAME]."
        )
    tag = part.removeprefix(TAG)
    found = [name for name, entry in inventory.hosts.items() if part == ALL or tag in entry.tags]
    if not found:
        tags = dict.fromkeys(one for entry in inventory.hosts.values() for one in entry.tags)
        there = f"It has: {', '.join(tags)}." if tags else 'Write tags = ["nvme"] into a host\'s entry.'
        raise ConfigError(f"--vm-host={text}: no host in {inventory.source} has the tag {tag!r}.", hint=there)
    yield from found


def _no_twins(hosts: tuple[str, ...], text: str, inventory: Inventory | None) -> None:
    """Refuse one machine under two names: two measurements would run side by side on it."""
    for one, other in combinations((find_host(name, None, inventory) for name in hosts), 2):
        if one.ssh == other.ssh:
            reached = f"both by ssh to {one.ssh}"
            raise ConfigError(
                f"--vm-host={text}: {one.listed_as} and {other.listed_as} are one machine, {reached}.",
                hint="Name one of them.",
            )
