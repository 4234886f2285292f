"""What guests on a lab host boot with: QEMU's path there, and the appliance's files where that QEMU reads them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.command import Shell, check
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.errors import HostError
from pytest_vmstorage.inventory import LabHost
from pytest_vmstorage.provision.appliance import MODULES_BY_BUS, Appliance, kernel_cmdline
from pytest_vmstorage.say import Say
from pytest_vmstorage.units import format_about

# the second is where RHEL and its kin have it, outside PATH
_FIND_EMULATOR = "command -v qemu-system-x86_64 || ls /usr/libexec/qemu-kvm"


class BootFiles(BaseModel):
    """Paths on the lab host of QEMU and of what a guest boots from."""

    model_config = ConfigDict(frozen=True)

    emulator: str
    kernel: str
    initrd: str
    root: str

    def cmdline(self, config: StorageConfig | None) -> str:
        """The kernel command line of a cell's guest: it loads the driver of the disk's bus and no other."""
        return kernel_cmdline(MODULES_BY_BUS[config.bus] if config else ())


def find_emulator(shell: Shell, host: str) -> str:
    """Path of QEMU on the host; raises HostError that names the package."""
    done = shell.run(["sh", "-c", _FIND_EMULATOR])
    if not done.ok:
        raise HostError(
            f"There is no QEMU on {host}: qemu-system-x86_64 is not in PATH.",
            hint="Install qemu-system-x86 and qemu-utils there (Debian), or name another host with --vm-host.",
        )
    return done.stdout.strip()


def place_appliance(host: LabHost, shell: Shell, appliance: Appliance, emulator: str, say: Say) -> BootFiles:
    """The appliance's files as the host's QEMU sees them; copied there once by content where it is another machine."""
    paths = {"kernel": appliance.kernel, "initrd": appliance.initrd, "root": appliance.root}
    if host.is_local:
        return BootFiles(emulator=emulator, **{name: str(path) for name, path in paths.items()})
    folder = f"{host.folder}/appliance-{appliance.manifest.key[:16]}"
    if not shell.run(["test", "-e", f"{folder}/complete"]).ok:
        size = sum(path.stat().st_size for path in paths.values())
        say(f"copying the guest appliance to {host.name} ({format_about(size)})")
        check(shell.run(["mkdir", "-p", "--", folder]), f"making {folder} on {host.name}")
        for path in paths.values():
            shell.put(path, f"{folder}/{path.name}")
        check(shell.run(["touch", f"{folder}/complete"]), f"copying the appliance to {host.name}")
    return BootFiles(emulator=emulator, **{name: f"{folder}/{path.name}" for name, path in paths.items()})
