"""Which hosts --vm-host means, and one sentence for what it cannot."""

from __future__ import annotations

import pytest

from pytest_vmstorage.config.inventory import choose_hosts
from pytest_vmstorage.config.inventory_file import load_inventory
from pytest_vmstorage.errors import ConfigError

LISTED = load_inventory(
    """
[hosts.lab01]
tags = ["nvme", "rack-1"]
[hosts.lab02]
ssh = "root@10.0.0.2"
tags = ["nvme"]
[hosts.twin]
ssh = "root@10.0.0.2"
tags = ["other"]
[hosts.lab03]
tags = ["rack-1"]
""",
    "lab.toml",
)
UNTAGGED = load_inventory("[hosts.lab01]", "lab.toml")


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", "local"),
        ("lab01", "lab01"),
        ("lab02, lab01", "lab02 lab01"),
        ("me@lab09,local", "me@lab09 local"),
        ("tag:nvme", "lab01 lab02"),
        ("tag:rack-1,tag:nvme", "lab01 lab03 lab02"),
        ("lab03,tag:rack-1", "lab03 lab01"),
    ],
)
def test_names_and_tags(text: str, hosts: str) -> None:
    """In the order written; tags may overlap, and hosts need not be listed."""
    assert choose_hosts(text, LISTED) == tuple(hosts.split())


def test_all_are_those_of_the_file() -> None:
    """And nothing else."""
    assert choose_hosts("all", UNTAGGED) == ("lab01",)


SLIPS = {
    "lab01,": "--vm-host=lab01, has an empty name. Write names with one comma between.",
    ",": "--vm-host=, has an empty name.",
    "lab01,lab02,lab01": "--vm-host=lab01,lab02,lab01 has lab01 twice. Take one of them away.",
    "lab 1": "--vm-host=lab 1: 'lab 1' is not a host name. Write NAME, USER@NAME, tag:TAG or all.",
    "-oProxyCommand=x": "'-oProxyCommand=x' is not a host name.",
    "tag:hdd": "--vm-host=tag:hdd: no host in lab.toml has the tag 'hdd'. It has: nvme, rack-1, other.",
    "tag:": "no host in lab.toml has the tag ''.",
    "all": "--vm-host=all: lab02 and twin are one machine, both by ssh to root@10.0.0.2. Name one of them.",
}


@pytest.mark.parametrize("text", SLIPS)
def test_a_slip_is_told(text: str) -> None:
    """One sentence with what to write."""
    with pytest.raises(ConfigError) as caught:
        choose_hosts(text, LISTED)
    assert SLIPS[text] in str(caught.value)
    assert caught.value.hint


def test_tags_want_a_file_that_has_some() -> None:
    """Without one there is nothing to choose from."""
    with pytest.raises(ConfigError, match=r"--vm-host=all: all needs a list of hosts, and there is no vmstorage"):
        choose_hosts("all", None)
    with pytest.raises(ConfigError, match=r"and lab\.toml lists none\. List them under \[hosts\.NAME\]\."):
        choose_hosts("tag:nvme", load_inventory("", "lab.toml"))
    with pytest.raises(ConfigError, match=r"has the tag 'nvme'\. Write tags = \[\"nvme\"\] into a host's entry\."):
        choose_hosts("tag:nvme", UNTAGGED)
