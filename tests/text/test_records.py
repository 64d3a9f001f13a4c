"""A record looks like a dataclass, and costs what a named tuple costs."""

import pickle

import pytest
from remote_gpu_trainer.catalogue.entry import Fault, Retired
from remote_gpu_trainer.text.records import record


@record
class Place:
    """Where something is."""

    path: str
    line: int = 1

    @property
    def told(self) -> str:
        return f"{self.path}:{self.line}"


def test_fields_defaults_methods_and_docstring_stay():
    assert Place("a").told == "a:1" and Place(line=3, path="b")._replace(line=4) == Place("b", 4)
    assert Place.__doc__ == "Where something is." and repr(Place("a")) == "Place(path='a', line=1)"
    assert str(Fault("a.md", 2, "found x")) == "a.md:2: found x"
    assert pickle.loads(pickle.dumps(Retired("O9", "O1"))) == Retired("O9", "O1")


def test_a_record_does_not_change_and_wants_all_its_fields():
    with pytest.raises(AttributeError):
        Place("a").line = 2
    with pytest.raises(AttributeError):
        Place("a").other = 2
    with pytest.raises(TypeError):
        Place()
