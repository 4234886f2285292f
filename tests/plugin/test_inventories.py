"""Devices that a run will write to are named before it does; what vmstorage.toml lacks is a usage error."""

from __future__ import annotations

import os

import pytest
from projects import RANDOM_WRITE, assert_refused, flat, text_of

ON_A_DEVICE = (
    RANDOM_WRITE
    + """
@pytest.mark.storage(backing="device", size="64M")
def test_it(measure): measure(FIO)
"""
)
ABSENT = '[hosts.local.devices.{name}]\nid = "wwn-0x5002538e40a1b2c3"\n'
LINE = (
    "raw-none-virtio-blk-off-backing=device will have no figure: The device fast is listed as wwn-0x5002538e40a1b2c3,"
    " but no device has it."
)


@pytest.mark.parametrize("options", [(), ("--vm-plan",)], ids=["run", "plan"])
def test_a_backing_that_nothing_lists_is_a_usage_error(project, options):
    """With what to write into which file; no lab is opened."""
    project.write(test_it=ON_A_DEVICE)
    assert_refused(
        project.run(*options),
        "backing=device needs a device that is listed for local in vmstorage.toml. List it there:"
        ' [hosts.local.devices.NAME] with id = "wwn-0x..."',
    )
    project.write(vmstorage__toml=ABSENT.format(name="slow"), test_it=ON_A_DEVICE.replace('"device"', '"device:fast"'))
    assert_refused(
        project.run(*options),
        f"backing=device:fast needs a device called fast that is listed for local in {project.path}/vmstorage.toml.",
    )
    assert project.events == []


@pytest.mark.parametrize("where", ["vmstorage.toml", "lab/list.toml"])
def test_the_plan_names_devices_of_the_inventory(project, where):
    """Found in the rootdir, or named; one that is not there is told, and is no error of the plan."""
    project.write(test_it=ON_A_DEVICE)
    (project.path / "lab").mkdir()
    (project.path / where).write_text(ABSENT.format(name="fast"))
    result = project.run("--vm-plan", *([] if where == "vmstorage.toml" else [f"--vm-inventory={where}"]))
    assert result.ret == 0
    assert LINE in flat(result)
    assert project.events == []


def test_a_run_names_devices_before_it_opens_its_lab(project):
    """So that Ctrl-C comes in time."""
    project.write(test_it=ON_A_DEVICE, vmstorage__toml=ABSENT.format(name="fast"))
    text = text_of(project.run())
    assert text.index(f"vmstorage: {LINE}") < text.index("vmstorage: opening the fake lab")


def test_a_run_without_such_cells_names_none(project):
    """Whatever the file lists."""
    project.write(
        test_it=RANDOM_WRITE + "def test_it(measure): measure(FIO)\n", vmstorage__toml=ABSENT.format(name="fast")
    )
    result = project.run()
    result.assert_outcomes(passed=1)
    assert "wwn-0x5002538e40a1b2c3" not in text_of(result)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "--vm-inventory=list.toml cannot be read: No such file or directory. Name a TOML file."),
        ("[hosts", "--vm-inventory=list.toml is not TOML: "),
        (
            '[hosts.local.devices.d]\nid = "/dev/sdb"',
            "id = '/dev/sdb' is a name that may be another device's after the",
        ),
    ],
    ids=["absent", "no-toml", "unstable"],
)
def test_an_inventory_that_cannot_be_used_is_a_usage_error(project, text, sentence):
    """One sentence that names the file."""
    project.write(test_it=ON_A_DEVICE)
    if text is not None:
        (project.path / "list.toml").write_text(text)
    assert_refused(project.run("--vm-inventory=list.toml"), sentence)


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can give files away")
@pytest.mark.parametrize("options", [(), ("--vm-plan",)], ids=["run", "plan"])
def test_another_users_inventory_is_ignored(project, options):
    """It is said once; named by the option it is used, whoever it belongs to."""
    project.write(test_it=ON_A_DEVICE, vmstorage__toml=ABSENT.format(name="fast"))
    path = project.path / "vmstorage.toml"
    os.chown(path, 65534, 65534)
    ignored = f"vmstorage: {path} is ignored: it belongs to the user nobody. Name it with --vm-inventory={path}"
    result = project.run(*options)
    assert_refused(result, "backing=device needs a device that is listed for local in vmstorage.toml.")
    assert flat(result).count(ignored) == 1
    assert project.events == []
    result = project.run(f"--vm-inventory={path}", *options)
    assert LINE in flat(result)
    assert "is ignored" not in flat(result)
