"""The names of entries in code: each is of an entry that exists, and no id stands elsewhere."""

import ast
import re

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.numbers import entries

from tests.conftest import ROOT

NAMES = {
    name: value
    for name, value in vars(entries).items()
    if name.isupper() and isinstance(value, str)
}
ROOMS = ("logs", "numbers", "lookup", "retrieval")


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_of_an_entry_that_exists(name):
    assert NAMES[name] in bundle.load_cache()


def test_no_two_names_are_of_one_entry():
    assert len(set(NAMES.values())) == len(NAMES) > 30


def test_no_module_of_these_rooms_spells_an_id():
    spelt = [
        f"{path.name}:{node.lineno} {node.value}"
        for room in ROOMS
        for path in (ROOT / "server/remote_gpu_trainer" / room).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"[A-Z]{1,6}[0-9]{1,3}", node.value)
        and node.value in bundle.load_cache()
    ]
    assert {row.partition(":")[0] for row in spelt} <= {"entries.py"}, spelt
