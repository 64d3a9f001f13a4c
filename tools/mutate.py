"""Break the code on purpose, one line at a time, and see whether the room's own tests notice.

    python tools/mutate.py --seed 1                       # 60 changes over all rooms: an hour
    python tools/mutate.py --seed 1 --rooms fit,platforms
    python tools/mutate.py --list --seed 1                # what the seed draws, nothing runs
    python tools/mutate.py --table                        # the record as a table

A seed draws the same changes from the same code. Each is made in a copy of HEAD, so the checkout
stays as it is. Which tests reach a line is measured once (coverage.py, which you install beside
`.[test]`), and again for a test file that has changed; a changed line that no test is known to
reach gets the whole room's default tests. The result goes to tests/records/mutations.json. Where
no test can notice a change, as the program does the same with it, write "equivalent": "the reason"
into its record by hand.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import random
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import date
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "server/remote_gpu_trainer"
RECORD = ROOT / "tests/records/mutations.json"
# What is no folder of the package: the room's name -> its files, and the tests that are its own.
OTHER_ROOMS = {
    "scripts": (
        ["scripts/verify_local.py", "hooks/*.py"],
        ["tests/scripts", "tests/product/test_hooks.py"],
    ),
}
MORE_TESTS = {"gpu_health": ["tests/scripts"]}  # the box check is a script as well
TESTS_ELSEWHERE = {"probe": ["tests/scripts/test_probe*.py"]}
BOX_PROGRAMS = "tools/generated_docs/box_programs.py"  # puts a script together from its parts
LEAST_PER_ROOM = 3
LIMIT_S = 120  # for the tests of one change
TESTS_LIMIT_S = 60  # what the chosen tests take together without the change
DEFAULT_TESTS = "not slow and not engine and not clients and not site and not proof"
PLUGIN = '''
"""Tells coverage.py which test runs, also in the processes that it starts; writes how it ended."""
import json, os
from io import open  # a test may have put its own in the place of the builtin
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    os.environ["MUTATED_TEST"] = item.nodeid
    if os.environ.get("COVERAGE_PROCESS_START"):
        import coverage
        coverage.Coverage.current().switch_context(item.nodeid)
    return (yield)

def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        if os.environ.get("MUTATED_LOG") and not os.environ.get("PYTEST_XDIST_WORKER"):
            row = [report.nodeid, report.outcome, round(report.duration, 3)]
            with open(os.environ["MUTATED_LOG"], "a") as log:
                log.write(json.dumps(row) + "\\n")
'''


class Change(NamedTuple):
    """A change of one place: the text from `start` to `end`, offsets in bytes, becomes `after`."""

    file: str
    line: int
    kind: str
    start: int
    end: int
    after: str


# --- what can be changed ---

COMPARED = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
}  # fmt: skip
EMPTY = {"str": '""', "int": "0", "float": "0.0", "list": "[]", "dict": "{}", "tuple": "()"}


class Finder(ast.NodeVisitor):
    """Collect every change that can be made in one file."""

    def __init__(self, file: str, source: bytes):
        self.file, self.source, self.changes = file, source, []
        lines = source.splitlines(keepends=True)
        self.starts = [0, *accumulate(map(len, lines))]
        self.within: list[ast.AST] = []  # the functions around the node, outermost first
        self.in_slice = False

    def span(self, node) -> tuple[int, int]:
        """-> the offsets, in bytes, at which the text of a node begins and ends."""
        return (
            self.starts[node.lineno - 1] + node.col_offset,
            self.starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def text(self, node) -> str:
        """The text of a node."""
        start, end = self.span(node)
        return self.source[start:end].decode()

    def add(self, kind: str, node, after: str) -> None:
        """Note that a node can be replaced."""
        self.changes.append(Change(self.file, node.lineno, kind, *self.span(node), after))

    def visit(self, node):
        """Visit a node; leave out what only describes: docstrings, annotations, `__main__`."""
        if isinstance(node, ast.If) and "__name__" in self.text(node.test):
            return
        super().visit(node)

    def visit_block(self, node):
        """A function or a class."""
        inside = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        self.within += [node] * inside
        for default in node.args.defaults + node.args.kw_defaults if inside else ():
            if default:
                self.visit(default)
        for statement in node.body:
            self.visit(statement)
        self.within = self.within[: len(self.within) - inside]

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_block

    def visit_AnnAssign(self, node):
        """Leave the annotation out."""
        if node.value:
            self.visit(node.value)

    def visit_Compare(self, node):
        """Flip a comparison, or move its boundary."""
        places = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, places, places[1:], strict=False):
            old, new = COMPARED[type(operator)]
            begin, stop = self.span(left)[1], self.span(right)[0]
            between = self.source[begin:stop].decode()
            if between.count(old) == 1:
                change = Change(
                    self.file, right.lineno, "comparison", begin, stop, between.replace(old, new)
                )
                self.changes.append(change)
        self.generic_visit(node)

    def visit_BoolOp(self, node):
        """Swap `and` and `or`."""
        old, new = (" and ", " or ") if isinstance(node.op, ast.And) else (" or ", " and ")
        parts = [f"({self.text(value)})" for value in node.values]
        if old.strip() in self.text(node):
            self.add("and/or", node, f"({new.join(parts)})")
        self.generic_visit(node)

    def visit_UnaryOp(self, node):
        """Drop `not`."""
        if isinstance(node.op, ast.Not):
            self.add("not dropped", node, f"bool({self.text(node.operand)})")
        self.generic_visit(node)

    def visit_Constant(self, node):
        """Change a number; also turn True and False round."""
        if isinstance(node.value, bool):
            self.add("constant", node, str(not node.value))
        elif isinstance(node.value, (int, float)):
            kind = "slice" if self.in_slice else "constant"
            afters = [f"{node.value + 1!r}", f"{node.value - 1!r}", f"{node.value * 2!r}"]
            for after in afters[: 2 if self.in_slice else 3]:
                if after != repr(node.value):
                    self.add(kind, node, f"({after})" if after.startswith("-") else after)

    def visit_Slice(self, node):
        """Shift a bound by one."""
        self.in_slice = True
        for bound in (node.lower, node.upper):
            if bound is not None and not isinstance(bound, (ast.Constant, ast.UnaryOp)):
                self.add("slice", bound, f"{self.text(bound)} + 1")
        self.generic_visit(node)
        self.in_slice = False

    def visit_Return(self, node):
        """Give back nothing of the kind, or of two truths the other."""
        if node.value is None or (isinstance(node.value, ast.Constant) and not node.value.value):
            return
        returns = self.within[-1].returns if self.within else None
        name = re.sub(r"\W.*", "", self.text(returns)) if returns is not None else ""
        old = self.text(node.value)
        after = f"not ({old})" if name == "bool" else EMPTY.get(name, "None")
        if old != after:
            self.add("return value", node.value, after)
        self.visit(node.value)

    def visit_Expr(self, node):
        """Drop a call; a docstring is no statement."""
        if isinstance(node.value, ast.Constant):
            return
        if isinstance(node.value, (ast.Call, ast.Await)):
            self.add("statement dropped", node, "pass")
        self.generic_visit(node)

    def visit_dropped(self, node):
        """Drop a statement that isn't the only place of a name."""
        self.add("statement dropped", node, "pass")
        self.generic_visit(node)

    visit_AugAssign = visit_Raise = visit_Continue = visit_Break = visit_Delete = visit_dropped

    def visit_Assign(self, node):
        """Drop the change of a field; look into a table."""
        if all(isinstance(target, (ast.Attribute, ast.Subscript)) for target in node.targets):
            self.add("statement dropped", node, "pass")
        self.generic_visit(node)

    def visit_If(self, node):
        """Drop a guard: an `if` that only leaves."""
        leaves = (ast.Return, ast.Raise, ast.Continue, ast.Break)
        if len(node.body) == 1 and isinstance(node.body[0], leaves) and not node.orelse:
            self.add("statement dropped", node, "pass")
        self.generic_visit(node)

    def visit_items(self, node):
        """Drop an item of a table; change a text in a table of the module."""
        is_dict = isinstance(node, ast.Dict)
        items = node.values if is_dict else node.elts
        keys = [key for key in node.keys if key is not None] if is_dict else items
        if len(items) > 1 and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            # A tuple in a function is mostly several values, which a missing one makes unusable.
            if not isinstance(node, ast.Tuple) or not self.within or len(items) > 4:
                for key, item, after in zip(keys, items, [*keys[1:], None], strict=False):
                    stop = self.span(after)[0] if after is not None else self.span(item)[1]
                    begin = self.span(key)[0]
                    change = Change(self.file, key.lineno, "item dropped", begin, stop, "")
                    self.changes.append(change)
            for text in (*items, *keys) if not self.within and not is_dict else items:
                if isinstance(text, ast.Constant) and isinstance(text.value, str) and text.value:
                    raw = self.text(text)
                    if not self.within and raw.endswith(raw[-1]) and raw[-3:] != '"""':
                        self.add("text of a table", text, f"{raw[:-1]}X{raw[-1]}")
        self.generic_visit(node)

    visit_Dict = visit_List = visit_Set = visit_Tuple = visit_items

    def visit_JoinedStr(self, node):
        """Leave out texts for people."""


def changes_in(root: Path, file: str) -> list[Change]:
    """Every change of a file."""
    source = (root / file).read_bytes()
    finder = Finder(file, source)
    finder.visit(ast.parse(source))
    return finder.changes


def makes_another_program(root: Path, change: Change) -> bool:
    """Whether the change leaves a program that can be read, and another one than before."""
    source = (root / change.file).read_bytes()
    try:
        return ast.dump(ast.parse(changed(source, change))) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


def changed(source: bytes, change: Change) -> bytes:
    """The text of a file with the change made."""
    return source[: change.start] + change.after.encode() + source[change.end :]


# --- the draw ---


def rooms(root: Path, left_out: list[str]) -> dict[str, list[str]]:
    """Each room and its files, without those that a pattern of `left_out` names."""
    found: dict[str, list[str]] = {}
    for folder in sorted((root / PACKAGE).iterdir()):
        if (folder / "__init__.py").is_file():
            found[folder.name] = [str(path.relative_to(root)) for path in folder.rglob("*.py")]
    for name, (patterns, _) in OTHER_ROOMS.items():
        found[name] = [str(path.relative_to(root)) for part in patterns for path in root.glob(part)]
    return {
        room: kept
        for room, files in found.items()
        if (kept := sorted(f for f in files if not any(Path(f).match(part) for part in left_out)))
    }


def own_tests(room: str) -> list[str]:
    """The files and folders of a room's own tests, as patterns below the root."""
    if room in OTHER_ROOMS:
        return OTHER_ROOMS[room][1]
    return TESTS_ELSEWHERE.get(room, [f"tests/{room}", *MORE_TESTS.get(room, [])])


def made_of(root: Path, file: str) -> list[str]:
    """The scripts that a file is a part of."""
    programs = runpy.run_path(str(root / BOX_PROGRAMS))["PROGRAMS"]
    return [
        script
        for script, source in programs.items()
        if any(Path(file).is_relative_to(folder) for folder in (source.parts, *source.shared))
    ]


def code_lines(root: Path, files: list[str]) -> int:
    """How many lines aren't blank and are no comment."""
    lines = (line.strip() for file in files for line in (root / file).read_text().splitlines())
    return sum(bool(line) and not line.startswith("#") for line in lines)


def shares(sizes: dict[str, int], changes: int) -> dict[str, int]:
    """How many of the changes each room gets: by its lines, and no room fewer than three."""
    total = sum(sizes.values())
    share = {room: LEAST_PER_ROOM for room in sizes}
    while sum(share.values()) < changes:
        room = max(sizes, key=lambda name: (sizes[name] * changes / total - share[name], name))
        share[room] += 1
    return share


def draw(root: Path, seed: int, changes: int, left_out: list[str]) -> dict[str, list[Change]]:
    """The changes of each room. Kinds take turns, so that the common one doesn't fill the draw."""
    by_room = rooms(root, left_out)
    share = shares({room: code_lines(root, files) for room, files in by_room.items()}, changes)
    drawn = {}
    for room, files in by_room.items():
        chance = random.Random(f"{seed} {room}")
        by_kind = defaultdict(list)
        for file in files:
            for change in changes_in(root, file):
                by_kind[change.kind].append(change)
        taken: list[Change] = []
        while len(taken) < share[room]:
            change = chance.choice(by_kind[chance.choice(sorted(by_kind))])
            if change not in taken and makes_another_program(root, change):
                taken.append(change)
        drawn[room] = taken
    return drawn


# --- the copy in which the tests run ---


class Copy:
    """A copy of HEAD with an environment of its own, so that every process imports the copy."""

    def __init__(self, place: Path):
        self.root, self.log = place / "copy", place / "tests.log"
        if place.exists():
            shutil.rmtree(place)
        place.mkdir(parents=True)
        subprocess.run(["git", "clone", "-qs", str(ROOT), str(self.root)], check=True)
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", str(self.root / ".venv")], check=True
        )
        self.bin = self.root / ".venv/bin"
        ours, theirs = (
            Path(sysconfig.get_path("purelib", vars={"base": base, "platbase": base}))
            for base in (str(self.root / ".venv"), sys.prefix)
        )
        lines = [str(self.root / "server"), f"import site; site.addsitedir({str(theirs)!r})"]
        (ours / "a_copy.pth").write_text("\n".join(lines) + "\n")
        (ours / "mutated_tests.py").write_text(PLUGIN)
        for program in (Path(sys.prefix) / "bin").iterdir():
            head = program.read_bytes()[:300] if program.is_file() else b""
            if head.startswith(b"#!") and not (self.bin / program.name).exists():
                text = program.read_bytes().replace(
                    bytes(Path(sys.prefix) / "bin"), bytes(self.bin), 1
                )
                (self.bin / program.name).write_bytes(text)
                (self.bin / program.name).chmod(0o755)

    def run_tests(self, tests: list[str], *options: str, limit: float, **variables: str) -> int:
        """Run tests. -> pytest's exit code, or -1 when the limit passed."""
        self.log.unlink(missing_ok=True)
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "MUTATED_LOG": str(self.log), **variables}
        environment.pop("VIRTUAL_ENV", None)
        names = self.root.parent / "names"
        names.write_text("\n".join(tests))
        command = ["nice", "-n", "5", str(self.bin / "python"), "-m", "pytest", f"@{names}"]
        command += ["-p", "mutated_tests", "-p", "no:cacheprovider", *options]
        with open(self.root.parent / "output", "w") as output:
            process = subprocess.Popen(
                command,
                cwd=self.root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                return process.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
                return -1

    def said(self) -> str:
        """The end of what pytest said of the last run."""
        return (self.root.parent / "output").read_text()[-2000:]

    def results(self) -> list[tuple[str, str, float]]:
        """What the tests of the last run ended with: name, outcome, seconds."""
        if not self.log.exists():
            return []
        return [tuple(json.loads(line)) for line in self.log.read_text().splitlines()]

    def write(self, change: Change) -> None:
        """Make a change, and anew the script that the file is a part of."""
        path = self.root / change.file
        path.write_bytes(changed(path.read_bytes(), change))
        for script in made_of(self.root, change.file):
            made = runpy.run_path(str(self.root / BOX_PROGRAMS))["generated"](self.root, script)
            (self.root / script).write_text(made, encoding="utf-8")

    def restore(self) -> None:
        """Put every file back."""
        subprocess.run(["git", "-C", str(self.root), "checkout", "-q", "."], check=True)


# --- which tests reach which line ---


def functions(source: str) -> list[tuple[str, int, int, str]]:
    """Each function of a file: its name with those around it, first and last line, its text."""
    found, lines = [], source.splitlines()

    def visit(node, above: str):
        for child in ast.iter_child_nodes(node):
            name = above
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = f"{above}.{child.name}" if above else child.name
                if not isinstance(child, ast.ClassDef):
                    text = "\n".join(lines[child.lineno - 1 : child.end_lineno])
                    found.append((name, child.lineno, child.end_lineno, text))
            visit(child, name)

    visit(ast.parse(source), "")
    return found


def innermost(places: list[tuple[str, int, int, str]], line: int):
    """The function that a line stands in, or None."""
    around = [place for place in places if place[1] <= line <= place[2]]
    return max(around, key=lambda place: place[1]) if around else None


class Reach:
    """Which default tests of a room run which lines, kept between runs by the tests' files."""

    def __init__(self, room: str, copy: Copy, kept: Path):
        self.room, self.copy, self.kept = room, copy, kept / f"{room}.json"
        self.data = json.loads(self.kept.read_text()) if self.kept.exists() else {}

    def test_files(self) -> list[str]:
        """The files of the room's tests."""
        found = set()
        for pattern in own_tests(self.room):
            for path in self.copy.root.glob(pattern):
                found |= set(path.rglob("test_*.py")) if path.is_dir() else {path}
        return sorted(str(path.relative_to(self.copy.root)) for path in found)

    def measure(self) -> None:
        """Run the test files that have changed since, under coverage.py."""
        hashes = {
            file: hashlib.sha256((self.copy.root / file).read_bytes()).hexdigest()
            for file in self.test_files()
        }
        self.data = {f: d for f, d in self.data.items() if hashes.get(f) == d["hash"]}
        missing = sorted(hashes.keys() - self.data.keys())
        if not missing:
            return
        from coverage import Coverage

        place = self.copy.root.parent / "coverage"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        settings = place / "settings"
        settings.write_text(
            "[run]\nparallel = true\nsigterm = true\ncontext = ${MUTATED_TEST-}\npatch = _exit\n"
            "disable_warnings = no-data-collected, module-not-measured, module-not-imported,"
            " couldnt-parse, already-imported\n"
            f"data_file = {place}/data\n"
            f"include = {self.copy.root}/server/*, {self.copy.root}/scripts/*,"
            f" {self.copy.root}/hooks/*\n"
        )
        began = time.monotonic()
        code = self.copy.run_tests(
            missing,
            "-n",
            "2",
            "-m",
            DEFAULT_TESTS,
            limit=3600,
            COVERAGE_PROCESS_START=str(settings),
        )
        if code not in (0, 1):  # passed, or some failed
            said = self.copy.said()
            sys.exit(f"error: the tests of {self.room} can't be run; mend what pytest says: {said}")
        for file in missing:
            self.data[file] = {"hash": hashes[file], "tests": {}, "reach": {}}
        for name, outcome, seconds in self.copy.results():
            if outcome != "skipped" and name.partition("::")[0] in self.data:
                self.data[name.partition("::")[0]]["tests"][name] = seconds
        measured = Coverage(config_file=str(settings))
        measured.combine()
        data = measured.get_data()
        for path in data.measured_files():
            if not path.endswith(".py"):  # a template that jinja2 made code of
                continue
            self.add_lines(path, data.contexts_by_lineno(path))
        self.kept.parent.mkdir(parents=True, exist_ok=True)
        self.kept.write_text(json.dumps(self.data))
        shutil.rmtree(place)
        print(
            f"{self.room}: {len(missing)} test files, {time.monotonic() - began:.0f} s", flush=True
        )

    def add_lines(self, path: str, by_line: dict[int, list[str]]) -> None:
        """Note which tests run the lines of a file, by function and the line's place in it."""
        file = str(Path(path).relative_to(self.copy.root))
        places = functions(Path(path).read_text(encoding="utf-8"))
        for line, tests in by_line.items():
            place = innermost(places, line)
            for test in tests:
                kept = self.data.get(test.partition("::")[0])
                if kept is not None and place is not None and line > place[1]:
                    key = f"{file} {place[0]} {line - place[1]}"
                    kept["reach"].setdefault(key, []).append(test)

    def seconds(self) -> dict[str, float]:
        """What each test takes."""
        return {name: s for kept in self.data.values() for name, s in kept["tests"].items()}

    def of(self, change: Change) -> tuple[list[str], bool]:
        """-> (the tests that reach a change, quickest first, within the limit; is it a guess)."""
        wanted = list(self.places(change))
        exact, near = set(), set()
        for kept in self.data.values():
            for key, tests in kept["reach"].items():
                function, _, offset = key.rpartition(" ")
                for name, line in wanted:
                    if function == name:
                        (exact if line in (None, int(offset)) else near).update(tests)
        seconds = self.seconds()
        guess = not exact and not near
        ordered = sorted(exact & seconds.keys(), key=seconds.get)
        ordered += sorted((near - exact) & seconds.keys(), key=seconds.get)
        if guess:
            ordered = sorted(seconds, key=seconds.get)
        chosen, total = [], 0.0
        for test in ordered:
            total += seconds[test]
            if total > TESTS_LIMIT_S:
                break
            chosen.append(test)
        return chosen, guess

    def places(self, change: Change) -> Iterator[tuple[str, int | None]]:
        """The functions whose tests to run: the changed one, or those that use a changed table."""
        source = (self.copy.root / change.file).read_text(encoding="utf-8")
        scripts = made_of(self.copy.root, change.file)
        place = innermost(functions(source), change.line)
        if place:
            for file in (change.file, *scripts):
                yield f"{file} {place[0]}", change.line - place[1]
            return
        names = set()
        for statement in ast.parse(source).body:
            if statement.lineno <= change.line <= statement.end_lineno:
                names = {
                    node.id
                    for node in ast.walk(statement)
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
                }
        # What stands on a table of the module stands on its parts as well.
        for statement in ast.parse(source).body:
            if isinstance(statement, ast.Assign) and names & {
                node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)
            }:
                names |= {
                    node.id
                    for target in statement.targets
                    for node in ast.walk(target)
                    if isinstance(node, ast.Name)
                }
        if names:
            pattern = re.compile(rf"\b({'|'.join(map(re.escape, sorted(names)))})\b")
            files = [change.file, *scripts]
            files += [file for files in rooms(self.copy.root, []).values() for file in files]
            for file in dict.fromkeys(files):
                for name, _, _, text in functions((self.copy.root / file).read_text("utf-8")):
                    if pattern.search(text):
                        yield f"{file} {name}", None


# --- a run ---


def judge(copy: Copy, reach: Reach, change: Change, sound: dict[str, bool]) -> dict:
    """Make one change and run the tests. -> its row of the record."""
    tests, guess = reach.of(change)
    before = (copy.root / change.file).read_bytes()[change.start : change.end].decode()
    began = time.monotonic()
    outcome, by = "survived", ""
    while tests:
        copy.write(change)
        code = copy.run_tests(tests, "-n", "0", "-x", limit=LIMIT_S)
        failed = [name for name, result, _ in copy.results() if result == "failed"]
        copy.restore()
        if code == -1:
            outcome, by = "caught", f"the limit of {LIMIT_S} s"
        elif failed:
            # A test has caught it that fails alone, and without the change doesn't.
            alone = (failed[:1], "-n", "0")
            if failed[0] not in sound:
                sound[failed[0]] = copy.run_tests(*alone, limit=LIMIT_S) == 0
            if sound[failed[0]]:
                copy.write(change)
                sure = copy.run_tests(*alone, limit=LIMIT_S) != 0
                copy.restore()
            if not (sound[failed[0]] and sure):
                tests.remove(failed[0])
                continue
            outcome, by = "caught", failed[0]
        elif code == 3:
            raise SystemExit(f"error: pytest broke; mend what it says: {copy.said()}")
        elif code not in (0, 5):
            outcome, by = "caught", "the tests can't be collected"
        break
    return {
        "room": reach.room,
        "file": change.file,
        "line": change.line,
        "kind": change.kind,
        "before": before,
        "after": change.after,
        "outcome": outcome,
        "by": by,
        "tests": len(tests),
        "reached": not guess,
        "seconds": round(time.monotonic() - began, 1),
    }


def table(run: dict) -> str:
    """A run as a table by room; an equivalent change counts on neither side."""
    rows = ["| Room | Changes | Caught | Equivalent |", "|---|---|---|---|"]
    counts: dict[str, list[int]] = {}
    for row in run["changes"]:
        count = counts.setdefault(row["room"], [0, 0, 0])
        equivalent = "equivalent" in row
        for place, adds in enumerate((1, row["outcome"] == "caught", equivalent)):
            count[place] += adds
    counts["all"] = [sum(column) for column in zip(*counts.values(), strict=False)]
    for room, (all_of_them, caught, equivalent) in counts.items():
        rows.append(f"| {room} | {all_of_them} | {caught} | {equivalent} |")
    return f"Seed {run['seed']}, commit {run['commit'][:8]}, {run['date']}\n\n" + "\n".join(rows)


def keep(path: Path, run: dict, row: dict) -> None:
    """Write a row into the record, in place of an earlier one of the same change and run."""
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"runs": []}
    same = ("seed", "commit")
    found = next((r for r in kept["runs"] if all(r[key] == run[key] for key in same)), None)
    if found is None:
        found = {**run, "changes": []}
        kept["runs"].append(found)
    change = ("file", "line", "before", "after")
    found["changes"] = [r for r in found["changes"] if any(r[key] != row[key] for key in change)]
    found["changes"].append(row)
    found["changes"].sort(key=lambda r: r["room"])
    path.write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Draw, run, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--changes", type=int, default=60)
    parser.add_argument("--rooms", help="these alone, with commas between")
    parser.add_argument("--leave-out", action="append", default=[], metavar="PATTERN")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--work", type=Path, default=Path("/tmp/mutations"), help="for the copy")
    parser.add_argument("--kept", type=Path, default=ROOT / ".mutations", help="for the coverage")
    parser.add_argument("--list", action="store_true", help="print the draw")
    parser.add_argument("--measure", action="store_true", help="only see which tests reach what")
    parser.add_argument("--table", action="store_true", help="print the record")
    options = parser.parse_args()
    if options.table:
        for run in json.loads(options.record.read_text(encoding="utf-8"))["runs"]:
            print(table(run), end="\n\n")
        return
    chosen = options.rooms.split(",") if options.rooms else None
    copy = None if options.list else Copy(options.work)
    drawn = draw(copy.root if copy else ROOT, options.seed, options.changes, options.leave_out)
    commit = subprocess.check_output(["git", "-C", str(ROOT), "rev-parse", "HEAD"], text=True)
    run = {
        "seed": options.seed,
        "commit": commit.strip(),
        "date": str(date.today()),
        "left_out": options.leave_out,
    }
    sound: dict[str, bool] = {}
    for room in chosen or drawn:
        if copy is None:
            for change in drawn[room]:
                before = (ROOT / change.file).read_bytes()[change.start : change.end].decode()
                place = f"{room}: {change.file}:{change.line}"
                print(f"{place} {change.kind}: {before!r} → {change.after!r}")
            continue
        reach = Reach(room, copy, options.kept)
        reach.measure()
        for change in () if options.measure else drawn[room]:
            row = judge(copy, reach, change, sound)
            keep(options.record, run, row)
            print(
                f"{room}: {change.file}:{change.line} {change.kind}: "
                f"{row['before']!r} → {change.after!r}: {row['outcome']} {row['by']} "
                f"({row['tests']} tests, {row['seconds']} s)",
                flush=True,
            )


if __name__ == "__main__":
    main()
