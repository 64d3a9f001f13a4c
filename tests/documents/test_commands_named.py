"""Every command that a text of the program names exists: who follows an error isn't led into another one."""

import ast
import re

from remote_gpu_trainer.catalogue.bundle import nothing_in

from tests.conftest import ROOT

NAMES = re.findall(r"^## (.+)$", (ROOT / "docs/commands.md").read_text(encoding="utf-8"), re.M)
# A name of the program and the one or two words behind it: "rgt dev docs --write".
NAMED = re.compile(r"(?<![\w./-])(?:rgt|remote-gpu-trainer) ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?")
PROSE = {"remote-gpu-trainer again"}  # "install remote-gpu-trainer again"


def unknown(text: str) -> list[str]:
    """The commands in a text that don't exist."""
    return [
        found[0]
        for found in NAMED.finditer(text)
        if found[1] not in NAMES and f"{found[1]} {found[2]}" not in NAMES and found[0] not in PROSE
    ]


def test_every_command_that_a_text_names_exists():
    assert "lookup" in NAMES and "dev lint" in NAMES
    wrong, seen = [], 0
    for path in sorted((ROOT / "server/remote_gpu_trainer").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                seen += len(NAMED.findall(node.value))
                wrong += [(path.name, node.lineno, name) for name in unknown(node.value)]
    assert seen > 30 and wrong == []


def test_a_command_that_does_not_exist_is_seen():
    assert unknown("'rgt lint' says; run rgt dev docs --write") == ["rgt lint"]
    assert unknown("run remote-gpu-trainer dev tidy") == ["remote-gpu-trainer dev tidy"]


def test_a_catalogue_without_an_entry_leads_to_the_check_of_entries(tmp_path):
    assert "'rgt dev lint' says what is wrong" in str(nothing_in(tmp_path))
