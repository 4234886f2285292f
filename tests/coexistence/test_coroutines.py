"""Coroutines that measure: the event loop takes the end of an entry as that of any test.

Tests of `plugin.entry`.
"""

from __future__ import annotations

from collections import Counter

import pytest
from plugged import ALL, ASYNCIO, HEAD
from projects import text_of

COROUTINES = (
    HEAD
    + """
import asyncio
import pytest_asyncio

@pytest_asyncio.fixture
async def resource():
    note("open")
    yield
    await asyncio.sleep(0)
    note("closed")

async def job(measure):
    await asyncio.sleep(0)
    return measure(FIO)

@CELLS
@MARK
async def test_plain(measure, resource):
    background = asyncio.create_task(asyncio.sleep(3600))
    found = await job(measure)
    background.cancel()
    note(len(found.samples))

@CELLS
@MARK
async def test_gathered(measure, resource):
    found, _ = await asyncio.gather(job(measure), asyncio.sleep(0.01))
    note(len(found.samples))

@CELLS
@MARK
async def test_grouped(measure, resource):
    async with asyncio.TaskGroup() as group:
        task = group.create_task(job(measure))
    note(len(task.result().samples))

@CELLS
@MARK
async def test_in_a_thread(measure, resource):
    found = await asyncio.to_thread(measure, FIO)
    note(len(found.samples))

@CELLS
@MARK
async def test_subtests(measure, resource, subtests):
    for depth in (1, 8):
        with subtests.test(depth=depth):
            found = measure(Fio(rw="randread", bs="4k", iodepth=depth, size="32M", runtime=1))
    note(len(found.samples))
"""
)


@pytest.mark.parametrize(
    ("plugins", "mode", "mark"),
    [
        ((ASYNCIO,), "strict", "pytest.mark.asyncio"),
        ((ASYNCIO,), "auto", "lambda function: function"),
        ((*ALL, "no:sugar"), "strict", "pytest.mark.asyncio"),
    ],
    ids=["strict", "auto", "together"],
)
def test_a_coroutine_measures(project, plugins, mode, mark):
    """However `measure` is awaited; fixtures are closed in each entry, and no task's exception is left over."""
    project.write(
        test_it=COROUTINES.replace("@MARK", "@MODE").replace("import asyncio\n", f"import asyncio\nMODE = {mark}\n", 1)
    )
    options = (f"-oasyncio_mode={mode}", "-oasyncio_default_fixture_loop_scope=function", "-Werror")
    result = project.run_with(plugins, *options)
    result.assert_outcomes(passed=10)
    assert "never" not in text_of(result)
    # one entry to learn each measurement, and one with all rounds
    assert Counter(project.notes()) == {"3": 10, "open": 4 * 4 + 2 * 3, "closed": 4 * 4 + 2 * 3}
