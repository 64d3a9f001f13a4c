"""What is wrong with a job, in words: `FILE line N, FIELD: what is wrong; what to write`.

`KINDS` says for each kind of fault that pydantic finds what a person reads. Nothing of pydantic's
own text comes through, and no text of the job: only its names of fields, numbers and truth values.
"""

from __future__ import annotations

import difflib
import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from ..text import UserError
from ..text.masking import shown
from ..text.spans import seconds_in
from .job import Job
from .job_values import WrongValue
from .written import FieldPath, Place, Written

MOST_FAULTS = 20  # of one job that are named
MOST_NAMES = 14  # of fields that are listed
_PLAIN = re.compile(r"[A-Za-z_./~@$][\w./~@$+:=-]*(?<!:)")
_READ_OTHERWISE = re.compile(r"(true|false|null|~)\Z", re.IGNORECASE)
_ABSENT = object()

# What a field wants, by the kind of fault.
WANTED = {
    **dict.fromkeys(("string_type", "string_sub_type"), "a text"),
    **dict.fromkeys(
        ("int_type", "int_parsing", "int_from_float", "int_parsing_size"), "a whole number"
    ),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "iterable_type"), "a list"),
    **dict.fromkeys(
        ("dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type"),
        "an object with fields",
    ),
}
# What other tools call a field: the field, as a path.
CALLED_ELSEWHERE = {
    **dict.fromkeys(
        ("env", "envs", "env_vars", "environ", "environment_variables", "vars"), "variables"
    ),
    **dict.fromkeys(("cmd", "run", "entrypoint", "script", "program", "args"), "command"),
    **dict.fromkeys(("timeout", "time_limit", "walltime", "max_time", "duration"), "deadline"),
    **dict.fromkeys(("workdir", "working_dir", "source_dir"), "code"),
    **dict.fromkeys(("requirements", "packages", "dependencies"), "environment"),
    **dict.fromkeys(("num_gpus", "n_gpus", "ngpus", "gpu", "gpu_count", "accelerators"), "gpus"),
    **dict.fromkeys(("num_nodes", "nnodes", "machines"), "nodes"),
    **dict.fromkeys(("nproc_per_node", "num_processes", "ntasks"), "processes"),
    **dict.fromkeys(
        ("output_dir", "checkpoint_dir", "checkpoints", "save_dir", "ckpt_dir"), "checkpoint.folder"
    ),
    **dict.fromkeys(("max_steps", "total_steps", "steps"), "final_step"),
    **dict.fromkeys(("max_retries", "restarts", "retry"), "retries"),
    **dict.fromkeys(("bucket", "sync_to", "backup"), "durable.to"),
    **dict.fromkeys(("cost", "hourly_price"), "price"),
    **dict.fromkeys(("profile", "provider", "cloud"), "platform"),
    **dict.fromkeys(("job_name", "title", "experiment"), "name"),
    **dict.fromkeys(("docker", "container_image"), "container.image"),
}
# What the text of a field looks like, where a regular expression says it.
FORMS = {
    "name": "must be 1 to 50 of a-z, 0-9 and '-', with '-' neither first nor last",
    "platform": "must be a name that rgt profile lists, such as runpod",
    "run_dir": "must be a folder below ~/ or /, of letters, digits and ._-/",
    "rendezvous": "must be HOST:PORT",
    "resume.flag": "must begin with '-'",
    "resume.switch": "must begin with '-'",
    "at_end.box_id": "must be up to 100 letters, digits and ._-",
    "container.image": "must be a path that ends in .sif, .img or .sqsh, or the name of an image",
    "container.mounts": "must be SOURCE, SOURCE:TARGET or SOURCE:TARGET:ro, each an absolute path",
    "queue.cells.name": "must be 1 to 100 letters, digits and ._=+-, with a letter or digit first",
    "variables": "must be of letters, digits and _, with no digit first",
    "secrets": "must be of letters, digits and _, with no digit first",
}
_SECONDS = {"minutes": 60, "seconds": 1, "hours": 3600}


class JobError(UserError):
    """A job that can't run as it is written. Each line: its place, what is wrong, what to do."""


@dataclass(frozen=True)
class Fault:
    """One fault: pydantic's kinds of it, the path of the field, the value there.

    `about`: what the kind says further, such as a limit. `of_name`: it is the name of a part, not
    its value, that is wrong.
    """

    kinds: tuple[str, ...]
    path: FieldPath
    value: Any = _ABSENT
    about: Mapping[str, Any] = field(default_factory=dict)
    of_name: bool = False
    place: Place | None = None
    model: type[BaseModel] | None = None

    @property
    def name(self) -> str:
        """Return the field's own name."""
        return next((part for part in reversed(self.path) if isinstance(part, str)), "")

    @property
    def field(self) -> str:
        """Return the path of the field in the model, without indexes: queue.cells.name."""
        return _field_of(self.path)


def _wrong_kind(fault: Fault) -> str:
    """Return what a field is and what it must be."""
    wanted = " or ".join(dict.fromkeys(WANTED[kind] for kind in fault.kinds if kind in WANTED))
    if expected := fault.about.get("expected"):
        wanted = f"{_flat(expected)}, or {wanted}" if wanted else _flat(expected)
    if fault.value is None:
        return f"has no value; {_write(fault)}{'' if _is_required(fault) else ', or leave it out'}"
    if fault.value == "" and isinstance(fault.value, str):
        return f"is empty, and must be {wanted}; {_write(fault)}"
    if isinstance(fault.value, float) and "int_from_float" in fault.kinds:
        return f"is {_short(fault.value)}, and must be a whole number; {_write(fault)}"
    if "int_parsing_size" in fault.kinds:
        return f"is too large a number; {_write(fault)}"
    if unit := _unit(fault):
        wanted = f"a number of {unit}, without a unit behind it"
    is_variables = fault.field == "environment" and isinstance(fault.value, dict)
    more = "; variables sets those of the program" if is_variables else ""
    return f"is {_what(fault.value)}, and must be {wanted}{more}; {_write(fault)}"


def _is_required(fault: Fault) -> bool:
    fields = fault.model.model_fields if fault.model else {}
    return any(
        info.is_required() for name, info in fields.items() if fault.name in (name, info.alias)
    )


def _choice(fault: Fault) -> str:
    expected = _flat(fault.about.get("expected", ""))
    if fault.of_name:
        return f"unknown name; use one of {expected}"
    if isinstance(fault.value, (list, dict)) or fault.value is None or len(fault.kinds) > 1:
        return _wrong_kind(fault)
    return f"must be {expected}; {_write(fault)}"


def _missing(fault: Fault) -> str:
    return f"missing; {_write(fault)}"


def _unknown(fault: Fault) -> str:
    """Return what an unknown field was to be: a misspelt one, one of another part, or nothing."""
    above, written = _dotted(fault.path[:-1]), str(fault.path[-1])
    if _is_around_all(fault):
        return "stands around the fields of the job; write name, command and the others without it"
    meant = _meant(fault)
    if meant.rpartition(".")[0] == _field_of(fault.path[:-1]) and meant:
        if not above and spelt_as(written) in CALLED_ELSEWHERE:
            return f"unknown field; {_write_elsewhere(fault, meant)}"
        return f"unknown field; write {meant.rpartition('.')[2]} in place of {_name(written)}"
    if meant:
        is_known = meant.rpartition(".")[2] == spelt_as(written)
        fault_words = "stands in the wrong place" if is_known else "unknown field"
        return f"{fault_words}; {_write_elsewhere(fault, meant)}"
    own = names_of(fault.model) if fault.model else []
    if above and own and len(own) <= MOST_NAMES:
        return f"unknown field; {above} has {', '.join(own)}"
    return "unknown field; rgt render --schema lists the fields (schema://job in MCP)"


def _meant(fault: Fault) -> str:
    """Return the path of the field that an unknown one was to be, '' where that isn't plain."""
    written, part = str(fault.path[-1]), _field_of(fault.path[:-1])
    own = names_of(fault.model) if fault.model else []
    alike = [name for name in own if _spelt(name) == _spelt(written)]
    if not alike and not part and (called := CALLED_ELSEWHERE.get(spelt_as(written))):
        return called
    alike = alike or difflib.get_close_matches(written.lower(), own, 1, 0.65 if part else 0.7)
    begun = [name for name in own if len(written) > 2 and name.startswith(f"{written.lower()}_")]
    if alike or len(begun) == 1:
        return ".".join(filter(None, [part, (alike or begun)[0]]))
    depth = 0 if part else 1  # a field of the job itself, or of one of its parts
    places = [path for path in fields_of(Job) if path.count(".") == depth]
    return next((path for path in places if path.rpartition(".")[2] == spelt_as(written)), "")


def _is_around_all(fault: Fault) -> bool:
    """Return whether an unknown field holds the whole job."""
    is_unknown = fault.kinds == ("extra_forbidden",) and len(fault.path) == 1
    return is_unknown and isinstance(fault.value, dict) and {"name", "command"} <= set(fault.value)


def _write_elsewhere(fault: Fault, where: str) -> str:
    """Return what to write for a field that belongs at `where`, with the value that was given if
    it is a number."""
    above, _, name = where.rpartition(".")
    value = example(where)
    if _is_number(fault.value) and _is_number(value):
        value = fault.value
    if not above:
        at_edge = " at the left edge" if len(fault.path) > 1 and fault.place else ""
        return f"write {_line(name, value, fault.place)}{at_edge}"
    first, *rest = [*above.split("."), name]
    inner: Any = value
    for part in reversed(rest):
        inner = {part: inner}
        if part == name and isinstance(example(above), list):
            inner = [inner]
    return f"write {_line(first, inner, fault.place)}"


def _limit(words: str, name: str) -> Callable[[Fault], str]:
    def say_fault(fault: Fault) -> str:
        limit = _short(fault.about.get(name, ""))
        is_it = f"is {_short(fault.value)}, and " if _is_number(fault.value) else ""
        return f"{is_it}must be {words.format(limit)}; {_write(fault)}"

    return say_fault


def _form(fault: Fault) -> str:
    """Return what a text must look like."""
    words = FORMS.get(fault.field, "isn't of the form that it must have")
    if fault.of_name:
        words = FORMS.get(_field_of(fault.path[:-1]), "isn't a name that can be used")
        return f"the name {words}; rename it"
    return f"{words}; {_write(fault)}"


def _length(words: str, limit: str) -> Callable[[Fault], str]:
    def say_fault(fault: Fault) -> str:
        size = fault.about.get(limit, "")
        return f"{words.format(_short(size))}; {_write(fault)}"

    return say_fault


def _own_words(fault: Fault) -> str:
    """Return what a check of our own says, with what to write."""
    sentence, error = str(fault.about.get("told", "")), fault.about.get("error")
    if isinstance(error, WrongValue):
        line = _line(fault.name, error.meant, fault.place, _dotted(fault.path))
        return f"{sentence}; write {line}{error.more}"
    return sentence if "; " in sentence else f"{sentence}; {_write(fault)}"


def _other(fault: Fault) -> str:
    return f"can't be what it is; {_write(fault)}"


KINDS: dict[str, Callable[[Fault], str]] = {
    **dict.fromkeys(WANTED, _wrong_kind),
    **dict.fromkeys(("literal_error", "enum"), _choice),
    "missing": _missing,
    "extra_forbidden": _unknown,
    "greater_than": _limit("over {}", "gt"),
    "greater_than_equal": _limit("{} or more", "ge"),
    "less_than": _limit("under {}", "lt"),
    "less_than_equal": _limit("{} or less", "le"),
    "finite_number": lambda fault: f"must be a finite number; {_write(fault)}",
    "string_pattern_mismatch": _form,
    "string_unicode": lambda fault: (
        "has half a character (a lone surrogate), which UTF-8 can't encode; write it again"
    ),
    "string_too_short": lambda fault: f"is empty; {_write(fault)}",
    "string_too_long": _length("is longer than {} characters", "max_length"),
    "too_short": lambda fault: f"is empty; {_write(fault)}",
    "too_long": _length("has more than {} parts", "max_length"),
    "value_error": _own_words,
}


def job_error(error: ValidationError, given: Any) -> JobError:
    """Return the faults that the model of a job found in what was given, one a line."""
    found = error.errors(include_input=False, include_url=False)
    faults = _merged([_fault(one, given) for one in found])
    faults.sort(key=lambda fault: fault.place.line if fault.place else 0)
    lines = list(dict.fromkeys(line_of(fault) for fault in faults))
    if (more := len(lines) - MOST_FAULTS) > 0:
        lines[MOST_FAULTS:] = [f"and {more:,} faults more; mend these first"]
    return JobError("\n".join(lines))


def line_of(fault: Fault) -> str:
    """Return the line of a fault: its place, its field, and what is wrong."""
    words = next((KINDS[kind] for kind in fault.kinds if kind in KINDS), _other)
    return _placed(fault.place, _dotted(fault.path), words(fault))


def placed(given: Any, sentence: str) -> JobError:
    """Return the error of a sentence `FIELD: what is wrong; what to do`, with the field's place."""
    path, _, words = sentence.partition(": ")
    parts: FieldPath = tuple(int(part) if part.isdecimal() else part for part in path.split("."))
    if not isinstance(given, Written) or parts[0] not in Job.model_fields:
        return JobError(sentence)
    place = given.place(parts)
    if place and not place.line and place.form != "option":
        place = None
    if place and place.form == "option":
        words = words.replace(f"write {path}: ", f"write --set {path}=")
    return JobError(_placed(place, path, words))


def _placed(place: Place | None, path: str, words: str) -> str:
    if place is None or not path:
        return f"{place or path or 'job'}: {words}"
    return f"{place} {path}: {words}" if place.form == "option" else f"{place}, {path}: {words}"


def _fault(found: Mapping[str, Any], given: Any) -> Fault:
    """Return a fault with the path and value of its field, found in what was given.

    A path of pydantic's also names variants of a type; what isn't in the job is no part of it.
    """
    path: list[str | int] = []
    value = given
    *above, last = found["loc"] or ("",)
    for part in (*above, last):
        if _has(value, part):
            value = value[part]
            path.append(part)
    kind, about = found["type"], dict(found.get("ctx") or {})
    if kind == "missing":
        path.append(last)
        value = _ABSENT
    if kind == "value_error":
        about["told"] = found["msg"].removeprefix("Value error, ")
        named = re.match(r"([a-z_]+)((?:\.\w+)*): (.*)", about["told"], re.DOTALL)
        if not path and named and named[1] in Job.model_fields:
            path = [named[1], *named[2].split(".")[1:]]
            about["told"] = named[3]
    where = tuple(path)
    place = given.place(where) if isinstance(given, Written) else None
    part_model = fields_of(Job).get(_field_of(where[:-1]))
    return Fault((kind,), where, value, about, last == "[key]", place, part_model)


def _has(value: Any, part: str | int) -> bool:
    """Return whether a list or an object has a part."""
    if isinstance(value, dict):
        return isinstance(part, str) and part in value
    return isinstance(value, (list, tuple)) and isinstance(part, int) and part < len(value)


def _merged(faults: list[Fault]) -> list[Fault]:
    """Return the faults, one for each field: a value that fits no variant of a type has several.

    Where a field of a part is wrong, that tells more than that the part isn't another kind.
    """
    found: dict[tuple[FieldPath, bool], Fault] = {}
    inner = {fault.path[:size] for fault in faults for size in range(1, len(fault.path))}
    for fault in faults:
        is_kind = fault.kinds[0] in WANTED or fault.kinds[0] == "literal_error"
        if is_kind and fault.path in inner:
            continue
        key = fault.path, fault.of_name
        before = found.get(key)
        if before is None or not is_kind or before.kinds[0] not in (*WANTED, "literal_error"):
            found[key] = before if before and is_kind else fault
            continue
        about = {**before.about, **fault.about}
        found[key] = Fault(
            (*before.kinds, *fault.kinds), fault.path, fault.value, about, False, fault.place,
            fault.model,
        )  # fmt: skip
    unknown = [fault for fault in faults if fault.kinds == ("extra_forbidden",)]
    meant = {_meant(fault) for fault in unknown}
    if any(_is_around_all(fault) for fault in unknown):
        meant |= {"name", "command", "deadline"}
    return [
        fault for fault in found.values() if fault.kinds != ("missing",) or fault.field not in meant
    ]


# -- the fields of a job


@lru_cache(maxsize=4)
def fields_of(model: type[BaseModel]) -> dict[str, type[BaseModel] | None]:
    """Return every path of a field below a model, without indexes, and the model of a part there.

    The model itself is "".
    """
    found: dict[str, type[BaseModel] | None] = {"": model}
    for name, info in model.model_fields.items():
        spelt = info.alias or name
        part = _part_in(info.annotation)
        found[spelt] = part
        if part is not None:
            found |= {f"{spelt}.{path}": one for path, one in fields_of(part).items() if path}
    return found


def _part_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model within a type, such as Cell of list[Cell]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = (_part_in(part) for part in get_args(annotation))
    return next((part for part in inner if part is not None), None)


def names_of(model: type[BaseModel]) -> list[str]:
    """Return the names of a model's own fields, as a job spells them."""
    own = (info.alias or name for name, info in model.model_fields.items())
    return [name for name in own if name != "timings"]


def _field_of(path: Iterable[str | int]) -> str:
    """Return a path without indexes, and without the names that the user chose."""
    known, field_path = fields_of(Job), ""
    for part in path:
        longer = f"{field_path}.{part}" if field_path else str(part)
        if isinstance(part, str) and (longer in known or not field_path):
            field_path = longer
        elif isinstance(part, str) and known.get(field_path) is None:
            break
    return field_path


@lru_cache(maxsize=1)
def examples_by_part() -> dict[str, dict[str, Any]]:
    """Return {part of a job: {field: an example}}; the job itself is "Job"."""
    text = (
        resources.files("remote_gpu_trainer.runs")
        .joinpath("job_examples.yaml")
        .read_text(encoding="utf-8")
    )
    return yaml.safe_load(text)


def example(path: str) -> Any:
    """Return an example of a field, None where there is none; of a part the fields it needs."""
    above, _, name = path.rpartition(".")
    part = fields_of(Job).get(above)
    return examples_by_part().get(part.__name__, {}).get(name) if part else None


# -- what to write


def _write(fault: Fault) -> str:
    """Return the line to write: the value mended where that is plain, else an example."""
    value = _mended(fault)
    if value is None:
        return "give it another value"
    if isinstance(fault.path[-1], int) and isinstance(value, list):
        return f"write {_line(fault.name, value, fault.place)}"
    if isinstance(fault.path[-1], int):
        return f"write {_in_yaml(value, fault.place)}"
    return f"write {_line(str(fault.path[-1]), value, fault.place, _dotted(fault.path))}"


def _mended(fault: Fault) -> Any:
    """Return the value that was meant where that is plain, else an example of the field."""
    value, kinds = fault.value, fault.kinds
    wants = {WANTED.get(kind) for kind in kinds}
    if "a text" in wants and _is_scalar(value) and not fault.about.get("expected"):
        return str(value).lower() if isinstance(value, bool) else _short(value)
    if value is None and "a text" in wants and isinstance(fault.path[-1], int):
        return "null"
    if isinstance(value, str) and (unit := _unit(fault)):
        seconds = seconds_in(value)
        if seconds is not None:
            number = round(seconds / _SECONDS[unit], 6)
            return int(number) if number == int(number) else number
    if isinstance(value, str) and wants & {"a whole number", "a number"}:
        size = re.fullmatch(r"\s*([1-9]\d{0,5})\s*G(i?B)?\s*", value)
        if size and fault.field.endswith("_gb"):
            return int(size[1])
        power = re.fullmatch(r"([1-9])[eE]([1-9])", value)
        if power:  # 1e5 is no whole number of its own
            return int(power[1]) * 10 ** int(power[2])
    if expected := fault.about.get("expected"):
        choices = re.findall(r"'([^']*)'", str(expected))
        cases = {choice.lower(): choice for choice in choices}
        near = difflib.get_close_matches(str(value).lower(), cases, 1, 0.6)
        if near and isinstance(value, str):
            return cases[near[0]]
        if example(fault.field) not in choices and len(kinds) == 1 and choices:
            return choices[0]
    given = example(fault.field)
    if isinstance(given, list) and given and isinstance(given[0], dict):
        given = given[:1]
    if isinstance(fault.path[-1], int) and isinstance(given, list) and given:
        return given[0] if isinstance(given[0], dict) else given
    is_named = len(fault.path) > 1 and not fault.field.endswith(str(fault.path[-1]))
    if is_named and isinstance(given, dict) and given:
        return next(iter(given.values()))
    return given


def _unit(fault: Fault) -> str:
    """Return the unit of a field for a number of minutes and so on, '' for any other."""
    if not {"float_type", "float_parsing", "int_type", "int_parsing"} & set(fault.kinds):
        return ""
    return next((word for word in fault.name.split("_") if word in _SECONDS), "")


def _line(name: str, value: Any, place: Place | None, path: str = "") -> str:
    """Return a line of a job with a field, as its file or option would have it."""
    form = place.form if place else "yaml"
    if form == "option":
        return f"--set {shlex.quote(f'{path or name}={_in_yaml(value, None)}')}"
    if form == "json":
        return f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}"
    return f"{name if name.isprintable() else json.dumps(name)}: {_in_yaml(value, place)}"


def _in_yaml(value: Any, place: Place | None) -> str:
    """Return a value as it stands in a line of YAML, or of JSON where the file is of that."""
    if place and place.form == "json":
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{key}: {_in_yaml(part, place)}" for key, part in value.items()) + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(_in_yaml(part, place) for part in value) + "]"
    if isinstance(value, str):
        is_plain = _PLAIN.fullmatch(value) and not _READ_OTHERWISE.match(value) or _is_option(value)
        return (
            value
            if is_plain or re.fullmatch(r"\d+[hmd]", value)
            else json.dumps(value, ensure_ascii=False)
        )
    return json.dumps(value)


def _is_option(text: str) -> bool:
    return bool(re.fullmatch(r"--?[A-Za-z][\w=-]*", text))


# -- words


def _what(value: Any) -> str:
    """Return what a value is, without a text of it."""
    if isinstance(value, bool):
        return str(value).lower()
    if _is_number(value):
        return f"the number {_short(value)}"
    for kind, words in (
        (str, "a text"),
        ((list, tuple), "a list"),
        (dict, "an object with fields"),
    ):
        if isinstance(value, kind):
            return words
    return "nothing" if value is None else "of another kind"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


def _short(value: Any) -> str:
    """Return a number in at most 40 characters."""
    if written := getattr(value, "written", ""):
        text = written
    elif isinstance(value, float) and value == int(value) if _is_finite(value) else False:
        text = str(int(value)) if abs(value) < 1e15 else f"{value:g}"
    else:
        try:
            text = str(value)
        except ValueError:  # over 4,300 digits
            return "too large"
    return text if len(text) <= 40 else f"{text[:38]} …"


def _is_finite(value: Any) -> bool:
    return isinstance(value, float) and value - value == 0


def _flat(expected: object) -> str:
    return str(expected)[:200]


def _dotted(path: Iterable[str | int]) -> str:
    return ".".join(_name(part) for part in path)


def _name(part: str | int) -> str:
    """Return a name of a field, short and on one line."""
    text = str(part)[:60]
    return shown(text if text.isprintable() and text.strip() else ascii(text))


def _spelt(name: str) -> str:
    return re.sub(r"[-_ ]", "", name).lower()


def spelt_as(name: str) -> str:
    """Return a name in the spelling of the fields: max-hours and maxHours as max_hours."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().replace("-", "_")
