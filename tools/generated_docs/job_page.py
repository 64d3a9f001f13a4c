"""docs/job.md: the fields of a job, each with its type, default, meaning and an example."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from remote_gpu_trainer.runs.job import Job
from remote_gpu_trainer.runs.job_errors import examples_by_part

from .schema_types import type_of
from .templates_of_documents import filled


def job_page(root: Path) -> str:
    """The page, from the model that reads a job."""
    schema = Job.model_json_schema()
    examples = examples_by_part()
    parts = {name: part for name, part in schema["$defs"].items() if part.get("properties")}
    sections = [
        (name, part.get("description", ""), _rows(part, examples[name], set(parts)))
        for name, part in sorted(parts.items())
    ]
    return filled("job", rows=_rows(schema, examples["Job"], set(parts)), sections=sections)


def _rows(
    part: Mapping[str, Any], examples: Mapping[str, Any], parts: set[str]
) -> list[tuple[str, ...]]:
    """(field, type, default, meaning, example) of each field, as cells of a table."""
    rows = []
    for name, about in part["properties"].items():
        kind = re.sub(r"[A-Z]\w+", lambda word: _linked(word[0], parts), type_of(about))
        default = about.get("default")
        told = "required" if name in part.get("required", ()) else ""
        if default not in (None, "", [], {}) and not isinstance(default, dict):
            told = f"`{_in_yaml(default)}`"
        rows.append(
            (
                f"`{name}`",
                kind,
                told,
                _cell(about.get("description", "")),
                f"`{_cell(_in_yaml({name: examples[name]})[1:-1])}`",
            )
        )
    return rows


def _linked(name: str, parts: set[str]) -> str:
    return f"[{name}](#{name.lower()})" if name in parts else name


def _in_yaml(value: object) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
