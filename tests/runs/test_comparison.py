"""`runs compare`: what differs, beside what came out, and differences paired by seed."""

import json
from pathlib import Path

import pytest
from remote_gpu_trainer.cli import compare as screen
from remote_gpu_trainer.runner.folder import Folder
from remote_gpu_trainer.runs import compare_page, compared_runs, comparison, ledger, run_facts
from remote_gpu_trainer.runs.comparison import NOT_RECORDED, Run, compare_runs, run_of, settings_of
from remote_gpu_trainer.text import BadRequest

from tests.engines.fake_run import put_job
from tests.engines.fake_ssh import fake_ssh

COMMIT = "0123456789abcdef0123456789abcdef01234567 2026-11-01T10:00:00+01:00 Widen the model\n"
HOUR = 3600


def held(command, commit=COMMIT, diff="", **fields) -> dict:
    job = {"name": "toy", "command": command, "gpus": 1, "variables": {}, **fields}
    return {"job": job, "rendered": {"code": {"commit": commit, "diff": diff}, "profile": ""}}


def run(command: str, metric=None, name="toy", box="local", **more) -> Run:
    told = {} if metric is None else {"metric": {"value": metric, "step": 10}}
    row = {"end": "done", "metric_name": "acc", "folder": f"/runs/{name}", **told, **more}
    return run_of(row, held(command.split()), name, box)


def test_differences_are_paired_by_seed_and_have_the_spread_that_a_hand_finds():
    # By hand: differences 1, 2 and 6; their mean is 9 / 3 = 3; the squares of what they are off it,
    # 4 + 1 + 9 = 14, over two are 7, whose root is 2.6458. The seeds' own spread is far larger.
    small = {1: 10.0, 2: 20.0, 3: 30.0}
    large = {1: 11.0, 2: 22.0, 3: 36.0}
    runs = [run(f"train --width 8 --seed {seed}", value) for seed, value in small.items()]
    runs += [run(f"train --width 16 --seed {seed}", value) for seed, value in large.items()]
    told = compare_runs(runs)
    first, other = told.configurations
    assert (first.label, other.label) == ("--width 8", "--width 16")
    assert (first.mean, first.deviation) == (20.0, 10.0)
    assert other.mean == 23.0 and other.deviation == pytest.approx(12.53, abs=0.001)
    [pairs] = told.differences
    assert (pairs.seeds, pairs.differences) == (["1", "2", "3"], [1.0, 2.0, 6.0])
    assert pairs.mean == 3.0 and pairs.deviation == pytest.approx(7**0.5)
    assert told.notes == [] or all("not recorded" in note for note in told.notes)


def test_a_seed_that_one_configuration_lacks_is_in_no_difference():
    runs = [run(f"train --lr 1 --seed {seed}", float(seed)) for seed in (1, 2, 3)]
    runs += [run(f"train --lr 2 --seed {seed}", 10.0 * seed) for seed in (3, 4)]
    [pairs] = compare_runs(runs).differences
    assert (pairs.seeds, pairs.differences, pairs.mean, pairs.deviation) == (
        ["3"],
        [27.0],
        27.0,
        None,
    )


def test_with_one_run_each_the_spread_is_not_known():
    told = compare_runs([run("train --lr 1 --seed 1", 1.0), run("train --lr 2 --seed 1", 2.0)])
    assert any("the spread between seeds isn't known" in note for note in told.notes)
    assert [one.deviation for one in told.configurations] == [None, None]
    assert told.differences[0].mean == 1.0 and told.differences[0].deviation is None


def test_a_loss_of_nan_is_shown_and_in_no_mean():
    runs = [run(f"train --lr 1 --seed {seed}", float(seed)) for seed in (1, 2)]
    runs += [run("train --lr 2 --seed 1", "nan"), run("train --lr 2 --seed 2", 5.0)]
    told = compare_runs(runs)
    assert runs[2].metric == "nan" and told.configurations[1].values == {"2": 5.0}
    assert told.differences[0].differences == [3.0]
    assert any("left out" in note for note in told.notes)


def test_the_only_configuration_isnt_called_as_one_of_its_runs():
    told = compare_runs(
        [run("train --seed 1", 0.5, name="a"), run("train --seed 2", 0.6, name="b")]
    )
    assert [one.label for one in told.configurations] == ["all of them, alike but for the seed"]


def test_two_runs_of_one_seed_are_no_pair():
    runs = [
        run("train --lr 1 --seed 1", 1.0, name="a"),
        run("train --lr 1 --seed 1", 2.0, name="b"),
    ]
    runs += [run("train --lr 2 --seed 1", 5.0, name="c")]
    told = compare_runs(runs)
    assert len(told.configurations) == 2 and told.configurations[0].mean == 1.5
    assert told.differences[0].seeds == []
    assert any("no difference is paired" in note for note in told.notes)


@pytest.mark.parametrize(
    "one, other",
    [
        ("train --seed 1 --out runs/seed1", "train --seed 2 --out runs/seed2"),
        ("train seed=1 out=o/seed_1", "train seed=2 out=o/seed_2"),
        ("train --seed=1", "train --seed=2"),
        ("train --data_seed 1 --seed 1", "train --data_seed 2 --seed 2"),
        ("train --random-seed 1 --lr -1e-3", "train --random-seed 2 --lr -1e-3"),
    ],
)
def test_runs_that_differ_in_their_seed_alone_are_one_configuration(one, other):
    assert len(compare_runs([run(one, 1.0), run(other, 2.0)]).configurations) == 1


@pytest.mark.parametrize(
    "one, other",
    [
        ("train --seed 1 --lr 1", "train --seed 2 --lr 2"),
        ("train --seed 1 --depth 11", "train --seed 2 --depth 12"),
        ("train --seed 1", "train --seed 2 --fast"),
        ("train --seed 1", "other --seed 2"),
        ("train --seedling 1", "train --seedling 2"),
    ],
)
def test_anything_else_makes_another_configuration(one, other):
    assert len(compare_runs([run(one, 1.0), run(other, 2.0)]).configurations) == 2


def test_the_code_the_card_and_the_versions_are_facts_and_never_guessed():
    row = {
        "end": "done",
        "versions": {"torch": "2.13.0"},
        "gpu": "NVIDIA H100 80GB HBM3 98% 600/700W 9MB",
    }
    one = run_of(row, held(["train"]), "a", "gpu")
    other = run_of({"end": "done"}, held(["train"], commit="", diff="+x = 1\n"), "b", "gpu")
    assert one.facts["card"] == "1 × NVIDIA H100 80GB HBM3"
    assert one.facts["commit"] == "0123456789ab Widen the model"
    assert (one.fact("torch version"), other.fact("torch version")) == ("2.13.0", NOT_RECORDED)
    assert {other.facts[name] for name in ("card", "commit", "data", "versions")} == {NOT_RECORDED}
    told = compare_runs([one, other])
    assert {"card", "commit", "versions", "torch version"} <= set(told.differing)
    two = run_of(row, held(["train"], diff="-lr = 1\n+lr = 2\n"), "c", "gpu")
    assert two.facts["beside the commit"].startswith("2 lines of diff") and two.diff == [
        "-lr = 1",
        "+lr = 2",
    ]
    assert compare_runs([one, two]).differing == ["beside the commit"]


def test_another_card_within_a_configuration_is_noted():
    runs = [
        run(f"train --seed {seed}", 1.0, gpu=f"{card} 98% 1/2W 3MB")
        for seed, card in ((1, "NVIDIA A100"), (2, "NVIDIA H100"))
    ]
    told = compare_runs(runs)
    assert len(told.configurations) == 1
    assert any(note.startswith("card: not the same") for note in told.notes)


def test_a_text_of_a_box_is_data(capsys):
    evil = "\x1b[2J[bold]hf_abcdefghijklmnopqrstuvwx\nrow"
    row = {"end": evil, "metric": {"value": evil}, "metric_name": evil, "gpu": evil, "versions": {evil: evil},
           "numbers": {"loss": {"value": evil}}, "cell": evil, "rate": evil, "seconds": evil}  # fmt: skip
    one = run_of(row, held(["train", evil], diff=evil), "a", "gpu")
    told = compare_runs([one, run_of({"numbers": [], "job": []}, {}, "b", "gpu")])
    screen.print_comparison(told)
    out = capsys.readouterr().out
    assert "\x1b" not in out and "abcdefghijkl" not in out and "[bold]" in out
    assert json.dumps(told.as_dict())


def test_what_jobs_do_beside_the_training_is_no_setting():
    one = settings_of({**held(["train"])["job"], "name": "a", "deadline": "1h", "price": 2}, [])
    assert one == settings_of({**held(["train"])["job"], "name": "b", "deadline": "2h"}, [])
    assert settings_of(held("train --x '1 2' --flag y=3")["job"], ["--x", "4"]) == {
        "command": "train", "--x": "4", "--flag": "given", "y": "3", "gpus": "1",
    }  # fmt: skip


# --- on the box ---


def put_run(home: Path, name: str, log: str, job: dict, cell: str = "", **state) -> Path:
    """The folder of a run that has ended, or of a cell of one."""
    base = home / "runs" / name
    base.mkdir(parents=True, exist_ok=True)
    if not (base / "run.sh").exists():
        put_job(base, job)
    folder = base / "cells" / cell if cell else base
    (folder / "log").mkdir(parents=True)
    (folder / "log/train.log.0000").write_text(log)
    rows = [{"t": 1000, "event": "start"}, {"t": 1010, "event": "attempt", "attempt": "1"}]
    rows += [{"t": 1000 + HOUR, "event": "done"}]
    (folder / "events.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    series = [
        {"t": t, "attempt": 1, "step": step}
        for t, step in ((1060, 0), (1120, 300), (1180, 600), (1240, 600))
    ]
    (folder / "series.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in series))
    (folder / "state.json").write_text(json.dumps({"step": 600, **state}))
    (folder / ".done").write_text("{}")
    return folder


def test_a_box_is_asked_once_for_its_runs_and_they_are_priced(tmp_path, monkeypatch):
    place = fake_ssh(tmp_path, monkeypatch)
    for name, lr in (("one", 1), ("two", 2)):
        put_run(
            place / "gpu",
            name,
            f"step 600 acc 0.{lr}\n",
            held(["train", "--lr", str(lr)], metric="acc"),
        )
    ledger.opened("gpu:22", "gpu", price=4.0)
    found = compared_runs.find(["gpu:one", "gpu:two"])
    assert [one.metric for one in found] == [0.1, 0.2] and [one.state for one in found] == [
        "finished"
    ] * 2
    assert [one.rate for one in found] == [5.0, 5.0] and [one.hours for one in found] == [1.0, 1.0]
    assert [one.money for one in found] == [4.0, 4.0]
    assert comparison.compare_runs(found).differing == ["--lr"]


def test_a_cell_is_a_run_and_pays_its_share_of_the_box(tmp_path, monkeypatch):
    place = fake_ssh(tmp_path, monkeypatch)
    cells = [{"name": f"s{seed}", "arguments": ["--seed", str(seed)]} for seed in (1, 2)]
    job = held(["train"], queue={"cells": cells, "slots": 2}, price=4.0, metric="acc")
    for seed in (1, 2):
        put_run(place / "gpu", "many", f"acc {seed}\n", job, f"s{seed}")
    found = compared_runs.find(["gpu:many"])
    assert [(one.name, one.seed, one.metric, one.money) for one in found] == [
        ("s1", "1", 1.0, 2.0),
        ("s2", "2", 2.0, 2.0),
    ]
    [alone] = compared_runs.find(["gpu:many/s2"])
    assert alone.name == "s2" and alone.metric == 2.0


@pytest.mark.parametrize(
    "log, name, value",
    [
        ("val_acc 0.5\nval_acc 0.7\nstep 3\n", "val_acc", 0.7),
        ("{'eval_loss': 0.5, 'eval_accuracy': 0.83}\n", "eval_accuracy", 0.83),
        ("Epoch 3: test accuracy: 91.2%\n", "accuracy", 91.2),
        ("loss 0.2 val_loss 0.4\n", "loss", 0.2),
        ("val_loss 0.4\nloss 0.2\nval_loss 0.5\n", "loss", 0.2),
        ("best val_acc 0.9\nval_acc 0.8\nbest val_acc 0.9\n", "val_acc", 0.8),
        ("acc nan\n", "acc", "nan"),
        ("nothing here\n", "acc", None),
    ],
)
def test_the_metric_is_the_last_number_that_is_called_so(tmp_path, log, name, value):
    folder = put_run(tmp_path, "toy", log, held(["train"]))
    found = run_facts.read_metric(Folder(str(folder)), name)
    assert (found and found["value"]) == value


def test_a_name_that_leads_nowhere_or_to_one_run_is_refused(tmp_path, monkeypatch):
    place = fake_ssh(tmp_path, monkeypatch)
    put_run(place / "gpu", "one", "", held(["train"]))
    with pytest.raises(compared_runs.NotCompared, match="no run is there; rgt runs"):
        compared_runs.find(["gpu:other"])


# --- a real sweep ---


def test_a_sweep_of_ten_cells_is_as_a_short_program_reckons_it_from_the_logs(tmp_path, monkeypatch):
    record = json.loads((Path(__file__).parents[1] / "records/seeds.json").read_text())
    last = {}  # by rate and seed: the last word of a log is its accuracy
    for cell in record["cells"].values():
        _, rate, _, seed = cell["arguments"]
        last[rate, seed] = float(cell["log"].split()[-1])
    assert len(last) == 10

    def mean_and_deviation(values):
        mean = sum(values) / len(values)
        squares = sum((value - mean) ** 2 for value in values)
        return mean, (squares / (len(values) - 1)) ** 0.5 if len(values) > 1 else None

    def told(one):
        return one.mean, one.deviation

    place = fake_ssh(tmp_path, monkeypatch)
    cells = [
        {"name": name, "arguments": cell["arguments"]} for name, cell in record["cells"].items()
    ]
    job = held(["python", "train.py"], queue={"cells": cells}, metric=record["metric"])
    for name, cell in record["cells"].items():
        put_run(place / "gpu", "ten", cell["log"], job, name)
    now = compare_runs(compared_runs.find(["gpu:ten"]))
    first = [last["0.01", seed] for seed in "123"]
    for rate, one in zip(("0.01", "0.03", "0.1", "0.3"), now.configurations, strict=True):
        values = [last[rate, seed] for seed in "123" if (rate, seed) in last]
        assert told(one) == pytest.approx(mean_and_deviation(values)), rate
    for rate, pairs in zip(("0.03", "0.1", "0.3"), now.differences, strict=True):
        values = [last[rate, s] - first[int(s) - 1] for s in "123" if (rate, s) in last]
        assert pairs.differences == pytest.approx(values)
        assert told(pairs) == pytest.approx(mean_and_deviation(values)), rate
    for then, one in zip(record["configurations"], now.configurations, strict=True):
        assert (then["label"], then["values"]) == (one.label, one.values)
    assert [one["mean"] for one in record["differences"]] == [one.mean for one in now.differences]
    assert now.differences[2].deviation is None, "one run has no spread"


# --- the page ---


def test_the_page_holds_both_tables_and_a_line_a_run_and_no_markup_of_a_box(tmp_path):
    evil = "<script>alert(1)</script>"
    series = [
        {"t": 100 * at, "step": 10 * at, "loss": 1 / at, "val_loss": "inf"} for at in range(1, 9)
    ]
    runs = [
        run(f"train --lr {lr} --note {evil}", 0.5, name=f"lr{lr}", series=series) for lr in (1, 2)
    ]
    made = compare_page.page(compare_runs(runs))
    assert (
        made.startswith(compare_page.OURS)
        and "<script>" not in made
        and "&lt;script&gt;" not in made
    )
    assert made.count('class="l c') == 4, "a line of each run, over steps and over time"
    for told in ("--lr", "lr1", "lr2", "CONFIGURATION", "the spread between seeds isn&#39;t known"):
        assert told in made, told
    odd = run_of(
        {"numbers": {}, "cell": evil, "series": [{"t": evil, "step": 3, "loss": evil}]},
        held([evil]),
        evil,
        "b",
    )
    assert "<script>" not in compare_page.page(compare_runs([odd, runs[0]]))


def test_the_page_replaces_an_earlier_one_and_nothing_else(tmp_path):
    told = compare_runs([run("train --lr 1", 1.0), run("train --lr 2", 2.0)])
    compare_page.write(told, tmp_path / "out.html")
    compare_page.write(told, tmp_path / "out.html")
    (tmp_path / "mine.html").write_text("mine")
    with pytest.raises(BadRequest, match="name another file with --page"):
        compare_page.write(told, tmp_path / "mine.html")
    assert (tmp_path / "mine.html").read_text() == "mine"
