"""schemas/*.json: JSON schemas of the files, from the models that read and write them.

A model says what it holds. Where a user may write something else (a percentage as a text, a rule as a table of axes) or
where a file has another form than the model (a packed run), the difference is told here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_vmstorage.analysis.gate.kinds import KINDS
from pytest_vmstorage.analysis.gate.policy_file import _GateFile
from pytest_vmstorage.config.cell import ALLOWED, BYTE_FIELDS, FIELDS, StorageConfig
from pytest_vmstorage.config.inventory_file import _InventoryFile
from pytest_vmstorage.config.matrix import _MatrixFile
from pytest_vmstorage.results.run import Run
from reference_pages.markdown import read_sections

Schema = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PACKED: Schema = {"type": "string", "contentEncoding": "base64", "description": "JSON, compressed with xz, in base64."}
_PACKED_LINE: Schema = {**_PACKED, "description": "JSON, compressed with gzip, in base64; with xz in earlier versions."}
_PERCENT: Schema = {"type": "string", "pattern": r"^[0-9.]+ *%?$", "description": 'A percentage such as "10%".'}
_TOLERATED: Schema = {"anyOf": [_PERCENT, {"const": "history"}]}
_SUM = "^sha256:[0-9a-f]{64}$"


def run_schema() -> Schema:
    """A run as plain JSON: what `Run` holds."""
    schema = _tidy(Run.model_json_schema())
    return _headed(schema, "A run", "All that one pytest run measured, in plain form.")


def report_schema() -> Schema:
    """The file of --vm-report=FILE.json: rows are readable, raw outputs, proofs and timelines are packed."""
    schema = run_schema()
    definitions = schema["$defs"]
    del schema["properties"]["timelines"]
    schema["properties"]["packed"] = _PACKED
    schema["required"] = [*schema["required"], "packed"]
    definitions["Sample"]["properties"]["raw"] = {"type": "string", "pattern": _SUM}
    row, failure = definitions["Measurement"]["properties"], definitions["Failure"]["properties"]
    row["proof"] = {"type": "integer", "minimum": 0, "description": "Place of the row's proof among those packed."}
    row |= {
        "verdict": {"enum": [kind.value for kind in KINDS]},
        "verdict_reason": {"type": "string"},
        "change": {"anyOf": [{"type": "number"}, {"type": "null"}], "description": "Change of the figure, a fraction."},
        "waiver": {"type": "string"},
    }
    whole = definitions["StorageConfig"]
    definitions["ShownConfig"] = {
        **whole,
        "description": "The cell as the row has it: null for fields that had no part in it; `cell` then has them all.",
        "properties": {name: {"anyOf": [one, {"type": "null"}]} for name, one in whole["properties"].items()},
    }
    for fields in (row, failure):
        fields |= {"config": {"$ref": "#/$defs/ShownConfig"}, "cell": {"$ref": "#/$defs/StorageConfig"}}
    used = {name: one for name, one in definitions.items() if name not in ("Proof", "Span", "Timeline")}
    said = "The JSON report of a run: `--vm-report=FILE.json`. It is a baseline as well."
    return _headed({**schema, "$defs": used}, "The JSON report", said)


def saved_schema() -> Schema:
    """The file of --vm-save: pytest-benchmark's, with our run in a block of its own."""
    block = {
        "type": "object",
        "properties": {"schema_version": {"type": "integer"}, "started": {"type": "string"}, "packed": _PACKED},
        "required": ["schema_version", "started", "packed"],
        "additionalProperties": False,
    }
    promoted = {"type": "object", "properties": {"at": {"type": "string"}, "from": {"type": "string"}}}
    schema: Schema = {
        "type": "object",
        "properties": {
            "vmstorage": block,
            "vmstorage_promoted": {**promoted, "description": "Made a baseline by `vmstorage promote`: the first day."},
            "benchmarks": {"type": "array", "items": {"type": "object"}},
            "datetime": {"type": "string"},
        },
        "required": ["vmstorage", "benchmarks", "datetime"],
    }
    return _headed(schema, "The saved run", "A file of --vm-save below .benchmarks; other keys are pytest-benchmark's.")


def journal_schema() -> Schema:
    """A line of a journal: a sample, or spans of time."""
    schema = run_schema()
    definitions = schema["$defs"]
    sample = definitions["Sample"]
    bare = {name: one for name, one in sample["properties"].items() if name != "raw"}
    required = [name for name in sample["required"] if name != "raw"]
    text = {"type": "string"}
    lines = [
        {
            "description": "A finished round; `packed` has the tool's output.",
            "properties": {
                "nodeid": text,
                "workload": text,
                "config": {"$ref": "#/$defs/StorageConfig"},
                "host": text,
                "sample": {**sample, "properties": bare, "required": required},
                "packed": _PACKED_LINE,
            },
        },
        {
            "description": "Spans of time of a process, since its line before.",
            "properties": {"process": text, "began": text, "packed": _PACKED_LINE},
        },
    ]
    closed = [
        {"type": "object", **line, "required": [*line["properties"]], "additionalProperties": False}
        for line in lines
    ]  # fmt: skip
    used = {name: definitions[name] for name in ("StorageConfig", "IoCounters", "Cost", "Series")}
    return _headed({"oneOf": closed, "$defs": used}, "The journal", "One line of a journal in .vmstorage.")


def inventory_schema() -> Schema:
    """vmstorage.toml, as JSON."""
    schema = _told(_of_toml(_InventoryFile.model_json_schema()), "vmstorage.toml")
    # numbers, true and false are taken as texts
    label = schema["$defs"]["Machine"]["properties"]["label"]
    label["additionalProperties"] = {"type": ["string", "number", "boolean"]}
    return _headed(schema, "vmstorage.toml", "Hosts, devices, machines and images, as JSON has TOML's tables.")


def matrix_schema() -> Schema:
    """The matrix file, as JSON."""
    schema = _of_toml(_MatrixFile.model_json_schema())
    schema["$defs"] |= {name: _value(name) for name in FIELDS}
    values: Schema = {name: {"$ref": f"#/$defs/{name}"} for name in FIELDS}
    several = {name: {"type": "array", "items": one, "minItems": 1} for name, one in values.items()}
    either = {name: {"anyOf": [one, several[name]]} for name, one in values.items()}
    properties = schema["properties"]
    properties["axes"] = {"type": "object", "properties": several, "additionalProperties": False, "minProperties": 1}
    properties["storage"] = {"type": "object", "properties": values, "additionalProperties": False}
    schema["$defs"]["MatrixRule"] = {
        "type": "object",
        "description": "A cell matches it when each field named has one of the values.",
        "properties": {**either, "reason": {"type": "string"}},
        "additionalProperties": False,
    }
    return _headed(_told(schema, "matrix"), "The matrix file", "The file of --vm-matrix, as JSON has TOML's tables.")


def gate_schema() -> Schema:
    """The gate file, as JSON."""
    schema = _of_toml(_GateFile.model_json_schema())
    del schema["$defs"]["Tolerated"]
    schema["properties"] |= {"tolerated": dict(_TOLERATED), "day_spread": dict(_PERCENT)}
    schema["$defs"]["Cells"]["properties"]["tolerated"] = dict(_TOLERATED)
    schema["$defs"]["History"]["properties"]["least"] = dict(_PERCENT)
    return _headed(_told(schema, "gate"), "The gate file", "vmstorage-gate.toml, as JSON has TOML's tables.")


SCHEMAS = {
    "saved-run": saved_schema,
    "run": run_schema,
    "report": report_schema,
    "journal": journal_schema,
    "vmstorage-toml": inventory_schema,
    "matrix": matrix_schema,
    "gate": gate_schema,
}
"""What makes each schema, by its name below schemas/."""


def schema_text(name: str) -> str:
    """The text of a schema's file."""
    return json.dumps(SCHEMAS[name](), indent=1, ensure_ascii=False) + "\n"


def keys_of(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """All keys of a file's schema by their dotted path: "hosts.NAME.devices.NAME.id"; rules' fields are axes."""
    found: dict[str, Mapping[str, Any]] = {}

    def walk(part: Mapping[str, Any], path: str) -> None:
        part = _resolved(schema, part)
        if part.get("type") == "array":
            walk(part["items"], path)
            return
        for key, one in part.get("properties", {}).items():
            if not (key in FIELDS and part["properties"].keys() >= {*FIELDS}):
                found[f"{path}{key}"] = one
                walk(one, f"{path}{key}.")
        if isinstance(part.get("additionalProperties"), dict):
            walk(part["additionalProperties"], f"{path}NAME.")

    walk(schema, "")
    return found


def _resolved(schema: Mapping[str, Any], part: Mapping[str, Any]) -> Mapping[str, Any]:
    name = str(part.get("$ref", "")).rpartition("/")[2]
    resolved: Mapping[str, Any] = schema["$defs"][name] if name else part
    return resolved


def _headed(schema: Schema, title: str, description: str) -> Schema:
    rest = {name: one for name, one in schema.items() if name not in ("title", "description")}
    return {"$schema": _DIALECT, "title": title, "description": description, **rest}


def _tidy(schema: Any) -> Any:
    """A schema without pydantic's titles, whose objects have no other fields than those of the model."""
    if isinstance(schema, list):
        return [_tidy(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    named = ("properties", "$defs")
    tidy = {
        name: {key: _tidy(value) for key, value in one.items()} if name in named else _tidy(one)
        for name, one in schema.items()
        if name != "title"
    }
    if "properties" in tidy:
        tidy.setdefault("additionalProperties", False)
    if "description" in tidy:
        # the rest of a docstring is about Python
        tidy["description"] = " ".join(str(tidy["description"]).partition("\n\n")[0].split())
    return tidy


def _of_toml(schema: Mapping[str, Any]) -> Schema:
    """The schema of a TOML file: without null, which TOML has not, and with definitions by their names alone."""
    text = json.dumps(_tidy(schema)).replace("#/$defs/_", "#/$defs/")
    tidy: Schema = _without_null(json.loads(text))
    tidy["$defs"] = {name.lstrip("_"): one for name, one in tidy["$defs"].items()}
    return tidy


def _without_null(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_null(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    some = {name: _without_null(one) for name, one in schema.items() if (name, one) != ("default", None)}
    choice = [one for one in some.get("anyOf", []) if one != {"type": "null"}]
    if len(choice) == 1:
        return {**{name: one for name, one in some.items() if name != "anyOf"}, **choice[0]}
    return some


def _told(schema: Schema, file: str) -> Schema:
    """The schema with what each key means, which its models say as a remedy alone."""
    texts = read_sections("key_texts.md")
    for path, one in keys_of(schema).items():
        said = texts[f"{file} {path}"]
        if isinstance(one, dict):
            one["description"] = " ".join(said.split())
    return schema


def _value(name: str) -> Schema:
    """What a TOML file may have for a field: a word of its list, a number, true or false, a size, "default"."""
    default = StorageConfig.model_fields[name].default
    described = {"description": StorageConfig.model_fields[name].description or ""}
    if name in ALLOWED:
        return {"enum": [*ALLOWED[name]], **described}
    if isinstance(default, bool):
        return {"type": "boolean", **described}
    if name in BYTE_FIELDS:
        return {"type": ["integer", "string"], **described}
    if name in ("queues", "queue_size", "total_iops_sec"):
        return {"anyOf": [{"type": "integer", "minimum": 1}, {"const": "default"}], **described}
    return {"type": "integer" if isinstance(default, int) else "string", **described}
