"""Spans of time, wherever one is read: a deadline of a job, an option of `rgt status`."""

import click
import pytest
from remote_gpu_trainer.cli.render_status_release import seconds
from remote_gpu_trainer.runs.job_reading import from_object
from remote_gpu_trainer.text.spans import seconds_in

SPANS = [
    ("30s", 30),
    ("90m", 5400),
    ("90min", 5400),
    ("8h", 28800),
    ("1d", 86400),
    ("1.5h", 5400),
    ("8 h", 28800),
    ("90 min", 5400),
    (" 2d ", 172800),
    ("0.1666666667h", 600.00000012),
]


@pytest.mark.parametrize(("text", "meant"), SPANS)
def test_a_number_with_a_unit_is_a_span(text, meant):
    assert seconds_in(text) == pytest.approx(meant, rel=1e-9)


@pytest.mark.parametrize(
    "text", ["", "20", "h", "-1h", "1h30m", "1,5h", "2w", "8 hours", "20H", "9" * 10 + "h", "nanh"]
)
def test_any_other_text_is_none(text):
    assert seconds_in(text) is None


@pytest.mark.parametrize(("text", "meant"), SPANS)
def test_a_deadline_and_an_option_take_the_same_spans(text, meant):
    assert seconds(text) == pytest.approx(meant)
    job = {"name": "sft", "command": ["python", "train.py"], "deadline": text}
    assert from_object(job).hours == pytest.approx(meant / 3600, abs=1e-6)


def test_no_time_at_all_is_refused_by_an_option():
    for text in ("0s", "0.0h", "soon"):
        with pytest.raises(click.BadParameter, match="isn't a duration"):
            seconds(text)
