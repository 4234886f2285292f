"""The web server: what is set up, what runs, and wrk's real output."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage.errors import ConfigError, UnsupportedError, WorkloadError
from pytest_vmstorage.workloads.base import Target
from pytest_vmstorage.workloads.web import Web

RECORDED = (Path(__file__).parents[1] / "recordings" / "wrk-4.1.0-nginx-1.22.1.txt").read_text()


def places(folder: Path) -> Target:
    """A file system and a scratch folder."""
    (folder / "disk").mkdir()
    (folder / "scratch").mkdir()
    return Target(path="/dev/vdb", size_bytes=0, folder=f"{folder}/disk", scratch=f"{folder}/scratch")


def test_pages_and_settings_are_made_and_removed(tmp_path: Path) -> None:
    """Pages on the disk, each of its size and unlike the others; settings and the list of requests elsewhere."""
    target = places(tmp_path)
    web = Web(pages=7, size="5k", seed=3, workers=2, sendfile=False, port=8181)
    subprocess.run(web.setup(target)[0], check=True, timeout=120)
    pages = sorted((tmp_path / "disk" / "vmstorage-nginx").iterdir())
    assert [page.name for page in pages] == [f"p{n}" for n in range(7)]
    assert {len(page.read_bytes()) for page in pages} == {5120}
    assert len({page.read_bytes() for page in pages}) == 7
    conf = (tmp_path / "scratch" / "vmstorage-nginx.own" / "nginx.conf").read_text()
    for line in ("worker_processes 2;", "sendfile off;", f"listen 127.0.0.1:8181; root {pages[0].parent};"):
        assert line in conf
    lua = (tmp_path / "scratch" / "vmstorage-nginx.own" / "pages.lua").read_text()
    assert "math.randomseed(3)" in lua
    assert "math.random(0, 6)" in lua
    for command in web.cleanup(target):
        subprocess.run(command, check=True, timeout=120)
    assert [path.name for path in sorted(tmp_path.rglob("*"))] == ["disk", "scratch"]


def test_a_server_that_was_left_running_is_stopped(tmp_path: Path) -> None:
    """After a round that ran past its limit."""
    target = places(tmp_path)
    web = Web(pages=1)
    subprocess.run(web.setup(target)[0], check=True, timeout=120)
    server = subprocess.Popen(["sleep", "60"])
    (tmp_path / "scratch" / "vmstorage-nginx.own" / "nginx.pid").write_text(f"{server.pid}\n")
    for command in web.cleanup(target):
        subprocess.run(command, check=True, timeout=120)
    assert server.wait(60) == -15


def test_pages_without_room_are_refused_with_both_sizes(tmp_path: Path) -> None:
    """Before they are half made."""
    done = subprocess.run(
        Web(pages=10**7, size="4M").setup(places(tmp_path))[0], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert f"need 41984000000000 bytes, and {tmp_path}/disk/vmstorage-nginx has " in done.stderr


def test_figures_of_a_real_run() -> None:
    """wrk scales times and sizes; its MB is 2**20 bytes (its source, format_binary)."""
    figures = Web().parse(RECORDED)
    assert figures == {"requests": 603.87, "lat_p50": 0.01298, "lat_p99": pytest.approx(0.05361), "bw": 9.57}
    web = Web()
    assert [metric.name for metric in web.metrics] == list(figures)
    assert web.metrics[0].unit == "requests/s"
    assert web.primary in web.shown
    assert set(web.shown) < set(figures)


def test_other_scales_are_read() -> None:
    """Microseconds, seconds, kilobytes and gigabytes, as wrk 4.1.0 writes them."""
    text = RECORDED.replace("50%   12.98ms", "50%  250.00us").replace("99%   53.61ms", "99%    1.20s")
    fast = Web().parse(text.replace("9.57MB", "1.50GB"))
    assert (fast["lat_p50"], fast["lat_p99"], fast["bw"]) == (pytest.approx(250e-6), 1.2, 1536)
    assert Web().parse(text.replace("9.57MB", "512.00KB"))["bw"] == 0.5


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (RECORDED.replace("Requests/sec", "  Non-2xx or 3xx responses: 12\nRequests/sec"), "served: Non-2xx.* 12"),
        (RECORDED.replace("Requests/sec", "  Socket errors: connect 0, read 9, write 0, timeout 1\nRequests/sec"),
         "served: Socket errors: connect 0, read 9"),
        (RECORDED.replace("603.87", "0.00"), "wrk printed no figures"),
        ("unable to connect to 127.0.0.1:8080 Connection refused\n", "wrk printed no figures"),
        (RECORDED.replace("99%   53.61ms", ""), "wrk printed no figures"),
    ],
    ids=["404", "reset", "nothing", "refused", "no tail"],
)  # fmt: skip
def test_anything_but_pages_is_an_error(text: str, sentence: str) -> None:
    """A server that refuses is a fast one."""
    with pytest.raises(WorkloadError, match=sentence):
        Web().parse(text)


def test_a_guest_without_the_tools_is_a_skip(tmp_path: Path) -> None:
    """Its real script, where nothing is installed."""
    target = places(tmp_path)
    argv = ("env", f"PATH={tmp_path}", "/bin/bash", *Web().argv(target)[3:])
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "vmstorage: missing nginx\n")
    with pytest.raises(UnsupportedError, match=r"web 1000 pages 16k c=10 needs nginx, which the guest does not have"):
        Web().parse(done.stdout)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"size": 0}, r"Web\(size=0\) is not the size of a page"),
        ({"size": "5M"}, r"Web\(size=5M\) is not the size of a page"),
        ({"duration": 0.5}, r"Web\(duration=0.5\) is not whole seconds"),
        ({"duration": 1.5}, "not whole seconds"),
        ({"connections": 0}, r"Web\(connections=0\)"),
        ({"threads": 2}, "Web has no option 'threads'"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], sentence: str) -> None:
    """Each slip has its sentence, before there is a guest."""
    with pytest.raises(ConfigError, match=sentence):
        Web(**options)


def test_what_it_does_to_the_disk() -> None:
    """It needs a file system and nothing written before; how long it is measured is no part of its name."""
    web = Web(workers=2, seed=5, sendfile=False, duration=9)
    assert web.label == "web 1000 pages 16k c=10 workers=2 seed=5 sendfile=off"
    assert Web.published().label == "web 1 pages 16k c=100"
    assert (web.needs_folder, web.reads, web.region_bytes, web.expected_seconds) == (True, False, 0, 12)
    assert web.fresh_is_possible
    assert web.moved_bytes(RECORDED) is None
