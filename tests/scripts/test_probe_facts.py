"""The facts that the probe tells beside its findings, each on a small program that has what it tells of and one that hasn't."""

import json
import os
import re
import subprocess
import sys

import pytest
from remote_gpu_trainer.lookup.budget import tokens

from tests.conftest import ROOT, module, older_python
from tests.lookup.test_budget import counted
from tests.programs import loaded

PROBE = ROOT / "scripts/probe.py"
probe = loaded(PROBE)
HEAD = """
import argparse, copy, json, os, pickle, sys
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
torch.manual_seed(0)
torch.set_num_threads(1)

def net(inputs=16, classes=4):
    return nn.Sequential(nn.Linear(inputs, 32), nn.GELU(), nn.Linear(32, classes))

def fit(model, loader, rate=0.1, epochs=4, after=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            if after:
                after(model)

class Rows(Dataset):
    def __init__(self, x, y, **more):
        self.x, self.y = x, y
        self.__dict__.update(more)
    def __len__(self):
        return len(self.x)
    def __getitem__(self, place):
        return self.x[place], int(self.y[place])

x = torch.randn(320, 16)
y = (x @ torch.randn(16, 4)).argmax(1)
"""


def probed(folder, text, *words, options=(), **environment):
    """The report on a program, and what was printed."""
    module("torch", "pip install -e '.[proofs]'")
    folder.mkdir(exist_ok=True)
    (folder / "program.py").write_text(HEAD + text)
    done = subprocess.run(
        [sys.executable, str(PROBE), "--json", "report.json", *options, "--", "program.py", *words],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "report.json").read_text()), done.stderr


def facts_of(folder, text, *words):
    """name -> fact."""
    report, said = probed(folder, text, *words)
    assert not [state for state in report["observations"].values() if state.get("broken")], said
    return {one["name"]: one for one in report["facts"]}


def odd(facts):
    return {name for name, one in facts.items() if one["usual"]}


def test_a_sound_program_differs_in_nothing_from_what_is_usual(tmp_path):
    facts = facts_of(
        tmp_path,
        "fit(net(), DataLoader(Rows(x, y), 32, shuffle=True))",
        "--lr=0.1", "--batch-size", "32", "--epochs", "4",
    )  # fmt: skip
    assert not odd(facts), facts
    assert facts["SGD"]["numbers"]["first"] == facts["SGD"]["numbers"]["last"] == 0.1
    assert facts["loader"]["numbers"] == {
        "length": 10, "rows": 32, "shuffled": True, "workers": 0,
    }  # fmt: skip
    assert facts["moved"]["numbers"]["moved"] == 4
    assert "4 classes alike give 1.39" in facts["course"]["text"]
    assert "320 looked at" in facts["training set"]["text"]
    assert {"types", "batch", "step", "first input"} <= set(facts)


@pytest.mark.parametrize("decay, is_odd", [(0.9999, True), (0.8, False)])
def test_a_copy_that_follows_too_slowly_for_the_run(decay, is_odd, tmp_path):
    facts = facts_of(
        tmp_path,
        f"""
model = net()
average = copy.deepcopy(model)
@torch.no_grad()
def follow(model):
    for mine, theirs in zip(average.parameters(), model.parameters()):
        mine.lerp_(theirs, 1 - {decay})
    average(x[:4])
fit(model, DataLoader(Rows(x, y), 32, shuffle=True), after=follow)
""",
        "--epochs", "4",
    )  # fmt: skip
    copied = facts["copy Sequential"]
    assert bool(copied["usual"]) == is_odd, copied
    assert "evaluated" in copied["text"]
    assert (copied["numbers"]["way"] < 0.01) == is_odd


def test_two_models_that_both_train_are_no_copies(tmp_path):
    facts = facts_of(
        tmp_path,
        """
one, two = net(), net()
optimizer = torch.optim.SGD([*one.parameters(), *two.parameters()], lr=0.1)
for step in range(30):
    optimizer.zero_grad()
    F.cross_entropy(one(x) + two(x), y).backward()
    optimizer.step()
""",
    )
    assert not [name for name in facts if name.startswith("copy")]


def test_data_sets_are_compared(tmp_path):
    facts = facts_of(
        tmp_path,
        """
table = {"a": 0, "b": 1, "c": 2, "d": 3}
other = {"B": 0, "a": 1, "c": 2, "d": 3}
x[:160, 5] /= 8
held = torch.cat([x[:40], torch.randn(40, 16)])[torch.randperm(80)]
loader = DataLoader(Rows(x, y, class_to_idx=table), 32, shuffle=True)
later = DataLoader(Rows(held, torch.zeros(80), class_to_idx=other), 32)
model = net()
fit(model, loader, epochs=2)
with torch.no_grad():
    for rows, _ in later:
        model(rows)
fit(model, loader, epochs=2)
""",
    )
    assert odd(facts) == {"training scale", "evaluation overlap [0]", "table class_to_idx"}, facts
    assert "column 5" in facts["training scale"]["text"]
    assert facts["evaluation overlap [0]"]["numbers"]["share"] == pytest.approx(0.5, abs=0.2)
    assert facts["table class_to_idx"]["numbers"] == {"differ": 1, "alone": 2}
    told = json.dumps(facts)
    assert '"a"' not in told and "'B'" not in told, "no name of a label is told"


def test_equal_inputs_with_other_labels_and_values_that_are_not_finite(tmp_path):
    facts = facts_of(
        tmp_path,
        """
x[200:240] = x[:40]
y[200:240] = (y[:40] + 1) % 4
x[300, 3] = float("inf")
class Careful(nn.Sequential):
    def forward(self, x):
        return super().forward(x.clamp(-5, 5))
fit(Careful(*net()), DataLoader(Rows(x, y), 32, shuffle=True))
""",
    )
    assert {"training clash", "training nan [0]"} <= odd(facts) and "training repeats" in facts
    assert facts["training clash"]["numbers"]["inputs"] == 40


@pytest.mark.parametrize("shuffle", [False, True])
def test_batches_in_the_order_of_their_labels(shuffle, tmp_path):
    facts = facts_of(
        tmp_path,
        f"""
order = y.sort().indices
fit(net(), DataLoader(Rows(x[order], y[order]), 16, shuffle={shuffle}))
""",
    )
    assert odd(facts) == (set() if shuffle else {"blocks", "training sorted"})


TOKENS = """
class PreTrainedTokenizerBase:
    eos_token_id, pad_token_id, bos_token_id = END, PAD, 1
tokenizer = PreTrainedTokenizerBase()
class Lines(Dataset):
    def __len__(self):
        return 96
    def __getitem__(self, place):
        draw = torch.Generator().manual_seed(place)
        words = torch.randint(5, 25, (10 + place % 5,), generator=draw).tolist()
        words = [1] * BEGINS + words + [END]
        row = torch.tensor(words + [PAD] * (24 - len(words)))
        labels = row.masked_fill(row == PAD, -100)
        if place % 3 == 0:
            labels[:] = ABSENT
        return row, labels
model = nn.Sequential(nn.Embedding(30, 16), nn.Linear(16, 30))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(4):
    for row, labels in DataLoader(Lines(), 8, shuffle=True):
        optimizer.zero_grad()
        labels = labels.clamp(min=-100)
        F.cross_entropy(model(row)[:, :-1].flatten(0, 1), labels[:, 1:].flatten()).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    "end, pad, begins, absent, expected",
    [
        (2, 0, 1, "labels[:]", set()),
        (2, 2, 1, "labels[:]", {"training end token"}),
        (2, 0, 2, "labels[:]", {"training begin token"}),
        (2, 0, 1, "-100", {"training rows without labels"}),
    ],
)
def test_rows_of_tokens(end, pad, begins, absent, expected, tmp_path):
    text = TOKENS.replace("END", str(end)).replace("PAD", str(pad))
    text = text.replace("BEGINS", str(begins)).replace("ABSENT", absent)
    assert odd(facts_of(tmp_path, text)) == expected


def test_a_cache_that_is_older_than_its_source(tmp_path):
    facts = facts_of(
        tmp_path,
        """
for name in ("stale", "fresh"):
    with open(name + ".csv", "w") as handle:
        handle.write("1,2")
    with open(name + ".csv.pkl", "wb") as handle:
        pickle.dump([1, 2], handle)
os.utime("stale.csv.pkl", (10**9, 10**9))
for name in ("stale", "fresh"):
    pickle.load(open(name + ".csv.pkl", "rb"))
fit(net(), DataLoader(Rows(x, y), 32, shuffle=True))
""",
    )
    assert odd(facts) == {"cache stale.csv.pkl"}
    assert "stale.csv beside it was not" in facts["cache stale.csv.pkl"]["text"]
    assert "cache fresh.csv.pkl" in facts


def test_what_was_asked_for_beside_what_is_in_force(tmp_path):
    facts = facts_of(
        tmp_path,
        "fit(net(), DataLoader(Rows(x, y), 16, shuffle=True), rate=0.5)",
        "--lr", "0.1", "--batch_size", "32", "--seed", "3",
    )  # fmt: skip
    assert odd(facts) == {"--lr", "--batch_size"}
    assert facts["--lr"]["numbers"] == {"asked": 0.1, "held": 0.5}


def test_weights_that_never_moved_are_told_with_the_reason(tmp_path):
    facts = facts_of(
        tmp_path,
        """
model = nn.ModuleDict({"body": nn.Linear(16, 32), "head": nn.Linear(32, 4), "frozen": nn.Linear(16, 32), "spare": nn.Linear(3, 3)})
model["frozen"].requires_grad_(False)
class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = model
    def forward(self, x):
        return self.parts["head"](torch.tanh(self.parts["body"](x) + self.parts["frozen"](x)))
fit(Whole(), DataLoader(Rows(x, y), 32, shuffle=True))
""",
    )
    assert facts["still, frozen"]["numbers"]["count"] == 2 and not facts["still, frozen"]["usual"]
    assert "parts.spare.weight" in facts["still, no gradient came"]["text"]


def test_what_was_saved_is_compared_with_what_trains(tmp_path):
    program = """
model = net()
def after(model):
    after.count = getattr(after, "count", 0) + 1
    if after.count == 12:
        state = {name: value.clone() for name, value in model.state_dict().items()}
        CHANGE
        torch.save({"model": state}, "saved.pt")
fit(model, DataLoader(Rows(x, y), 32, shuffle=True), after=after)
"""
    facts = facts_of(tmp_path / "one", program.replace("CHANGE", "pass"))
    assert facts["weights"]["numbers"] == {"trained": 4, "saved": 4, "equal": 4}
    assert not facts["weights"]["usual"]
    facts = facts_of(tmp_path / "two", program.replace("CHANGE", "state['0.weight'] *= 0"))
    assert facts["weights"]["numbers"]["equal"] == 3 and facts["weights"]["usual"]


# A data set with a file of its own, which it reads at the place where it stands, and that writes and counts.
READING = """
import random
with open("rows.bin", "wb") as handle:
    handle.write(bytes(range(256)) * 80)
class Reading(Dataset):
    def __init__(self):
        self.handle, self.count = open("rows.bin", "rb", buffering=0), 0
    def __len__(self):
        return 320
    def __getitem__(self, place):
        self.count += 1
        try:
            with open(f"asked-{self.count}.txt", "w") as told:
                told.write("1")
        except OSError:
            pass
        return torch.tensor(list(self.handle.read(16))).float() / 256 + random.random(), int(y[place])
data = Reading()
model = net()
seen = []
fit(model, DataLoader(data, 8, shuffle=True), after=lambda m: seen.append(data.handle.tell()), epochs=2)
import time
time.sleep(3)
fit(model, DataLoader(data, 8, shuffle=True), after=lambda m: seen.append(data.handle.tell()), epochs=1)
print(json.dumps([seen, data.count, float(sum(p.double().sum() for p in model.parameters()))]))
"""


def test_a_look_at_the_data_set_changes_nothing_of_the_program(tmp_path):
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/program.py").write_text(
        HEAD + "random = __import__('random'); random.seed(1)" + READING
    )
    plain = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path / "plain",
        capture_output=True,
        text=True,
        check=True,
    )
    folder = tmp_path / "probed"
    folder.mkdir()
    (folder / "program.py").write_text(
        HEAD + "random = __import__('random'); random.seed(1)" + READING
    )
    done = subprocess.run(
        [sys.executable, str(PROBE), "--json", "report.json", "--", "program.py"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == plain.stdout
    names = [{path.name for path in (tmp_path / place).iterdir()} for place in ("plain", "probed")]
    assert names[1] - names[0] == {"report.json"}, "the look wrote no file of the data set's"
    facts = {one["name"]: one for one in json.loads((folder / "report.json").read_text())["facts"]}
    assert "320 samples" in facts["training set"]["text"], "and yet it looked"


def test_a_stream_is_never_read_a_second_time(tmp_path):
    facts = facts_of(
        tmp_path,
        """
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        with open("begun.txt", "a") as handle:
            handle.write("1")
        return iter(list(zip(x, y)))
fit(net(), DataLoader(Stream(), 10), epochs=1)
""",
    )
    assert (tmp_path / "begun.txt").read_text() == "1"
    assert "training set" not in facts and "a stream" in facts["loader"]["text"]


def test_a_sheet_full_of_oddities_keeps_to_its_length_and_counts_the_rest():
    facts = loaded(PROBE)
    told = [facts.fact(f"weights/{i}", f"{i} odd " + "x" * 200, "even") for i in range(40)]
    lines = facts.sheet([*told, facts.fact("data/one", "plain")], "")
    assert sum(map(len, lines)) < 2500 and lines[0].startswith("! weights: 0 odd")
    kept = sum(line.startswith("! weights: ") for line in lines)
    left = f"! {40 - kept} more differ from the usual: weights {40 - kept}, in --json"
    assert left in lines and tokens("\n".join(lines)) <= 600


class Watched:
    """What an observer of files asks of the watch."""

    folder, final = "", False

    def __init__(self):
        self.parts = {"checkpoints": type("Checkpoints", (), {"settings": []})()}


def test_files_are_looked_at_again_only_where_others_were_read(monkeypatch, tmp_path):
    observer = loaded(PROBE).Files(Watched())
    looks = []
    monkeypatch.setattr(observer, "look", lambda: looks.append(1) or [])
    observer.facts(), observer.facts()
    assert len(looks) == 1
    observer.opened.read["new"] = str(tmp_path / "new")
    observer.facts(), observer.facts()
    assert len(looks) == 2


def test_the_sheet_says_first_what_was_not_seen_then_what_is_odd_and_keeps_to_its_length():
    facts = loaded(PROBE)
    told = [facts.fact("data/one", "plain " * 30), facts.fact("weights/two", "odd", "even")]
    told += [facts.fact(f"loss/{i}", f"number {i} " + "x" * 200) for i in range(20)]
    lines = facts.sheet(told, "ranks (one process)")
    assert lines[0] == "not looked at: ranks (one process)"
    assert lines[1] == "! weights: odd (usual: even)"
    assert lines[2].startswith("data: plain")
    kept = sum(line.count("number ") for line in lines)
    assert lines[-1] == f"({20 - kept} more facts: loss {20 - kept}, in --json)"
    assert sum(map(len, lines)) < 2500 and tokens("\n".join(lines)) <= 600


def test_two_runs_are_compared_fact_by_fact(tmp_path):
    text = "fit(net(), DataLoader(Rows(x, y), {rows}, shuffle=True), rate={rate}, epochs=8)"
    probed(tmp_path / "good", text.format(rows=32, rate=0.1))
    _, said = probed(
        tmp_path / "bad",
        text.format(rows=32, rate=0.4),
        options=("--compare", "../good/report.json"),
    )
    lines = said.splitlines()
    place = next(i for i, line in enumerate(lines) if line.startswith("in force, SGD: "))
    assert "rate 0.4" in lines[place] and "rate 0.1" in lines[place + 1]
    assert "data, loader" not in said, "what is equal isn't told"
    _, said = probed(
        tmp_path / "bad", text.format(rows=32, rate=0.4), options=("--compare", "none.json")
    )
    assert "error: none.json: No such file or directory; give a file that --json wrote" in said


def test_a_checkpoint_may_name_classes_and_be_loaded_twice(tmp_path):
    _, said = probed(
        tmp_path,
        """
settings = dict(name="new", cls=nn.Linear, kind=dict, of=dict[str, int], optimizer="SGD", rate=0.1, decay=0.0, rows=32)
json.dump({k: v for k, v in settings.items() if isinstance(v, (str, float))}, open("a.json", "w"))
model = net()
torch.save(dict(config=dict(settings, rate=0.3), model=model.state_dict()), "before.pt")
json.load(open("a.json"))
for _ in range(2):
    torch.load("before.pt", weights_only=False)
fit(model, DataLoader(Rows(x, y), 32, shuffle=True))
""",
    )
    assert said.count("before.pt holds settings") == 1
    assert "checkpoints" not in said.splitlines()[1], said


@pytest.mark.parametrize("rate, is_odd", [(0.1, False), (0.3, True)])
def test_a_checkpoint_whose_settings_differ_from_the_file_s(rate, is_odd, tmp_path):
    facts = facts_of(
        tmp_path,
        f"""
settings = dict(name="new", optimizer=dict(type="SGD", rate=0.1, decay=0.0), rows=32, epochs=4)
json.dump(settings, open("settings.json", "w"))
settings["optimizer"]["rate"] = {rate}
torch.save(dict(config=settings, model=net().state_dict()), "before.pt")
json.load(open("settings.json"))
torch.load("before.pt")
fit(net(), DataLoader(Rows(x, y), 32, shuffle=True))
""",
    )
    assert odd(facts) == ({"settings settings.json"} if is_odd else set())
    if is_odd:
        assert "in 1 of 6: optimizer.rate" in facts["settings settings.json"]["text"]


CLIPS = {
    "within a closure": ("optimizer.step(lambda: (optimizer.zero_grad(), back(), clip())); optimizer.zero_grad()", False),
    "before the step": ("back(); clip(); optimizer.step()", False),
    "in each micro-batch": ("back(); clip(); back(); clip(); optimizer.step()", False),
    "one optimizer while the other's gradients change": (
        "back(); clip(); other(x).square().sum().backward(); optimizer.step(); second.step()",
        False,
    ),
    "before the gradients are made": ("clip(); optimizer.zero_grad(); back(); optimizer.step()", True),
    "before a second backward": ("back(); clip(); back(); optimizer.step()", True),
}  # fmt: skip


@pytest.mark.parametrize("order", CLIPS)
def test_clipping_that_a_step_does_not_use(order, tmp_path):
    body, is_odd = CLIPS[order]
    facts = facts_of(
        tmp_path,
        f"""
model, other = net(), net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
second = torch.optim.Adam(other.parameters(), lr=1e-3)
back = lambda: F.cross_entropy(model(x), y).backward()
clip = lambda: nn.utils.clip_grad_norm_(model.parameters(), 0.01)
for step in range(32):
    {body}
    {"" if is_odd and "zero" in body else "optimizer.zero_grad()"}
    second.zero_grad()
""",
    )
    assert ("clipping" in odd(facts)) is is_odd
    text = facts["clipping"]["text"]
    assert ("steps used other gradients than these" in text) is is_odd


# What a data set does to the program and to its files when a sample is asked for, and what shows it.
DEEDS = {
    "writes by a library in C": ("torch.save(1, f'cache-{place}.pt')", "len(os.listdir('.'))"),
    "empties": ("os.close(os.open('held.txt', os.O_RDONLY | os.O_TRUNC))", "len(open('held.txt').read())"),
    "removes": ("os.path.exists('held.txt') and os.remove('held.txt')", "os.path.exists('held.txt')"),
    "writes to a map": ("table[0] += 1", "int(table[0])"),
    "counts in shared memory": ("counted.value += 1", "counted.value"),
    "takes a lock": ("fcntl.flock(held, fcntl.LOCK_EX); time.sleep(9)", "fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)"),
    "starts": ("os.system('touch started')", "os.path.exists('started')"),
    "signals": ("os.kill(program, 10)", "signals"),
    "stores in a base": ("base.execute('insert into t values (1)'); base.commit()", "base.execute('select count(*) from t').fetchone()"),
    "ends": ("os._exit(3)", "0"),
    "ends by an exception with a secret": ("raise KeyError('hf_secret')", "0"),
}  # fmt: skip
DOING = """
import fcntl, multiprocessing, numpy, signal, sqlite3, time
program, signals = os.getpid(), []
signal.signal(10, lambda *_: signals.append(1))
open("held.txt", "w").write("held")
held, mine = open("held.txt"), open("held.txt")
open("table.bin", "wb").write(bytes(800))
table = numpy.memmap("table.bin", dtype="int64", mode="r+")
counted = multiprocessing.Value("q")
base = sqlite3.connect("base.db", isolation_level=None)
base.execute("create table t (a)")
class Doing(Rows):
    looked = False
    def __getitem__(self, place):
        if os.getpid() != program:
            DEED
        return super().__getitem__(place)
fit(net(), DataLoader(Doing(x, y), 32, shuffle=True), epochs=3)
time.sleep(4)
print(SHOWN)
"""


@pytest.mark.parametrize("deed", DEEDS)
def test_what_a_data_set_does_in_the_look_reaches_nothing(deed, tmp_path):
    done, shown = DEEDS[deed]
    text = DOING.replace("DEED", done).replace("SHOWN", shown)
    (tmp_path / "program.py").write_text(HEAD + text)
    told = []
    for way in ([], [str(PROBE), "--json", str(tmp_path / "report.json"), "--"]):
        folder = tmp_path / f"run-{len(way)}"
        folder.mkdir()
        run = subprocess.run(
            [sys.executable, *way, "../program.py"],
            cwd=folder, capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        told.append((run.stdout, sorted(path.name for path in folder.iterdir())))
    assert told[0] == told[1]
    report = json.loads((tmp_path / "report.json").read_text())
    names = {one["name"] for one in report["facts"]}
    assert names & {"training set", "samples"}, "the page says what came of the look"
    assert "hf_secret" not in json.dumps(report)


def test_objects_that_act_when_they_are_asked_for_their_class_stay_unasked(tmp_path):
    _, said = probed(
        tmp_path,
        """
class Lazy:
    @property
    def __class__(self):
        print("was asked")
        raise RuntimeError("asked")
class Gone: pass
import weakref
lazy, gone = Lazy(), weakref.proxy(Gone())
torch.distributed.reduce_op
sys.stderr.write("-" * 9 + chr(10))
fit(net(), DataLoader(Rows(x, y), 32, shuffle=True))
""",
    )
    assert said.split("---------\n")[1].startswith("probe: sound")


@pytest.mark.parametrize(
    "words, expected",
    [
        ("--lr 1 --lr 2", {"rate": ("lr", 2)}),
        ("--lr=1 --lr 2", {"rate": ("lr", 2)}),
        ("optimizer.lr=0.5 --seed 3", {"rate": ("optimizer.lr", 0.5)}),
        ("--generator.lr 1 --critic.lr 2", {}),
        ("--clip-range 0.2 --clip_text_length 77 --clip-coef 0.1 --ppo_clip 0.2", {}),
        ("--num-warmup-steps 5 --num_inference_steps 50 --max_eval_steps 9", {}),
        ("--grad-clip 1", {"clip": ("grad-clip", 1)}),
        ("--max_grad_norm 1", {"clip": ("max_grad_norm", 1)}),
        ("--max_train_steps 9", {"steps": ("max_train_steps", 9)}),
    ],
)
def test_what_a_command_line_asks_for(words, expected):
    assert loaded(PROBE).asked(words.split()) == expected


def test_a_batch_may_be_asked_for_as_that_of_all_ranks_or_of_a_step(tmp_path):
    text = """
model, loader = net(), DataLoader(Rows(x, y), 8, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(4):
    for place, (rows, labels) in enumerate(loader):
        for _ in range(2):
            F.cross_entropy(model(rows), labels).backward()
        if place % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
"""
    facts = facts_of(tmp_path, text, "--batch-size", "32", "--max-steps", "-1")
    assert not odd(facts), facts
    assert facts["batch"]["numbers"]["accumulated"] == 4, "two losses of a batch are one batch"


def test_files_in_folders_named_after_classes_name_no_class(tmp_path):
    probe = loaded(PROBE)
    for paths in (
        ["/d/train/tabby/images/1.JPEG", "/d/train/rose/images/2.JPEG"],
        [f"/d/train/{name}/images/{i}.npy" for name in ("tabby", "rose") for i in range(9)],
        ["/d/train/tabby/1.png", "/d/seed.json"],
    ):
        texts = [text for inside in probe.by_kind(paths) for text in probe.told(inside)]
        assert not [text for text in texts if "tabby" in text or "rose" in text], texts
        assert sum("below" in text for text in texts) == 1
    assert ["/d/seed.json"] in probe.by_kind(["/d/train/tabby/1.png", "/d/seed.json"])


def test_tables_that_count_are_no_numbering():
    probe = loaded(PROBE)
    assert probe.numbers({"a": 0, "b": 2, "c": 1}) and probe.numbers({"a": 1, "b": 2})
    assert not probe.numbers({"a": 50, "b": 70}) and not probe.numbers({"a": 1, "b": 1})


def test_what_is_sound_though_it_looks_odd(tmp_path):
    """Two inputs that are few, tags that are alike, a bias that softmax takes out, a sure model."""
    facts = facts_of(
        tmp_path,
        """
class Pairs(Rows):
    def __getitem__(self, place):
        return self.x[place, :1], self.x[place], self.y[place]
class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.key, self.last = nn.Linear(1, 8), nn.Linear(16, 16), nn.Linear(8, 4)
        self.key.bias.register_hook(torch.zeros_like)
        nn.init.zeros_(self.last.weight)
    def forward(self, one, x):
        return self.last(self.first(one) + self.key(x)[:, :8]) * 9
x = torch.randn(320, 16)
y = torch.randint(0, 4, (320, 8))
loader, later = DataLoader(Pairs(x, y), 1, shuffle=True), DataLoader(Pairs(x.flip(1), y), 64)
model = Odd()
with torch.no_grad():
    for one, rows, labels in later:
        model(one, rows)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for one, rows, labels in loader:
    optimizer.zero_grad()
    F.cross_entropy(model(one, rows), labels[:, 0]).backward()
    optimizer.step()
""",
    )
    assert not odd(facts), [facts[name] for name in odd(facts)]


@pytest.mark.parametrize("keeper", ["gone", "alive"])
def test_a_look_that_came_to_no_end_is_told(tmp_path, keeper):
    gone = subprocess.Popen(["true"])
    gone.wait()
    part = tmp_path / "data-1.json.part"
    part.write_text(str(gone.pid if keeper == "gone" else os.getpid()))
    [told] = probe.looked_later(str(tmp_path), most=0.2)
    assert "came to no end" in told["facts"][0]["text"]
    (tmp_path / "data-1.json").write_text('{"facts": []}')
    assert probe.looked_later(str(tmp_path), most=0.2) == [{"facts": []}]


def test_a_look_that_hangs_is_told_and_ended_and_a_kind_that_cannot_be_read_is_left_out(tmp_path):
    facts = facts_of(
        tmp_path,
        """
program = os.getpid()
class Hanging(Rows):
    def __getitem__(self, place):
        if os.getpid() != program:
            __import__("time").sleep(99)
        return super().__getitem__(place)
fit(net(), DataLoader(Hanging(x, y), 32, shuffle=True))
""",
    )
    assert "no sample was looked at: the process" in facts["samples"]["text"]
    facts = facts_of(
        tmp_path,
        """
class Mixed(Rows):
    def __getitem__(self, place):
        return dict(a=self.x[place], b=torch.eye(3).to_sparse(), c=None, d={1, 2}, y=int(self.y[place]))
def joined(rows):
    return torch.stack([row["a"] for row in rows]), torch.tensor([row["y"] for row in rows])
model, held = net(), [Mixed(x[::2], y[::2]), Mixed(x[1::2], y[1::2])]
for data in held:
    fit(model, DataLoader(data, 32, shuffle=True, collate_fn=joined))
""",
    )
    assert "160 looked at: .a float32 16" in facts["training set"]["text"]
    assert "training 2 set" in facts


def test_the_folds_of_a_cross_validation_overlap_and_are_not_odd(tmp_path):
    facts = facts_of(
        tmp_path,
        """
whole, held = Rows(x, y), []
for fold in range(2):
    inside = [i for i in range(320) if i % 2 == fold]
    outside = [i for i in range(320) if i % 2 != fold]
    held += [torch.utils.data.Subset(whole, part) for part in (inside, outside)]
    model = net()
    fit(model, DataLoader(held[-2], 32, shuffle=True), epochs=3)
    with torch.no_grad():
        for rows, _ in DataLoader(held[-1], 64):
            model(rows)
""",
    )
    assert not odd(facts), [facts[name] for name in odd(facts)]
    assert "of the evaluation 2 samples" in facts["evaluation 2 overlap [0]"]["text"]


def test_no_look_where_a_fork_may_need_more_memory_than_is_free():
    pytest.importorskip("torch")
    probe = loaded(PROBE)
    watch = probe.DataSets(None)
    used, free = probe.memory()
    assert used > 0 and free > 0
    watch.hindered.__globals__["memory"] = lambda: (1, 100)
    assert not watch.hindered()
    watch.hindered.__globals__["memory"] = lambda: (2, 1)
    assert "memory" in watch.hindered()


def test_a_loader_of_batches_is_told_by_the_sampler_of_its_batches_and_steps_count(tmp_path):
    facts = facts_of(
        tmp_path,
        """
from torch.utils.data import BatchSampler, RandomSampler
order = y.sort().indices
data = Rows(x[order], y[order])
loader = DataLoader(data, batch_sampler=BatchSampler(RandomSampler(data), 8, False))
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for place, (rows, labels) in enumerate(loader, 1):
        F.cross_entropy(model(rows), labels).backward()
        if place % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
        if place == 20:
            with torch.no_grad():
                model(x)
""",
    )
    assert facts["loader"]["numbers"]["shuffled"] and "training sorted" not in facts
    assert facts["evaluations"]["text"] == "evaluated after steps 10"


def test_backward_passes_without_a_loader_are_no_batches(tmp_path):
    facts = facts_of(
        tmp_path,
        """
model = net()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=2)
def closure():
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x[:64]), y[:64])
    loss.backward()
    return loss
for step in range(12):
    optimizer.step(closure)
""",
    )
    assert facts["batch"]["text"].startswith("64 rows a batch, ")
    assert "= 128" not in facts["batch"]["text"]


SLOW = """
import time
class Slow(nn.Linear):
    calls = 0
    def forward(self, x):
        Slow.calls += 1
        time.sleep(FIRST if Slow.calls == 1 else EACH)
        return super().forward(x)
class SlowRows(Rows):
    reads = 0
    def __getitem__(self, place):
        SlowRows.reads += 1
        time.sleep(READ_FIRST if SlowRows.reads == 1 else READ)
        return super().__getitem__(place)
model = Slow(16, 4)
fit(model, DataLoader(SlowRows(x[:ROWS], y[:ROWS]), 4, shuffle=True), epochs=64 // ROWS, after=lambda model: time.sleep(0.03))
LAST
"""


def time_of(report):
    return next(one["text"] for one in report["facts"] if one["about"] == "time")


@pytest.mark.parametrize(
    "slow, waits, inside",
    [
        ({"FIRST": 2}, (0, 0.25), (0, 0.25)),  # as a card that starts
        ({"EACH": 0.3}, (0, 0.25), (0.5, 0.95)),
        ({"READ_FIRST": 2}, (0, 0.25), (0, 0.25)),
        ({"READ": 0.06, "ROWS": 4}, (0.5, 0.95), (0, 0.25)),  # each batch is the first of an epoch
        ({"LAST": "time.sleep = lambda s, sleep=time.sleep: sleep(9 * s)\nfor _ in range(8): model(x)", "EACH": 0.01}, (0, 0.25), (0.05, 0.45)),
    ],
)  # fmt: skip
def test_waiting_and_the_model_are_timed_over_the_steps_of_the_clock(slow, waits, inside, tmp_path):
    usual = {"READ_FIRST": 0, "FIRST": 0, "EACH": 0, "READ": 0, "ROWS": 32, "LAST": ""}
    text = SLOW
    for name, value in usual.items():
        text = text.replace(name, str(slow.get(name, value)))
    report, _ = probed(tmp_path, text)
    told = time_of(report)
    waiting, forward = (
        float(re.search(r"([\d.e-]+)% " + what, told)[1]) / 100
        for what in ("of it waiting", "in the")
    )
    assert waits[0] <= waiting <= waits[1] and inside[0] <= forward <= inside[1], told
    seconds = [seconds for _, seconds in report["series"]["seconds"]]
    each = dict(report["series"]["modules"])["Slow"]
    assert each / (sum(seconds) / len(seconds)) == pytest.approx(forward, abs=0.01)


def test_optimizers_that_take_turns_make_one_step_together(tmp_path):
    report, _ = probed(
        tmp_path,
        """
import time
one, two = net(), net()
optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (one, two)]
for step in range(12):
    time.sleep(0.05)
    for model, optimizer in zip((one, two), optimizers):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
""",
    )
    assert report["steps"] == 12 and len(report["series"]["seconds"]) == 11
    assert float(time_of(report).split()[0]) >= 0.05


# Facts and findings as dense as they come: names, numbers and signs, beside each other and in many.
DENSE = "layers.11.self_attn.q_proj.weight (bf16) -0.0172 to 4.1e-07; [16, 4096], 表 12"


def full_report(findings, facts):
    """A report with that many findings and facts, all of them long."""
    kinds = sorted(probe.KINDS)[:findings]
    found = [
        dict(probe.finding(kind, 12, f"{DENSE} {DENSE}"), rank=0, ranks=list(range(512)))
        | {"check": f"Run `{DENSE}`. Then look. " + DENSE * 4, "fix": f"Do this. {DENSE}. " * 6}
        for kind in kinds
    ]
    why = {"state": "not looked at", "why": DENSE}
    told = [
        probe.fact(f"{probe.TOPICS[i % 6]}/{i}", f"{i} {DENSE} {DENSE}", "even" * (i % 4 == 0))
        for i in range(facts)
    ]
    process = {"rank": 0, "pid": 1, "steps": 30, "torch": "2", "python": "3"}
    return {
        "verdict": "wrong", "steps": 30, "processes": [process] * 2, "findings": found,
        "observations": dict.fromkeys(probe.OBSERVATIONS, why), "facts": told,
    }  # fmt: skip


PAGES = [(0, 0), (0, 60), (1, 0), (1, 60), (3, 20), (12, 60), (40, 60)]


def test_findings_and_facts_together_keep_to_the_tokens_of_a_page():
    pages = [probe.shown(full_report(*sizes)) for sizes in PAGES]
    pages += [probe.shown(full_report(*sizes), full_report(2, 0)) for sizes in PAGES]
    assert max(map(tokens, pages)) <= probe.MOST_PAGE == 600, max(pages, key=tokens)
    assert min(tokens(page) for page in pages[-2:]) > 400, "and they use them"
    assert max(counted(pages)) <= 600


def test_a_page_says_what_it_leaves_out():
    report = full_report(12, 60)
    page = probe.shown(report)
    heads = sum(f" [{one['id']}]\n" in page for one in report["findings"])
    more = int(re.search(r"\((\d+) more found: [^)]*, in --json\)", page)[1])
    assert heads >= 1 and more == 12 - page.count("    seen: ")
    assert "why: see --json" in page and "ranks" in page
    odd, plain = re.search(r"! (\d+) more differ", page), re.search(r"\((\d+) more facts: ", page)
    kept = len(re.findall(r"^! .*usual: even", page, re.M))
    assert int(odd[1]) + kept == 15 and int(plain[1]) <= 45
    text = probe.page(report | {"program": "", "date": "", "series": {}})
    assert all(f"{i} {DENSE}" in text.replace("&#39;", "'") for i in range(60)), "HTML has all"
    page = probe.shown(full_report(0, 60), full_report(0, 0))
    kept = page.count("    there: ")
    assert f"{60 - kept} more differ, see both --json: " in page


def test_a_page_cuts_no_command_and_no_sentence():
    text = "Say it. Run `a. b` twice. Look."
    kept = [probe.whole_sentences(text, most) for most in range(40)]
    assert set(kept) == {"", "Say it.", "Say it. Run `a. b` twice.", text}


def test_the_probe_counts_tokens_as_a_look_up_does():
    for text in (DENSE, "", "Plain words, internationalization.", PROBE.read_text()[:20_000]):
        assert probe.tokens(text) == pytest.approx(tokens(text))


def test_types_of_weights_and_outputs_are_told_by_layer_where_they_differ(tmp_path):
    facts = facts_of(
        tmp_path,
        """
class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(16, 32).bfloat16(), nn.LayerNorm(32), nn.Linear(32, 4)
    def forward(self, x):
        return self.last(self.norm(self.first(x.bfloat16()).float()))
fit(Mixed(), DataLoader(Rows(x, y), 32, shuffle=True))
""",
    )
    told = facts["types of weights"]
    assert told["numbers"]["float32"] == ["Linear (bias, weight)", "LayerNorm"], told
    assert (
        told["numbers"]["bfloat16"] == ["Linear (bias, weight)"] and "bfloat16 of" in told["text"]
    )
    assert "types of outputs" not in facts  # of the types that the weights have
    facts = facts_of(
        tmp_path,
        """
class Cast(nn.Sequential):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().forward(x).float()
fit(Cast(*net()), DataLoader(Rows(x, y), 32, shuffle=True))
""",
    )
    assert facts["types of outputs"]["numbers"] == {"bfloat16": ["Linear", "GELU"]}
    assert facts["types"]["text"].endswith("under autocast") and "types of weights" not in facts


@pytest.mark.parametrize(
    "how, graphs",
    [
        ("torch.compile(model, HOW)", "1 graph"),
        ("model.compile(HOW) or model", "0 graphs"),  # of a Sequential, without the probe too
    ],
)
def test_the_compiler_in_force_is_told_with_its_graphs(how, graphs, tmp_path):
    how = how.replace("HOW", "backend='aot_eager', dynamic=True")
    program = f"model = net()\nfit({how}, DataLoader(Rows(x, y), 32, shuffle=True), epochs=1)"
    report, _ = probed(tmp_path, program)
    facts = {one["name"]: one["text"] for one in report["facts"]}
    assert facts["compile"] == "torch.compile: backend aot_eager, dynamic True; " + graphs
    assert "forward" not in facts["step"], "modules of compiled code aren't timed"


def test_the_backend_of_attention_is_told_where_no_configuration_names_it(tmp_path):
    facts = facts_of(
        tmp_path,
        """
class Attending(nn.Sequential):
    def forward(self, x):
        x = x[:, None].expand(-1, 4, -1)
        return super().forward(F.scaled_dot_product_attention(x, x, x)[:, 0])
fit(Attending(*net()), DataLoader(Rows(x, y), 32, shuffle=True))
""",
    )
    assert facts["attention"]["text"] == "attention: scaled_dot_product_attention"


def compared_runs(folder, text, *changes, python=(sys.executable, sys.executable)):
    """What the second of two runs says beside the first. A change is made between them."""
    module("torch", "pip install -e '.[proofs]'")
    folder.mkdir(exist_ok=True)
    for run, who in enumerate(python):
        if run:
            for change in changes:
                change()
        options = ("--compare", "good.json") if run else ("--json", "good.json")
        (folder / "train.py").write_text(HEAD + text) if not run else None
        done = subprocess.run(
            [who, str(PROBE), *options, "--", "train.py"],
            cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True,
            text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    return done.stderr[done.stderr.index("probe: ") :].splitlines()


def test_two_versions_of_a_library_are_compared_by_name(tmp_path):
    """The libraries of a year ago, with the same torch: evals/proofs/older.txt."""
    text = "import accelerate\nfit(net(), DataLoader(Rows(x, y), 32, shuffle=True))"
    lines = compared_runs(tmp_path, text, python=(older_python(), sys.executable))
    place = next(i for i, line in enumerate(lines) if line.startswith("in force, versions: "))
    mine, theirs = (
        dict(told.split(" ") for told in line.split(": ", 1)[1].split(", ") if told.count(" ") == 1)
        for line in lines[place : place + 2]
    )
    assert theirs["accelerate"].startswith("1.12.") and mine["accelerate"] != theirs["accelerate"]
    assert "torch" not in mine and "Python" not in mine, "what is equal isn't told"


def test_two_commits_of_a_program_are_compared_by_name(tmp_path):
    folder = tmp_path / "code"
    folder.mkdir()
    user = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")

    def git(*words):
        done = subprocess.run(
            ["git", "-C", folder, *user, *words], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    text = "fit(net(), DataLoader(Rows(x, y), 32, shuffle=True))\n"
    git("init", "-q")
    (folder / "train.py").write_text(HEAD + text)
    git("add", "train.py")
    git("commit", "-qm", "one")
    first = git("rev-parse", "HEAD")[:10]
    lines = compared_runs(folder, text)
    assert not [line for line in lines if "commit" in line], "nothing differs"

    def change():
        (folder / "train.py").write_text(HEAD + text + "# another\n")

    def commit():
        change()
        git("commit", "-qam", "two")

    index = (folder / ".git/index").read_bytes()
    lines = compared_runs(folder, text, change)
    place = next(i for i, line in enumerate(lines) if line.startswith("in force, commit: "))
    assert f"commit {first} of the program's folder, 1 file changed since (changes " in lines[place]
    assert (
        f"there: commit {first} of the program's folder, no file of it changed" in lines[place + 1]
    )
    assert (folder / ".git/index").read_bytes() == index, "git only read"
    lines = compared_runs(folder, text, commit)
    place = next(i for i, line in enumerate(lines) if line.startswith("in force, commit: "))
    assert git("rev-parse", "HEAD")[:10] in lines[place] and first in lines[place + 1]


def test_a_program_that_git_does_not_know_is_told_as_such(tmp_path, monkeypatch):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    assert probe.of_code(["python", "train.py"]) == [], "no commit yet"
    (tmp_path / "other.txt").write_text("")
    user = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    for words in (("add", "other.txt"), ("commit", "-qm", "one")):
        subprocess.run(["git", *user, *words], check=True)
    (told,) = probe.of_code(["torchrun", "train.py", "--x"])
    assert told["text"].endswith("no file of it changed since; the program's own file isn't in it")
    monkeypatch.setenv("PATH", "")
    assert probe.of_code(["python", "train.py"]) == [], "without git nothing is told"
