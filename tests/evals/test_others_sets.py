"""Sets that others labelled are graded by what leads an answer, and what was shown to us is said."""

import json
import sys

from remote_gpu_trainer.lookup.state import Answer

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "evals"))

from grading import others_sets

LOGS = {
    "segfault": "step 1\nSegmentation fault (core dumped)\n",
    "div_zero": 'Traceback (most recent call last):\n  File "/me/a.py", line 2, in <module>\n    1 / n\n'
    "ZeroDivisionError: division by zero\n",
    "cuda_oom": "step 1\nloss 0.5\n",  # nothing to be found
}


def test_classes_are_counted_beside_grep_and_bm25_and_that_they_were_shown_is_said(tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    labels = []
    for mode, text in LOGS.items():
        (corpus / f"{mode}.log").write_text(text)
        labels.append(json.dumps({"mode": mode, "log_path": f"corpus/{mode}.log"}))
    (corpus / "labels.jsonl").write_text("\n".join(labels))
    table = others_sets._of_gpualert(tmp_path)
    rows = {row.split(" | ")[0].strip("| "): row for row in table.splitlines()}
    assert others_sets.SHOWN in table and "shown to us" in table
    assert rows["segfault"].endswith("| U50 | 1 | 1 | 1 |")
    assert " | – | 1 | 1 | 0 |" in rows["div_zero"]  # BM25 always answers
    assert " | U10 | 0 | 0 | " in rows["cuda_oom"]


def test_of_dumps_the_first_failures_count_and_no_number_beside_them(tmp_path, monkeypatch):
    run = tmp_path / "gpu_error"
    run.mkdir()
    (run / "fault_injection.log").write_text(
        "Fault ranks: [2, 5]\nRank 2, fault_type: GPU_ERROR\nRank 5, fault_type: GPU_ERROR\n"
    )
    (run / "_dump_0").write_bytes(b"\x80\x02Segmentation fault (core dumped)\n\x00\x01")
    told = Answer([], [{"text": "rank 2"}], None, "Ranks 2, 3 wait.", [], first_failures=[{"rank": 5}])  # fmt: skip
    monkeypatch.setattr(others_sets, "answer_for", lambda log: told)
    assert "| gpu_error | 2, 5 | 5 | – | U50 | " in others_sets._of_dumps(tmp_path)
