"""The seed of a guest from a user's image: a small disk in the form that cloud-init's NoCloud reads.

Source: cloud-init's documentation of the NoCloud datasource: a vfat file system labelled CIDATA with user-data,
meta-data and network-config.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pytest_vmstorage.errors import HostError
from pytest_vmstorage.guest.cloud_image.network import Door
from pytest_vmstorage.host.shell import NOT_FOUND, LocalShell, check
from pytest_vmstorage.leftovers import temporary

LABEL = "CIDATA"
_TOOLS = ("mformat", "mcopy")

# these would write to a disk or take a CPU while a workload is measured; no image has all of them
_TIMERS = "apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer man-db.timer"

_USER_DATA = f"""#cloud-config
ssh_pwauth: false
ssh_genkeytypes: [ed25519]
locale: false
package_update: false
package_upgrade: false
# a guest that lives for a measurement needs none of cloud-init's other late modules
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts-user]
runcmd:
  - [sh, -c, "systemctl stop {_TIMERS} unattended-upgrades.service snapd.service 2>/dev/null; :"]
"""


def seed_texts(name: str, door: Door) -> Mapping[str, str]:
    """The files of a guest's seed: an instance of its own, its one network device, and keys where ssh is to come in."""
    device = f"    match: {{macaddress: '{door.mac}'}}\n    set-name: eth0\n    dhcp4: true\n"
    return {
        "meta-data": f"instance-id: {name}\nlocal-hostname: {name}\n",
        "user-data": _USER_DATA + (_ssh_user_data(Path(door.folder)) if door.is_open else ""),
        "network-config": f"version: 2\nethernets:\n  eth0:\n{device}",
    }


def _ssh_user_data(keys: Path) -> str:
    """The lines by which root may log in with the run's key, and sshd shows the key that this machine knows."""
    user, guest, public = ((keys / name).read_text() for name in ("user.pub", "guest", "guest.pub"))
    private = "".join(f"    {line}\n" for line in guest.splitlines())
    return (
        "disable_root: false\n"
        f"ssh_authorized_keys:\n  - {user.strip()}\n"
        f"ssh_keys:\n  ed25519_private: |\n{private}  ed25519_public: {public.strip()}\n"
    )


def check_seed_tools() -> None:
    """Raise HostError where this machine lacks the tools for a seed."""
    shell = LocalShell()
    missing = [tool for tool in _TOOLS if shell.run([tool, "--version"]).returncode == NOT_FOUND]
    if missing:
        raise HostError(
            f"Guests from your own image need {' and '.join(missing)}, which this machine lacks.",
            hint="apt install mtools",
            code="VM515",
        )


def make_seed(target: Path, texts: Mapping[str, str]) -> None:
    """Write a floppy image of 1.44 MB with these files; raises ProvisionError."""
    shell = LocalShell()
    check(shell.run(["mformat", "-C", "-i", str(target), "-f", "1440", "-v", LABEL, "::"]), "making a seed")
    with temporary("seed") as folder:
        for name, text in texts.items():
            (folder / name).write_text(text)
        files = [str(folder / name) for name in texts]
        check(shell.run(["mcopy", "-i", str(target), *files, "::"]), "filling a seed")
