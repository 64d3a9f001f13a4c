"""What a box sends back of the evidence: every field of it, so that the answer is the same as here."""

import json
from dataclasses import fields, replace
from datetime import date

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.logs import reading, reply
from remote_gpu_trainer.logs.evidence import Evidence, Failure, Probed
from remote_gpu_trainer.logs.files import Unreadable
from remote_gpu_trainer.logs.lines import Line, lines_of
from remote_gpu_trainer.lookup.answer import prepare
from remote_gpu_trainer.lookup.steps import look_up
from remote_gpu_trainer.retrieval import ranking

from tests.conftest import ROOT

MOST = 3_000_000
TODAY = date(2026, 11, 26)
ROWS = (
    b"Traceback (most recent call last):",
    b'  File "/root/train.py", line 3, in <module>',
    b"ValueError: bad batch",
    b"step 3 loss 0.1",
)
LINES = lines_of(list(enumerate(ROWS, start=1)), "train.log", 2)
# A value of each type that a field of the record has, none of them a default.
OF_TYPE = {
    "list[Line]": LINES,
    "tuple[Line, ...]": (LINES[2], LINES[3].of_rank(5)),
    "Line | None": LINES[2].of_rank(7),
    "list[Failure]": [Failure(LINES[2], True, (LINES[1],))],
    "tuple[Probed, ...]": (Probed("O12", True, 7, 0, "softmax twice was seen", "probe.json"),),
    "tuple[int, ...]": (2, 5),
    "str": "a sentence of the reader.",
    "bool": True,
    "int": 4711,
}
STEPS = "".join(f"step {i} loss {2 - i / 100:.3f} lr 1e-4\n" for i in range(80))
LOGS = {
    "went silent": 80 * "[rank0]: step 1\n[rank1]: step 1\n",
    "done": STEPS
    + "Training completed. Do not forget to share your model on huggingface.co/models =)\n",
    "Ctrl-C": STEPS + ROWS[0].decode() + "\n" + ROWS[1].decode() + "\nKeyboardInterrupt\n",
    "Slurm": STEPS
    + "slurmstepd: error: *** JOB 330967 ON n4 CANCELLED AT 2025-12-21T01:31:22 DUE TO TIME LIMIT ***\n",
    "twice": 2
    * ("nohup: ignoring input\n" + STEPS + "\n".join(row.decode() for row in ROWS[:3]) + "\n"),
    "PBS": STEPS + "=>> PBS: job killed: vmem 3624 exceeded limit 3600\n",
}


def sent(evidence, most=MOST):
    return reply.unpack(json.dumps(reply.pack(evidence, most)).encode(), "box")


def plain(value):
    """A value without the identity of its lines."""
    if isinstance(value, Line):
        return tuple(value)
    if isinstance(value, Failure):
        return plain(value.line), value.secondary, plain(value.frames)
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def test_every_field_of_the_record_comes_back_as_it_was():
    whole = Evidence(**{each.name: OF_TYPE[each.type] for each in fields(Evidence)})
    back = sent(whole)
    for each in fields(Evidence):
        assert plain(getattr(back, each.name)) == plain(getattr(whole, each.name)), each.name
    assert back.failures[0].line is back.lines[2] and back.culprits[0] is back.lines[2]


def answered(evidence):
    prepare()
    return look_up(evidence, bundle.load_cache(), ranking.load(), limit=3, today=TODAY).as_dict()


@pytest.mark.parametrize("name", LOGS)
def test_a_log_is_answered_on_a_box_as_it_is_here(tmp_path, name):
    (tmp_path / "train.log").write_text(LOGS[name])
    here = reading.from_path(str(tmp_path / "train.log"))
    assert answered(sent(here)) == answered(here)


def test_folders_of_ranks_are_answered_on_a_box_as_they_are_here(tmp_path):
    runs = json.loads((ROOT / "tests/records/matrix.json").read_text())["results"]
    for place, name in enumerate([name for name in runs if "of 4" in name][::4]):
        for file, text in runs[name].items():
            path = tmp_path / str(place) / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        here = reading.from_path(str(tmp_path / str(place)))
        assert answered(sent(here)) == answered(here), name


def test_of_more_than_may_come_back_what_failed_stays(tmp_path):
    log = tmp_path / "train.log"
    log.write_text(STEPS + "\n".join(row.decode() for row in ROWS) + "\n")
    here = reading.from_path(str(log))
    back = sent(here, 600)
    assert len(back.lines) < len(here.lines)
    assert [f.line.text for f in back.failures] == ["ValueError: bad batch"]
    assert len(back.failures[0].frames) == len(here.failures[0].frames)


@pytest.mark.parametrize(
    "failures", [[[10**6, False, []]], [[-1, False, []]], [[0, False, [99]]], 7]
)
def test_a_failure_that_points_to_no_line_is_refused(failures):
    packed = reply.pack(replace(reading.from_text("ValueError: x"), failures=[]), MOST)
    with pytest.raises(Unreadable, match="can't be read"):
        reply.unpack(json.dumps({**packed, "failures": failures}).encode(), "box")
