"""Reading [machines.NAME] of vmstorage.toml: machines that the plugin did not make, checked key by key."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.inventory import HOST_NAME, LOCAL, ListedDevice, ListedMachine
from pytest_vmstorage.stable_id import LOST, is_kernel_name, kind_of_id, stable_id
from pytest_vmstorage.toml_keys import flag_of, known_keys, tables_of, text_of

_KEYS = ("ssh", "disk", "folder", "allow_destroy", "label")
_NAME = re.compile(r"\w[\w.-]*")
_FIELD = re.compile(r"[A-Za-z]\w*")
_LOOKED_AT = ("host", "accel", "backing", "state", "size", "workload")
"""What a row has of its own, so that nobody need state it."""


def read_machines(document: Mapping[str, Any], source: str, hosts: Collection[str]) -> Mapping[str, ListedMachine]:
    """The machines that a file lists, by name; `hosts` are the names it has given away. Raises ConfigError."""
    tables = tables_of(document, "machines", source)
    return {name: _machine(name, table, source, hosts) for name, table in tables.items()}


def _machine(name: str, table: Mapping[str, Any], source: str, hosts: Collection[str]) -> ListedMachine:
    where = f"{source}, [machines.{name}]"
    if _NAME.fullmatch(name) is None:
        raise ConfigError(f"{where}: {name!r} is not a name.", hint="Use letters, digits, dots, - and _.")
    if name in hosts or name == LOCAL:
        raise ConfigError(f"{where}: {name} is a host's name, and rows of both would bear it.", hint="Name it anew.")
    known_keys(table, _KEYS, where)
    ssh = text_of(table, "ssh", where)
    if ssh is not None and HOST_NAME.fullmatch(ssh) is None:
        raise ConfigError(
            f"{where}: ssh = {ssh!r} is not a host name.",
            hint=f'Write NAME or USER@NAME; "{LOCAL}" is this machine; a port belongs into ~/.ssh/config.',
        )
    folder, disk = _folder(table, where), _disk(name, table, where)
    if (disk is None) == (folder is None):
        what = "neither disk nor folder" if disk is None else "both disk and folder"
        raise ConfigError(
            f"{where} has {what}, and one of them says what is measured.",
            hint='Write disk = "wwn-0x5002538e40a1b2c3" for a whole disk that may be overwritten, or folder = "/srv/x"'
            " for a file that is made there and removed.",
        )
    if folder is not None and "allow_destroy" in table:
        raise ConfigError(
            f"{where}: allow_destroy is a disk's, and a folder keeps what is in it.", hint="Take it away."
        )
    target = None if ssh in (None, LOCAL) else ssh
    return ListedMachine(name=name, ssh=target, disk=disk, folder=folder, label=_label(table, where))


def _folder(table: Mapping[str, Any], where: str) -> str | None:
    folder = text_of(table, "folder", where)
    if folder is not None and (not folder.startswith("/") or folder.rstrip("/") == ""):
        raise ConfigError(f"{where}: folder = {folder!r} is no folder's path from / on.", hint='Write "/srv/bench".')
    return folder.rstrip("/") if folder is not None else None


def _disk(name: str, table: Mapping[str, Any], where: str) -> ListedDevice | None:
    text = text_of(table, "disk", where)
    if text is None:
        return None
    if text.startswith("/") and not text.startswith("/dev/"):
        raise ConfigError(f"{where}: disk = {text!r} is no disk.", hint=f"For a file on it write folder = {text!r}.")
    kind: Any = kind_of_id(text)
    allow = flag_of(table, "allow_destroy", where, LOST.format(kind=kind))
    # a name of today is kept as it is, so that the machine can be asked which id that disk has: nothing is written
    found = text if is_kernel_name(text) else stable_id(text, where, kind, "disk")
    return ListedDevice(name=name, kind=kind, id=found, allow_destroy=allow)


def _label(table: Mapping[str, Any], where: str) -> Mapping[str, str]:
    label = table.get("label", {})
    if not isinstance(label, dict):
        raise ConfigError(f"{where}: label = {label!r} is not a table.", hint='Write label = {format = "vmfs"}.')
    for key, value in label.items():
        if _FIELD.fullmatch(key) is None or key in _LOOKED_AT:
            reason = "is looked at there, and not stated" if key in _LOOKED_AT else "is no name of a field"
            raise ConfigError(
                f"{where}: label.{key} {reason}.", hint='Write label = {format = "vmfs", bus = "pvscsi"}.'
            )
        if not isinstance(value, str | int | float) or not str(value).strip():
            raise ConfigError(f"{where}: label.{key} = {value!r} is no text.", hint=f'Write {key} = "...".')
    return {key: _said(value) for key, value in label.items()}


def _said(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value).strip()
