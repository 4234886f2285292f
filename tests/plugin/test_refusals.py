"""Bad input: exit status 4 and one sentence, before any test runs.

Tests of `plugin.preflight`.
"""

from __future__ import annotations

import os

import pytest
from projects import RANDOM_WRITE, assert_refused, flat, text_of

BAD_TESTS = {
    "format": (
        '@pytest.mark.parametrize("format", ["raw", "qcow3"])\ndef test_x(measure): ...',
        "test_it.py::test_x[qcow3]: format='qcow3' is not known. format is one of: raw, qcow2, vmdk, vdi, qed, vpc.",
    ),
    "cache": (
        '@pytest.mark.parametrize("cache", ["writethru"])\ndef test_x(measure): ...',
        "cache='writethru' is not known. cache is one of: none, directsync,",
    ),
    "size": ('@pytest.mark.storage(size="10X")\ndef test_x(measure): ...', "'10X' is not a size."),
    "field": (
        '@pytest.mark.storage(colour="red")\ndef test_x(measure): ...',
        "a storage configuration has no field 'colour'.",
    ),
    "misspelt field": (
        '@pytest.mark.storage(fromat="qcow2")\ndef test_x(measure): ...',
        "test_it.py::test_x: a storage configuration has no field 'fromat'. Did you mean 'format'? It has: format,",
    ),
    "positional": ('@pytest.mark.storage("2G")\ndef test_x(measure): ...', "takes keywords only."),
    "impossible": (
        '@pytest.mark.parametrize("preallocation", ["off", "metadata"])\ndef test_x(measure): ...\n'
        '@pytest.mark.storage(preallocation="metadata")\ndef test_y(measure): ...',
        "test_it.py::test_x[metadata] and 1 more: raw-none-virtio-blk-metadata cannot exist: raw has no metadata",
    ),
}


@pytest.mark.parametrize(("source", "sentence"), BAD_TESTS.values(), ids=BAD_TESTS)
def test_a_cell_that_cannot_be(project, source, sentence):
    """A test file that asks for an impossible cell is refused as a whole, and no lab is opened."""
    project.write(test_it=f"import pytest\ndef test_good(measure): ...\n{source}\n")
    assert_refused(project.run(), sentence)
    assert project.events == []


NEAR_MISSES = {
    "name": (
        '@pytest.mark.parametrize("fromat", ["raw", "qcow2"])\ndef test_x(measure, fromat): ...',
        "test_it.py::test_x[raw] and 1 more: the parameter fromat ('raw', 'qcow2') is no axis, so it changes nothing "
        "of the disk. Did you mean format? Rename it, or, where it is a parameter of the test's own, name it in the "
        "ini file: vm_not_axes = fromat.",
    ),
    "no argument": (
        '@pytest.mark.parametrize("fromat", ["raw", "qcow2"])\ndef test_x(guest): ...',
        "test_it.py::test_x: the parameter fromat ('raw', 'qcow2') is no axis",
    ),
    "values": (
        '@pytest.mark.parametrize("bs,kind", [("4k", "none"), pytest.param("1M", "unsafe", id="u")])\n'
        "class TestIt:\n    def test_x(self, storage, bs, kind): ...",
        "test_it.py::TestIt::test_x[4k-none] and 1 more: the parameter kind ('none', 'unsafe') is no axis, so it "
        "changes nothing of the disk. Did you mean cache?",
    ),
    "fixture": (
        '@pytest.fixture(params=["raw", "qcow2"])\ndef fromat(request): return request.param\n'
        "def test_x(measure, fromat): ...",
        "test_it.py::test_x[raw] and 1 more: the parameter fromat ('raw', 'qcow2') is no axis",
    ),
    "hook": (
        "def pytest_generate_tests(metafunc):\n"
        '    if "fs" in metafunc.fixturenames: metafunc.parametrize("fs", iter(["ext4", "xfs"]))\n'
        "def test_x(measure_image, fs): ...",
        "test_it.py::test_x[ext4] and 1 more: the parameter fs ('ext4', 'xfs') is no axis, so it changes nothing of "
        "the disk. Did you mean host_fs or guest_fs?",
    ),
}


@pytest.mark.parametrize("option", ["-q", "--vm-plan", "--co", "--vm-matrix=m.toml"])
@pytest.mark.parametrize(("source", "sentence"), NEAR_MISSES.values(), ids=NEAR_MISSES)
def test_a_parameter_that_is_nearly_an_axis(project, source, sentence, option):
    """It would be measured in one cell under two names; refused at collection, with the way to keep it."""
    project.write(test_it=f"import pytest\n{source}\n", m__toml='[axes]\nbus = ["ide"]\n')
    swept = option.startswith("--vm-matrix")
    assert_refused(project.run(option), sentence.partition(": ")[2] if swept else sentence)
    assert project.events == []


def test_a_near_miss_under_xdist(project):
    """Its tests fail with the sentence, and others run."""
    project.write(test_it=f"import pytest\n{NEAR_MISSES['name'][0]}\ndef test_y(storage): ...\n")
    result = project.run("-n1", own_process=True)
    result.assert_outcomes(passed=1, errors=2)
    assert "Did you mean format?" in text_of(result)


@pytest.mark.parametrize(
    "ini",
    ["[pytest]\nvm_not_axes = fromat kind\n", "[pytest]\nvm_not_axes =\n    kind,\n    fromat\n"],
    ids=["line", "list"],
)
def test_a_parameter_is_the_tests_own_where_the_ini_file_says_so(project, ini):
    """However near it is to an axis."""
    project.write(
        pytest__ini=ini,
        test_it="import pytest\nP = pytest.mark.parametrize\n"
        '@P("fromat", ["raw", "qcow2"])\n@P("kind", ["none", "unsafe"])\n'
        "def test_x(storage, fromat, kind): assert (storage.format, storage.cache) == ('raw', 'none')\n",
    )
    project.run().assert_outcomes(passed=4)


def test_the_ini_file_makes_no_parameter_of_an_axis(two_cells):
    """One sentence, before any test is collected."""
    two_cells.write(pytest__ini="[pytest]\nvm_not_axes = format\n")
    assert_refused(two_cells.run(), "vm_not_axes: format is an axis in every storage test. Take the name away,")
    two_cells.write(pytest__ini="[pytest]\nvm_not_axes = from-at\n")
    assert_refused(two_cells.run(), "vm_not_axes: 'from-at' is not the name of a parameter.")


def test_parameters_of_the_tests_own_pass(project):
    """Numbers and truth values, common words, options of workloads, what a fixture reads, and all of other tests."""
    project.write(
        test_it="""
import pytest
from pytest_vmstorage import Workload
P = pytest.mark.parametrize

class Own(Workload):
    tool = "cp"
    picture: str = "raw"

@pytest.fixture
def image(request): return request.param.upper()

@P("size", [4096, 8192])
@P("mode", ["on", "off"])
@P("count", [1, 2])
@P("direct", [True, False])
@P("status", [None, "none"])
def test_own(storage, size, mode, count, direct, status): ...

@P("convert_to", ["raw", "qcow2"])
@P("picture", ["raw", "vdi"])
def test_options(measure_image, convert_to, picture): ...

@P("image", ["raw", "qcow2"], indirect=True)
@P("bus, target, other", [("ide", "sata", 3), ("sata", "ide", 4)], indirect=["other"])
def test_indirect(storage, image, target, other): assert image in ("RAW", "QCOW2")

@pytest.fixture
def other(request): return request.param

@P("format, expected", [("raw", "raw"), ("qcow2", "qcow2")])
def test_swept(storage, expected): assert storage.format == expected

@P("cached", ["none", "writeback"])
def test_between(cells, cached): ...

@P("fromat", ["raw", "qcow2"])
@P("cahce", ["none", "writeback"])
def test_no_storage_test(fromat, cahce): ...
"""
    )
    project.run().assert_outcomes(passed=32 + 4 + 4 + 2 + 2 + 4)


@pytest.fixture
def two_emulators(project):
    """A project with a test in two cells, each with a QEMU of its own: one that is there, one that is not."""
    project.write(
        there__sh="#!/bin/sh\necho QEMU emulator version 9.2.0\n",
        test_it=RANDOM_WRITE + f"PATHS = ['{project.path}/there.sh', '{project.path}/gone/there.sh']\n"
        '@pytest.mark.parametrize("emulator", PATHS)\ndef test_x(measure): measure(FIO)\n',
    )
    (project.path / "there.sh").chmod(0o755)
    return project


@pytest.mark.parametrize("option", ["-v", "--vm-plan"])
def test_an_emulator_that_is_not_there(two_emulators, option):
    """Found on the host before the lab is opened, and so before any guest."""
    sentence = f"emulator={two_emulators.path}/gone/there.sh cannot be used on "
    result = two_emulators.run(option)
    assert_refused(result, sentence)
    assert "there is no such file. Give the path of a qemu-system-x86_64 that runs there." in text_of(result)
    assert two_emulators.events == []


def test_an_emulator_is_looked_at_where_its_cell_is_run(two_emulators):
    """A cell that is deselected needs none; ids have whole paths, so that two of one name are two."""
    there, gone = (f"test_x[emulator={two_emulators.path}/{name}]" for name in ("there.sh", "gone/there.sh"))
    assert two_emulators.ids() == [there, gone]
    result = two_emulators.run(f"test_it.py::{there}", "-v", "--junitxml=out.xml")
    result.assert_outcomes(passed=1)
    assert f"::{there} PASSED" in text_of(result)
    assert f'name="{there}"' in (two_emulators.path / "out.xml").read_text()


def test_an_emulator_that_is_no_path(project):
    """A name alone would be looked up in another PATH on each host."""
    project.write(test_it='import pytest\n@pytest.mark.storage(emulator="qemu-kvm")\ndef test_x(measure): ...\n')
    assert_refused(project.run(), "emulator='qemu-kvm' is not the path of a QEMU binary. Write it from the root")
    assert project.events == []


def test_a_deselected_cell_is_no_fault(project):
    """An impossible cell that -k leaves out does not stop the others."""
    project.write(
        test_it='import pytest\n@pytest.mark.parametrize("preallocation", ["off", "metadata"])\n'
        "def test_x(measure): ...\n"
    )
    project.run("-k", "not metadata").assert_outcomes(passed=1, deselected=1)


REFUSES = "#!/bin/sh\ncat >/dev/null\necho 'Bad option <nosuch=1>' >&2\nexit 1\n"
BY_PARAMETER = '@pytest.mark.parametrize("job", [EXTRA])\ndef test_x(measure, job): measure(job)\n'
BY_CALL = "def test_x(measure): measure(EXTRA)\n"
EXTRA = RANDOM_WRITE + 'EXTRA = Fio(rw="randwrite", extra={"nosuch": 1})\n'


@pytest.mark.parametrize("option", ["-v", "--vm-plan"])
def test_an_option_that_only_fio_knows_is_checked_before_all(project, monkeypatch, option):
    """The host's fio says what is wrong with a workload among the parameters, and no lab is opened."""
    project.write(fio=REFUSES, test_it=EXTRA + BY_PARAMETER)
    (project.path / "fio.py").rename(project.path / "fio")
    (project.path / "fio").chmod(0o755)
    monkeypatch.setenv("PATH", str(project.path), prepend=os.pathsep)
    assert_refused(project.run(option), "refuses the options of fio randwrite 4k qd1 nosuch=1:")
    assert "Bad option <nosuch=1>. Correct what it names." in flat(project.run(option))
    assert project.events == []


OTHER_HOST = """
from pytest_vmstorage.testing import lab
make = lab.make_host_shell
lab.make_host_shell = lambda **wishes: make(**wishes).answer({answer})
"""


def test_a_workload_of_a_test_function_is_checked_before_its_guest_is_made(project):
    """It is known at the call of `measure`; its test fails with fio's words, and the others are measured."""
    answer = '("fio", "--parse-only", "-"), stderr="Bad option <nosuch=1>", returncode=1'
    others = "def test_y(measure): measure(FIO)\n"
    project.write(test_it=EXTRA + BY_CALL, test_other=RANDOM_WRITE + others, conftest=OTHER_HOST.format(answer=answer))
    result = project.run("test_it.py", own_process=True)
    result.assert_outcomes(failed=1)
    assert "refuses the options of fio randwrite 4k qd1 nosuch=1: Bad option <nosuch=1>." in flat(result)
    assert [event for event in project.events if event.startswith("boot")] == []
    project.run("test_other.py", own_process=True).assert_outcomes(passed=1)


def test_where_the_host_has_no_fio_the_guests_checks(project):
    """Which is said, and the test is measured."""
    project.write(test_it=EXTRA + BY_CALL, conftest=OTHER_HOST.format(answer='re.compile("command -v"), returncode=1'))
    (project.path / "conftest.py").write_text("import re\n" + (project.path / "conftest.py").read_text())
    result = project.run(own_process=True)
    result.assert_outcomes(passed=1)
    assert (
        flat(result).count("fakehost has no fio: the options of fio randwrite 4k qd1 nosuch=1 are checked where") == 1
    )


BAD_OPTIONS = {
    "--vm-accel=foo": "--vm-accel=foo is not known. It is auto, kvm or tcg.",
    "--vm-boot=resume": "--vm-boot=resume is not known. It is restore or fresh.",
    "--vm-timeout=abc": "'abc' is not a duration.",
    "--vm-timeout=0": "--vm-timeout=0 leaves a guest no time to boot.",
    "--vm-max-regression=abc": "'abc' is not a percentage.",
    "--vm-report=x.xyz": "the report format of '.xyz' is not known.",
    "--vm-report=test_two.py/x.md": "test_two.py is not writable or no folder.",
    "--vm-baseline=nosuch": "there is no baseline 'nosuch' in ",
    "--vm-rounds=0": "--vm-rounds=0 is not a number of rounds.",
    "--vm-without=caches": "--vm-without=caches names no step that could be left out. It is one of: guest-caches,",
    "--vm-without=sync": "--vm-without=sync leaves nothing to drop",
    "--vm-turbo=half": "--vm-turbo=half is not known. It is on or off.",
    "--vm-governor=on demand": "--vm-governor=on demand: the option takes one word, such as performance.",
    "--vm-host-scheduler=../x": "--vm-host-scheduler=../x: the option takes one word, such as none.",
    "--vm-save=": "--vm-save= is empty and does nothing. Give it a value, or leave it out.",
    "--vm-precision=5%": "--vm-precision=5% does nothing without --vm-rounds=auto. Add that, or leave it out.",
    "--vm-rounds-limit=1m": "--vm-rounds-limit=1m does nothing without --vm-rounds=auto.",
    "--vm-pairs-limit=1m": "--vm-pairs-limit=1m does nothing without --vm-against.",
    "--vm-acel=kvm": "unrecognized arguments: --vm-acel=kvm",
}


@pytest.mark.parametrize(("option", "sentence"), BAD_OPTIONS.items(), ids=BAD_OPTIONS)
def test_an_option_that_cannot_be(two_cells, option, sentence):
    """A bad option is refused before a lab is opened."""
    assert_refused(two_cells.run(option), sentence)
    assert two_cells.events == []


@pytest.mark.parametrize("option", ["--vm-accel=foo", "--vm-baseline=nosuch"])
def test_a_bad_option_under_xdist(two_cells, option):
    """The controller of xdist refuses in the same sentence, and no worker crashes over it."""
    result = two_cells.run("-n1", option, own_process=True)
    assert_refused(result, BAD_OPTIONS[option])
    assert "'gw0'" not in text_of(result)
    assert "[gw0]" not in text_of(result)


@pytest.mark.parametrize("option", ["-n1", "--vm-plan", "-v"])
def test_an_inventory_that_cannot_be_read(two_cells, option):
    """One sentence, in the run's only process, in xdist's controller and in a plan; to collect needs no inventory."""
    two_cells.write(vmstorage__toml="nonsense = 1\n")
    assert_refused(two_cells.run(option), "vmstorage.toml: 'nonsense' is not known.")
    assert two_cells.run("--collect-only").ret == 0


def test_help_minds_no_other_option(two_cells):
    """Somebody who asks for help is likely to have written one wrong."""
    result = two_cells.run("--help", "-n2", "--vm-rounds=bad", "--vm-host=a,b")
    assert result.ret == 0
    assert "--vm-rounds-limit" in text_of(result)


def test_an_impossible_cell_under_xdist(project):
    """A worker lets the sentence come from the test itself, and runs the others."""
    project.write(
        test_it='import pytest\n@pytest.mark.parametrize("format", ["raw", "qcow3"])\ndef test_x(measure): ...\n'
    )
    result = project.run("-n1")
    result.assert_outcomes(passed=1, errors=1)
    assert "format='qcow3' is not known." in text_of(result)
    assert "Traceback" not in text_of(result)


def test_the_ini_file_is_checked_alike(two_cells):
    """A bad value in the ini file is refused as on the command line, which is stronger."""
    two_cells.write(pytest__ini="[pytest]\nvm_accel = foo\nvm_rounds = 1\nvm_report = out.csv\n")
    assert_refused(two_cells.run(), "--vm-accel=foo is not known.")
    two_cells.run("--vm-accel=tcg").assert_outcomes(passed=2)
    assert ",round_1" in (two_cells.path / "out.csv").read_text()
    assert ",round_2" not in (two_cells.path / "out.csv").read_text()


def test_an_empty_option_takes_the_ini_files_value_away(two_cells):
    """There it does something, and what the ini file says for other runs is no error in this one."""
    two_cells.write(pytest__ini="[pytest]\nvm_save = main\nvm_precision = 3%\nvm_pairs_limit = 5m\n")
    two_cells.run("--vm-save=").assert_outcomes(passed=2)
    assert not [*two_cells.path.glob(".benchmarks/*/*.json")]


def test_a_host_that_cannot_be_used(two_cells):
    """What is wrong with the host is found before any test, and said in a sentence."""
    two_cells.wish(open="QEMU is not on fakehost.")
    assert_refused(two_cells.run(), "QEMU is not on fakehost. Install it.")


def test_a_host_that_cannot_be_used_under_xdist(two_cells):
    """A worker's tests fail with the sentence; it is not asked twice."""
    two_cells.wish(open="QEMU is not on fakehost.")
    result = two_cells.run("-n1")
    result.assert_outcomes(errors=2)
    assert "QEMU is not on fakehost. Install it." in text_of(result)
    assert "Traceback" not in text_of(result)


def test_looking_around_opens_no_lab(two_cells):
    """--co, --setup-plan, --fixtures and a broken test file next door do not touch the host."""
    for option in ("--co", "--setup-plan", "--fixtures", "--fixtures-per-test"):
        assert two_cells.run(option, "-q").ret == 0, option
    two_cells.write(test_broken="import nosuchmodule\n")
    assert two_cells.run().ret == pytest.ExitCode.INTERRUPTED
    assert two_cells.events == []


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("measure(FIO, rounds=0)", "measure(rounds=0): rounds must be 1 or more."),
        ("measure(FIO, warmup=-1)", "measure(warmup=-1): warmup must be 0 or more."),
        ('measure(Fio(rw="randwrite", size="64G"))', "needs 64G"),
        ("measure(None)", "measure(None) has no workload. Write for example measure(Fio(rw=...))."),
        ('measure("fio")', "measure('fio') has no workload."),
        ("measure(Fio)", "measure(Fio) has a class in place of a workload. Write measure(Fio(...))."),
        ('measure(FIO, rounds="x")', "measure(rounds='x') is not a number of rounds. Write rounds=3."),
        ("measure(FIO, rounds=1.5)", "measure(rounds=1.5) is not a number of rounds."),
        ('measure(FIO, warmup="x")', "measure(warmup='x') is not a number of rounds."),
    ],
)
def test_a_measurement_that_cannot_be(project, call, sentence):
    """A slip in a call of measure() fails that test in one sentence."""
    project.write(test_it=RANDOM_WRITE + f"def test_x(measure): {call}\ndef test_y(measure): measure(FIO)\n")
    result = project.run()
    result.assert_outcomes(passed=1, failed=1)
    assert sentence in text_of(result)
    assert "Traceback" not in text_of(result)


@pytest.mark.parametrize(
    "slip", ['Fio(rw="bogus")', "Hdparm()", 'Fio(rw="read", bs="a\\0b")', "Fio(rw='read', nosuch=1)"]
)
def test_a_slip_in_a_workload_is_shown_without_our_frames(project, slip):
    """The line of the test and one sentence: our own code is no part of it."""
    project.write(test_it=f"from pytest_vmstorage import *\ndef test_x(measure):\n    measure({slip})\n")
    result = project.run()
    result.assert_outcomes(failed=1)
    text = text_of(result)
    assert "test_it.py:3: ConfigError" in text
    assert "workloads/" not in text
    assert "pydantic" not in text.replace("pydantic_", "")
    (line,) = [line for line in text.splitlines() if line.startswith("E  ")]
    assert line.count("ConfigError: ") == 1


RAW_OPTIONS = {
    "--vm-wait=" + "9" * 500: "is not a duration",
    "--vm-timeout=1e999": "is not a duration",
    "--vm-rounds=" + "5" * 5000: "is not a number of rounds",
    "--vm-rounds=²": "is not a number of rounds",
    "--vm-seed=" + "5" * 5000: " is not a number.",
    "--vm-dir=circle/x": "leads nowhere",
    "--vm-dir=~nosuchuser/x": "leads nowhere",
    "--vm-report=" + "x" * 300 + ".md": "cannot be written: File name too long",
    "--vm-timeline=" + "x" * 300: "cannot be written: File name too long",
    "--vm-save=" + "x" * 300: "is too long for a file's name",
    "--vm-save=0001": "is a number, and each saved run has one",
    "--vm-matrix=/dev/zero": "cannot be read: it is not a regular file",
    "--vm-inventory=pipe": "cannot be read: it is not a regular file",
    "--vm-gate=pipe": "cannot be read: it is not a regular file",
    "--vm-baseline=deep.json": "is not JSON",
    "--vm-inconclusive=maybe": "is not known",
    "--vm-budget=0": "--vm-budget",
}


@pytest.mark.parametrize("option", RAW_OPTIONS, ids=lambda option: option[:30])
def test_a_bad_option_is_a_usage_error_in_one_sentence(project, option):
    """As a user gives it; in a process of its own, with a limit, as some of these hung."""
    (project.path / "circle").symlink_to(project.path / "circle")
    os.mkfifo(project.path / "pipe")
    project.write(deep__json="[" * 100_000, test_it="def test_it(measure): measure(None)\n")
    result = project.run("-q", "-p", "no:cacheprovider", "--vm-plan", option, own_process=True, limit_s=600)
    assert_refused(result, RAW_OPTIONS[option])
    assert len(flat(result)) < 3000
