"""Names that a line is asked by, its kinds and the detectors, are spelt as their tables spell them."""

import ast
import importlib

import pytest
from remote_gpu_trainer.logs import detectors, kinds
from remote_gpu_trainer.logs.lines import Line

from tests.conftest import ROOT

PACKAGE = ROOT / "server/remote_gpu_trainer"
# A kind is compared as `line.kind == "frame"`, `f.line.kind in ("frame", "trace")` and given by `line.of_kind("told")`.
GIVE_KIND = ("of_kind", "with_kind")


def line(**fields):
    return Line("train.log", 1, 0, "step 3", **fields)


@pytest.mark.parametrize("signs", [(), (("step", ("3",)),)])
def test_a_line_cannot_be_asked_for_a_detector_that_is_not_in_the_table(signs):
    with pytest.raises(ValueError, match="no detector is called 'no such detector'"):
        line(signs=signs).says("done", "no such detector")
    with pytest.raises(ValueError, match="no detector is called 'no such detector'"):
        line(signs=signs).sign("no such detector")
    with pytest.raises(KeyError):
        detectors.says("step 3", "no such detector")


def test_a_line_says_which_detectors_fired():
    assert line(signs=(("step", ("3",)),)).says("done", "step")
    assert not line(signs=(("step", ("3",)),)).says("done")
    assert line(signs=(("step", ("3",)),)).sign("step") == ("3",)


def test_a_line_never_changes_and_equals_itself_alone():
    first, second = line(), line()
    with pytest.raises(AttributeError):
        first.kind = kinds.FRAME
    assert first != second and first == first and len({first, second}) == 2
    assert first.of_kind(kinds.FRAME).kind == kinds.FRAME and first.kind == kinds.PLAIN
    assert first.of_rank(0) is first and first.of_rank(1).rank == 1


def test_each_kind_has_a_constant_of_its_name_and_modules_that_give_it():
    assert len(kinds.KINDS) == len(kinds.TABLE)
    for kind in kinds.TABLE:
        assert getattr(kinds, kind.name.upper()) == kind.name
        assert kind.means and kind.given_by


def test_a_misspelt_kind_is_no_name_of_the_module():
    with pytest.raises(ImportError):
        from remote_gpu_trainer.logs.kinds import FRAEM  # noqa: F401
    assert not hasattr(importlib.import_module("remote_gpu_trainer.logs.kinds"), "FRAEM")


def texts_in(nodes):
    """The literal texts among these expressions and in their tuples."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            yield from texts_in(node.elts)


def asked(tree):
    """(names of detectors, names of kinds) that a module writes as literal texts."""
    names, of_kinds = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("says", "sign"):
                names |= set(texts_in(node.args))
            elif node.func.attr in GIVE_KIND:
                of_kinds |= set(texts_in(node.args))
        elif isinstance(node, ast.Compare) and getattr(node.left, "attr", "") == "kind":
            of_kinds |= set(texts_in(node.comparators))
    return names, of_kinds


def test_every_detector_and_kind_that_the_source_names_is_one_of_a_table():
    found = set()
    for room in ("logs", "numbers", "retrieval", "lookup", "catalogue"):
        for path in (PACKAGE / room).glob("*.py"):
            names, of_kinds = asked(ast.parse(path.read_text(encoding="utf-8")))
            assert names <= detectors.NAMES, path
            assert room != "logs" or of_kinds <= kinds.KINDS, path  # elsewhere facts have kinds too
            found |= names
    assert len(found) > 20
