"""Every kind of file that people have on their disks: right, or silent."""

import pytest
from remote_gpu_trainer.lookup.answer import answer_for

from tests.lookup.kinds_of_files import FILES


@pytest.mark.parametrize("file", FILES, ids=[f"{file.kind}: {file.shows}" for file in FILES])
def test_a_file_is_answered_rightly_or_not_at_all(file, tmp_path):
    path = tmp_path / "train.log"
    path.write_text(file.text, encoding="utf-8")
    answer = answer_for(log=str(path))
    ids = [match["id"] for match in answer.matches]
    assert ids[:1] and ids[0] in file.first if file.first else not ids, answer.ask
    assert file.first or file.titles or not answer.also
    assert "No error found" not in answer.ask or answer.first_failure is None
    assert all(words in answer.ask for words in file.says), answer.ask
    assert any(file.quotes in line["text"] for line in answer.evidence) or not file.quotes
    assert not any(words in ids or words in answer.ask for words in file.never), answer.ask


def test_each_kind_has_a_file():
    kinds = {file.kind for file in FILES}
    assert {"F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "F9", "F10", "F11", "F12"} <= kinds
    assert {
        "F13",
        "F15",
        "F16",
        "F17",
        "F20",
        "F21",
        "F23",
        "F24",
        "F25",
        "F26",
        "F27",
        "F28",
    } <= kinds
