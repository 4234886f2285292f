"""The packed form of a run: what takes much room and few people read is compressed in one text of its JSON document.

Tools' raw output, series, proofs and the timelines make nine tenths of a run, and say nearly the same in each round.
They are compressed together with xz (each row for itself takes a fifth more), as base64, which JSON can hold and a
shell can read without Python: `jq -r .packed FILE | base64 -d | xz -d`. In the text, each output stands under its
SHA-256, which its sample names, each proof once, to which the rows of its cell point, and each series, to which its
sample points.

Most of fio's output are histograms, of some 1,500 lines a round. They stand apart from the outputs, in which their
numbers are: of each the spaces before its lines with the steps from key to key, and its counts. As like stands by like,
that takes two thirds of the room, and a sixth of the time.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from pytest_vmstorage.errors import ConfigError

_ROWS = ("measurements", "against")
_SUM = "sha256:"

_LEAST_WINDOW, _LARGEST_WINDOW = 2**12, 2**23
"""The bytes in which xz finds what is repeated: the least that it takes, and what 300 rounds of fio have."""

_GZIP, _GZIP_BEGINS = 31, b"\x1f\x8b"
"""zlib's number of the form of gzip with the largest window, and how it begins (RFC 1952)."""

_LARGEST_BYTES, _LARGEST_MEMORY = 2**30, 2**28
"""More text than a thousand cells have, and more memory than it takes to read what xz packed at its best."""


def check_lzma() -> None:
    """Raises ConfigError where this Python was built without lzma, which its authors call optional."""
    _lzma()


def _lzma() -> ModuleType:
    # loaded when something is packed: a Python without it is to say so in a sentence
    try:
        import lzma
    except ImportError:
        raise ConfigError(
            "this Python has no lzma module, by which saved runs and JSON reports are compressed.",
            hint="Install liblzma-dev (xz-devel), build Python again, or use the distribution's.",
            code="VM237",
        ) from None
    return lzma


def pack(value: object, *, quick: bool = False) -> str:
    """A JSON value as base64 of its text in xz, with `quick` in gzip.

    For a round of fio's output gzip takes an eighth of the time; it takes a fifth more room than xz, or 5 % where the
    histograms stand apart (see `pack_output`).
    """
    text = json.dumps(value, separators=(",", ":")).encode()
    if quick:
        return base64.b64encode(zlib.compress(text, wbits=_GZIP)).decode()
    lzma = _lzma()
    # buffers as large as the text: to fill those of the preset takes as long as to pack a sample
    size = min(max(len(text), _LEAST_WINDOW), _LARGEST_WINDOW)
    how = {"id": lzma.FILTER_LZMA2, "preset": 6 | lzma.PRESET_EXTREME, "pb": 0, "dict_size": size}
    packed: bytes = lzma.compress(text, filters=[how])
    return base64.b64encode(packed).decode()


def unpack(text: str) -> Any:
    """The JSON value that `pack` made the text of; raises ConfigError for any other text."""
    lzma = _lzma()
    try:
        packed = base64.b64decode(text, validate=True)
        if packed.startswith(_GZIP_BEGINS):
            reader = zlib.decompressobj(wbits=_GZIP)
        else:
            reader = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_LARGEST_MEMORY)
        content = reader.decompress(packed, _LARGEST_BYTES)
        if not reader.eof:
            raise ConfigError("its packed part is cut short, or larger than 1 GiB.", code="VM251")
        return json.loads(content)
    except (ValueError, TypeError, RecursionError, zlib.error, lzma.LZMAError):
        raise ConfigError("its packed part cannot be read.", code="VM251") from None


def pack_output(raw: str) -> str:
    """A tool's raw output as a line of a journal has it: packed quickly, between two rounds."""
    histograms = _Histograms([], [])
    return pack({"output": histograms.taken_out(raw), "histograms": histograms}, quick=True)


def unpack_output(text: str) -> str:
    """The raw output that `pack_output` made the text of; raises ConfigError for any other text."""
    try:
        content = unpack(text)
        return _Histograms(*content["histograms"]).put_in(content["output"])
    except (LookupError, TypeError, ValueError):
        raise ConfigError("its packed part cannot be read.", code="VM251") from None


# int() reads no more digits than 4300
_BIN = r'^( {1,100})"(\d{1,18})" : (\d{1,18}),?\n'
_BINS = re.compile(f"(?:{_BIN})+", re.MULTILINE)
_DEEPEST_SPACES = 100


class _Histograms(NamedTuple):
    """The histograms of outputs, each by its number: spaces before its lines with steps from key to key; and counts."""

    steps: list[list[int]]
    counts: list[list[int]]

    def taken_out(self, raw: str) -> list[str | int]:
        """The output as texts and numbers of histograms; a single text where these would not make it up."""
        pieces: list[str | int] = []
        place, first = 0, len(self.steps)
        for found in _BINS.finditer(raw):
            bins = re.findall(_BIN, found[0], re.MULTILINE)
            keys = [int(key) for _, key, _ in bins]
            pieces += [raw[place : found.start()], len(self.steps)]
            self.steps.append([len(bins[0][0]), *(key - before for key, before in zip(keys, [0, *keys], strict=False))])
            self.counts.append([int(count) for *_, count in bins])
            place = found.end()
        pieces.append(raw[place:])
        if self.put_in(pieces) == raw:
            return pieces
        del self.steps[first:], self.counts[first:]
        return [raw]

    def put_in(self, pieces: Sequence[str | int]) -> str:
        """The output of which these are the pieces."""
        return "".join(piece if isinstance(piece, str) else self._lines(piece) for piece in pieces)

    def _lines(self, number: int) -> str:
        indent, *steps = self.steps[number]
        if indent > _DEEPEST_SPACES:
            raise ValueError(indent)
        bins = zip(itertools.accumulate(steps), self.counts[number], strict=True)
        return ",\n".join(f'{" " * indent}"{key}" : {count}' for key, count in bins) + "\n"


def pack_evidence(document: Mapping[str, Any]) -> dict[str, Any]:
    """A run's document with readable rows, and with raw outputs, series, proofs and timelines packed."""
    rows, evidence = _parted(document)
    return {**rows, "packed": pack(evidence)}


def pack_run(document: Mapping[str, Any]) -> dict[str, Any]:
    """A run's document with everything packed but the version of its form and when it was started."""
    rows, evidence = _parted(document)
    head = {name: rows.pop(name) for name in ("schema_version", "started")}
    return {**head, "packed": pack({**rows, **evidence})}


def unpacked(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The plain document of a run from any of its forms; raises ConfigError where the packed part is damaged."""
    if not isinstance(document.get("packed"), str):
        return document
    content = unpack(document["packed"])
    try:
        whole = {**content, **document}
        histograms, proofs = _Histograms(*whole.pop("histograms")), whole.pop("proofs")
        # earlier versions packed none
        series = whole.pop("series", ())
        outputs = {name: histograms.put_in(one) for name, one in whole.pop("outputs").items()}
        del whole["packed"]
        if any(_sum(text) != name for name, text in outputs.items()):
            raise ConfigError("a raw output in it is not what was measured: its SHA-256 is another.", code="VM251")
        for name in _ROWS:
            whole[name] = [_whole_row(row, outputs, proofs, series) for row in whole[name]]
    except (LookupError, TypeError, AttributeError, ValueError):
        raise ConfigError("its packed part does not go with its rows.", code="VM251") from None
    return whole


def without_evidence(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The plain document of a run without raw outputs, series, proofs and timelines, which most of the time goes into.

    Raises ConfigError where the packed part is damaged.
    """
    content: Mapping[str, Any] = {}
    if isinstance(document.get("packed"), str):
        # the report's form has its rows outside of what is packed
        content = {} if "measurements" in document else unpack(document["packed"])
    try:
        whole = {**content, **document}
        rows = [
            {**row, "samples": [{**sample, **_NO_EVIDENCE} for sample in row["samples"]], "proof": []}
            for row in whole["measurements"]
        ]
        kept = {name: whole[name] for name in ("schema_version", "started", "hosts")}
    except (LookupError, TypeError):
        raise ConfigError("its packed part does not go with its rows.", code="VM251") from None
    return {**kept, "measurements": rows}


_NO_EVIDENCE: Mapping[str, object] = {"raw": "", "series": None, "warm_ups": ()}


def _parted(document: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The document without what takes much room, and that."""
    outputs: dict[str, list[str | int]] = {}
    proofs: dict[str, int] = {}
    series: list[Mapping[str, Any]] = []
    histograms = _Histograms([], [])

    def place(one: Mapping[str, Any]) -> int:
        series.append(_by_size(one))
        return len(series) - 1

    def short(row: Mapping[str, Any]) -> dict[str, Any]:
        samples = []
        for sample in row["samples"]:
            name = _sum(sample["raw"])
            if name not in outputs:
                outputs[name] = histograms.taken_out(sample["raw"])
            samples.append({**sample, "raw": name, **_with_series(sample, place)})
        return {**row, "samples": samples, "proof": proofs.setdefault(json.dumps(row["proof"]), len(proofs))}

    rows = {name: [short(row) for row in document[name]] for name in _ROWS}
    rest = {name: value for name, value in document.items() if name != "timelines"} | rows
    return rest, {
        "proofs": [json.loads(one) for one in proofs],
        "timelines": document["timelines"],
        "outputs": outputs,
        "histograms": histograms,
        "series": series,
    }


def _with_series(sample: Mapping[str, Any], change: Callable[[Any], object]) -> dict[str, object]:
    """The sample's series changed so: to their places, or from them; {} of a sample that an earlier version saved."""
    if "series" not in sample:
        return {}
    one, warm_ups = sample["series"], sample["warm_ups"]
    return {"series": None if one is None else change(one), "warm_ups": [change(each) for each in warm_ups]}


_OPERATIONS = {"read_bytes": "reads", "written_bytes": "writes"}


def _by_size(series: Mapping[str, Any]) -> dict[str, Any]:
    """A series with one size in place of its bytes where each operation has that, as in most jobs: it saves a third."""
    sizes = {}
    for name, operations in _OPERATIONS.items():
        pairs = list(zip(series.get(operations, ()), series.get(name, ()), strict=False))
        size = next((moved // count for count, moved in pairs if count), 0)
        if size and all(moved == size * count for count, moved in pairs):
            sizes[name] = size
    return {**series, **sizes}


def _by_step(series: Mapping[str, Any]) -> dict[str, Any]:
    """The series of which that was made."""
    sizes = {name: size for name in _OPERATIONS if isinstance(size := series.get(name), int)}
    return {**series, **{name: [size * count for count in series[_OPERATIONS[name]]] for name, size in sizes.items()}}


def _whole_row(
    row: Mapping[str, Any],
    outputs: Mapping[str, str],
    proofs: Sequence[object],
    series: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    samples = [
        {**sample, "raw": outputs[sample["raw"]], **_with_series(sample, lambda place: _by_step(series[place]))}
        for sample in row["samples"]
    ]
    return {**row, "samples": samples, "proof": proofs[row["proof"]]}


def _sum(text: str) -> str:
    # JSON can hold halves of surrogates, UTF-8 cannot
    return _SUM + hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def json_lines(document: Mapping[str, Any]) -> str:
    """A JSON document without indent: each of its fields begins a line, and each entry of a list that is one."""
    fields = [f"{json.dumps(name)}: {_lines(value)}" for name, value in document.items()]
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _lines(value: object) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(_short(one) for one in value) + "\n]"
    return _short(value)


def _short(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
