"""The probe leaves a program as it is: its end, its weights, its random numbers; and reports what it saw."""

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest
from generated_docs import box_programs
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.probe import read_only

from tests.conftest import ROOT, module
from tests.programs import loaded

PROBE = ROOT / "scripts/probe.py"
PARTS = ROOT / "server/remote_gpu_trainer/probe"
probe = loaded(PROBE)

TRAINING = """
import hashlib, os, random, sys
import torch
from torch import nn

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, i):
        return torch.full((4,), i / 64) + 0.1 * torch.rand(4) + random.random(), i % 3

def train(model, epochs, context=None):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader = torch.utils.data.DataLoader(
        Data(), batch_size=8, shuffle=True, num_workers=2 if context else 0, multiprocessing_context=context)
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

def told(model):
    state = b"".join(value.numpy().tobytes() for value in model.state_dict().values())
    return hashlib.sha256(state).hexdigest()

def build():
    torch.manual_seed(0)
    random.seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
"""
ALL_AT_ONCE = (
    TRAINING
    + """
from torch.nn.modules import module
from torch.optim import optimizer

if __name__ == "__main__":
    model = build()
    sys.argv = ["renamed.py", "other"]
    for context in (None, "fork", "spawn"):
        train(model, 1, context)
        print(context, told(model), torch.rand(1).item(), random.random())
    print(sys.argv, sys.path, getattr(sys, "from_site", None))
    print([len(hooks) for hooks in (
        module._global_forward_hooks, module._global_forward_pre_hooks,
        optimizer._global_optimizer_pre_hooks, optimizer._global_optimizer_post_hooks)])
    print([hasattr(f, "__wrapped__") for f in (
        nn.functional.relu, nn.functional.cross_entropy, torch.Tensor.backward, torch.save)])
    raise RuntimeError("the end of this program")
"""
)
COMPILED = (
    TRAINING
    + """
model = build()
model.compile(backend="aot_eager")
train(model, 2)
print(told(model), torch.rand(1).item())
"""
)
PICKLED = (
    TRAINING
    + """
import inspect, io, pickle
held = nn.functional.relu
model = nn.Sequential(nn.TransformerEncoderLayer(4, 2, 8), nn.Linear(4, 3))
for epochs in (0, 2, 6):
    train(model, epochs)
    torch.save(model, io.BytesIO())
    print([pickle.loads(pickle.dumps(one)) is nn.functional.relu for one in (held, nn.functional.relu)])
    print(inspect.signature(held), len(inspect.getsource(held)), held.__name__, held.__defaults__)
"""
)


def run(folder, text, *options, with_probe=True, **environment):
    """A program's (exit code, standard output), and the probe's report."""
    (folder / "program.py").write_text(text)
    command = [sys.executable, folder / "program.py"]
    if with_probe:
        json_file = folder / "report.json"
        command[1:1] = [PROBE, "--json", json_file, *options, "--"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=dict(os.environ, OMP_NUM_THREADS="1", **environment),
        cwd=folder,
        timeout=300,
    )
    report = json.loads(json_file.read_text()) if with_probe else None
    return (done.returncode, done.stdout), report, done.stderr


def torch_is_there():
    module("torch", "pip install -e '.[proofs]'")


def test_the_one_file_is_what_the_parts_make():
    assert box_programs.generated(ROOT, "scripts/probe.py") == PROBE.read_text(encoding="utf-8")


def test_each_part_is_python_3_8_and_imports_the_standard_library_alone():
    for path in [PROBE, *PARTS.glob("*.py")]:
        tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
        for node in tree.body:  # torch is imported within functions, once the program has it
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names.append(node.module)
            assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names, path


def test_no_name_is_defined_in_two_parts():
    names = []
    for path in PARTS.glob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names.append(node.name)
            for target in getattr(node, "targets", []):
                parts = target.elts if isinstance(target, ast.Tuple) else [target]
                names += [one.id for one in parts]
    assert len(names) > 60
    assert sorted(names) == sorted(set(names))


def test_each_kind_of_finding_names_an_entry_and_belongs_to_one_observation():
    catalogue = bundle.load()
    assert all(catalogue.get(kind[0]) for kind in probe.KINDS.values())
    placed = [kind for kinds in probe.OBSERVATIONS.values() for kind in kinds]
    assert len(placed) == len(set(placed))
    assert set(placed) == set(probe.KINDS)
    assert set(probe.ADVICE) <= set(probe.KINDS)


def test_a_program_ends_with_the_same_weights_output_and_code(tmp_path):
    torch_is_there()
    (tmp_path / "own").mkdir()
    (tmp_path / "own/sitecustomize.py").write_text("import sys\nsys.from_site = 'still runs'\n")
    own = {"PYTHONPATH": str(tmp_path / "own")}
    without, _, _ = run(tmp_path, ALL_AT_ONCE, with_probe=False, **own)
    probed, report, errors = run(tmp_path, ALL_AT_ONCE, "--steps", "20", **own)
    assert probed == without
    assert without[0] == 1 and "still runs" in without[1]
    assert "RuntimeError: the end of this program" in errors
    assert report["exit"] == 1 and report["steps"] == 20 and len(report["processes"]) == 1


def test_it_enters_where_a_library_asked_for_torch_before_the_import(tmp_path):
    torch_is_there()
    asked = "import importlib.util\nassert importlib.util.find_spec('torch')\n"
    alone, _, _ = run(tmp_path, asked + ALL_AT_ONCE, with_probe=False)
    watched, report, errors = run(tmp_path, asked + ALL_AT_ONCE, "--steps", "10")
    assert (watched, report["steps"]) == (alone, 10), errors


def test_a_program_saves_whole_models_that_hold_functions_of_torch(tmp_path):
    torch_is_there()
    alone, _, errors = run(tmp_path, PICKLED, with_probe=False)
    assert (alone[0], alone[1].count("[True, True]")) == (0, 3), errors
    watched, report, errors = run(tmp_path, PICKLED, "--steps", "10")
    assert (watched, report["steps"]) == (alone, 10), errors


def test_a_compiled_program_ends_with_the_same_weights_and_isnt_looked_into(tmp_path):
    torch_is_there()
    without, _, _ = run(tmp_path, COMPILED, with_probe=False)
    probed, report, _ = run(tmp_path, COMPILED)
    assert probed == without and without[0] == 0
    assert report["observations"]["activations"]["state"] == "not looked at"
    assert "torch.compile" in report["observations"]["activations"]["why"]
    assert report["observations"]["parameters"]["state"] == "sound"


BUILTINS = (
    TRAINING
    + """
import copy, io
class Holds(nn.Module):
    def __init__(self):
        super().__init__()
        self.own, self.best, self.attend = build(), torch.argmax, nn.functional.scaled_dot_product_attention
    def forward(self, x):
        self.best(x, 1)
        return self.own(x)
model = Holds()
for epochs in (0, 2, 6):
    train(model, epochs)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (torch.load(file, weights_only=False), copy.deepcopy(model)):
        query = torch.ones(1, 2, 4)
        print(told(other), other.best(torch.tensor([1, 3])), other.attend(query, query, query).sum())
"""
)


def test_a_program_saves_whole_models_that_hold_builtin_functions(tmp_path):
    torch_is_there()
    alone, _, errors = run(tmp_path, BUILTINS, with_probe=False)
    assert alone[0] == 0, errors
    watched, report, errors = run(tmp_path, BUILTINS, "--steps", "10")
    assert (watched, report["steps"]) == (alone, 10), errors


# A card refuses to read a value while a graph is captured. Here the reads are counted instead.
CAPTURED = (
    TRAINING
    + """
capturing, reads = [False], []
torch.cuda.is_initialized = lambda: True
torch.cuda.is_current_stream_capturing = lambda: capturing[0]
for name in ("item", "tolist", "__bool__", "__float__", "__int__", "cpu"):
    def counted(self, *args, _read=getattr(torch.Tensor, name), **kwargs):
        reads.extend([name] * capturing[0])
        return _read(self, *args, **kwargs)
    setattr(torch.Tensor, name, counted)

model = build()
train(model, 1)
try:
    torch.cuda.CUDAGraph.capture_begin(None)  # without a card it only raises
except Exception:
    pass
capturing[0] = True
loss = nn.functional.cross_entropy(model(torch.rand(8, 4)), torch.zeros(8, dtype=torch.long))
loss.backward()
capturing[0] = False
print(f"{len(reads)} reads")
train(model, 1)
"""
)


def test_nothing_is_read_while_a_cuda_graph_is_captured(tmp_path):
    torch_is_there()
    ended, report, stderr = run(tmp_path, CAPTURED)
    assert ended == (0, "0 reads\n"), stderr
    assert "CUDA graph" in report["observations"]["activations"]["why"]
    assert report["observations"]["parameters"]["state"] == "sound"


def test_a_program_that_ends_at_once_leaves_what_was_seen_before(tmp_path):
    torch_is_there()
    probed, report, _ = run(tmp_path, TRAINING + "\ntrain(build(), 1)\nos._exit(5)\n")
    assert probed[0] == 5
    assert report["steps"] == 8 and report["verdict"] == "sound"


def test_a_look_that_fails_ends_that_look_alone(tmp_path):
    torch_is_there()
    text = (
        TRAINING + "\ntorch.Tensor.new_name = torch.Tensor.isfinite\ntorch.Tensor.isfinite = None\n"
    )
    probed, report, _ = run(tmp_path, text + "train(build(), 1)\nprint('done')\n")
    assert probed == (0, "done\n")
    looked = report["observations"]
    assert looked["parameters"]["state"] == "not looked at"
    assert "TypeError" in looked["parameters"]["why"]
    assert looked["batches"]["state"] == "sound"


def test_a_program_that_a_signal_ends_shows_that_signal(tmp_path):
    text = "import os\nos.kill(os.getpid(), {})\n"
    for number in (signal.SIGKILL, signal.SIGTERM):
        probed, report, errors = run(tmp_path, text.format(int(number)))
        assert probed[0] == -number
        assert report["verdict"] == "not looked at" and report["exit"] == -number
        assert "probe: not looked at (0 steps of 0 processes looked at)" in errors


# What breaks in the probe


def in_a_folder(folder, *reports):
    """Write the reports of processes as the probe does."""
    for one in reports:
        (folder / "rank-{}-{}.json".format(one["rank"], one["pid"])).write_text(json.dumps(one))


def broken(*args, **kwargs):
    raise ZeroDivisionError("broken on purpose")


PARTS_OF_A_REPORT = [
    "is_report",
    "merged",
    "same_random_numbers",
    "same_batches",
    "same_files",
    "drifting",
    "compared",
    "state_of_part",
    "advise",
    "advice",
    "catalogue",
    "first_of",
    "place_of",
    "shown",
    "plainly",
    "as_json",
    "page",
    "draw_charts",
    "complain",
]


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("part", PARTS_OF_A_REPORT)
def test_whatever_breaks_in_the_report_the_findings_and_the_code_stay(
    part, ranks, tmp_path, monkeypatch, capsys
):
    same = {"batches": [1, 2, 3], "spread": True, "saved": [7], "host": 1, "weights": {"2": 5}}
    reports = [report_of(rank, "softmax twice") | same for rank in range(ranks)]
    monkeypatch.setattr(
        probe, "run", lambda program, folder, steps: in_a_folder(Path(folder), *reports) or 7
    )
    if part != "complain":
        monkeypatch.setattr(probe, part, broken)
    else:
        monkeypatch.setattr(probe, "same_files", broken)
        monkeypatch.setattr(probe.sys, "stderr", None)
    for files in ([], ["--json", tmp_path / "a.json", "--page", tmp_path / "a.html"]):
        assert probe.main([*map(str, files), "--", sys.executable]) == 7
        told = capsys.readouterr().err
        assert part == "complain" or "O12" in told, told
    if part != "as_json":
        assert "O12" in (tmp_path / "a.json").read_text()
    if part not in ("page", "draw_charts"):
        assert "O12" in (tmp_path / "a.html").read_text()
    probe.sys.stderr = sys.__stderr__


def test_a_report_that_another_program_wrote_is_left_out(tmp_path, capsys):
    in_a_folder(tmp_path, report_of(0, "softmax twice"))
    for place, text in enumerate(["{", "[]", "{}", '{"rank": "0"}', "\x00"]):
        (tmp_path / f"rank-9-{place}.json").write_text(text)
    told = probe.report_of(str(tmp_path), 0)
    assert [one["id"] for one in told["findings"]] == ["O12"] and len(told["processes"]) == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_takes_the_files_and_nothing_else(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        probe,
        "run",
        lambda program, folder, steps: (
            in_a_folder(Path(folder), report_of(0, "softmax twice")) or 7
        ),
    )
    full = ["--json", "/dev/full", "--page", "/dev/full"]
    assert probe.main([*full, "--", sys.executable]) == 7
    told = capsys.readouterr().err
    assert told.count("/dev/full can't be written (No space left on device)") == 2
    assert "[O12]" in told


def test_a_program_runs_where_the_probe_finds_no_room(tmp_path, monkeypatch, capfd):
    (tmp_path / "program.py").write_text("print('ran')\nraise SystemExit(4)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(probe.signal, "signal", lambda *args: None)

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    for owner, name in ((probe.tempfile, "mkdtemp"), (probe, "prepare")):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, full)
            assert probe.main(["--json", "a.json", "--", "program.py"]) == 4
        out, errors = capfd.readouterr()
        assert out == "ran\n" and "probe: not looked at" in errors
        assert json.loads((tmp_path / "a.json").read_text())["verdict"] == "not looked at"


BREAK_PARTS = (
    TRAINING.replace("nn.Linear(16, 3))", "nn.Linear(16, 3), nn.Softmax(1))")
    + """
import importlib.util, json, pathlib, sys, tempfile
spec = importlib.util.spec_from_file_location("_rgt_probe", PROBE)
probe = importlib.util.module_from_spec(spec)
spec.loader.exec_module(probe)
folder = pathlib.Path(tempfile.mkdtemp())
watch = probe.Watch(str(folder), 30, probe.CLASSES)
probe.attach(watch, torch)
train(build(), 1)

def broken(*args, **kwargs):
    raise ZeroDivisionError("broken on purpose")

def told(owner, name, function=broken):
    kept = getattr(owner, name)
    setattr(owner, name, function)
    watch.failed.clear()
    for path in folder.glob("*"):
        path.unlink()
    try:
        watch.write(last=True)
        report = probe.report_of(str(folder), 0)
        print(json.dumps([getattr(owner, "__name__", "?"), getattr(owner, "name", ""), name, report["verdict"], report["observations"]]))
    finally:
        setattr(owner, name, kept)

for cls in probe.CLASSES:
    for name in ("findings", "unseen", "partly", "told"):
        if hasattr(cls, name):
            told(cls, name)
for name in ("names", "models", "rank"):
    told(probe.Watch, name)
print("---")
def full(*args):
    raise OSError(28, "No space left on device")
told(probe.os, "replace", full)
watch.failed.clear()
probe.Series.entered = probe.Watch.add_model = broken
train(build(), 1)
print("trained")
"""
)


def test_a_part_of_a_process_that_breaks_costs_the_others_nothing(tmp_path):
    torch_is_there()
    text = BREAK_PARTS.replace("PROBE)", repr(str(PROBE)) + ")")
    done, _, errors = run(tmp_path, text, with_probe=False)
    assert done[0] == 0, errors
    lines, last = done[1].split("---\n")
    told = [json.loads(line) for line in lines.splitlines()]
    assert len(told) > 30 and last.endswith("trained\n")
    for owner, part, name, verdict, looked in told:
        missing = [
            n for n, state in looked.items() if "ZeroDivisionError" in (state.get("why") or "")
        ]
        if name == "rank":
            assert verdict == "not looked at"
        elif owner == "Watch":
            assert verdict == "wrong" and "losses" not in missing, (name, looked)
        elif (part, name) == ("losses", "findings"):
            assert missing == ["losses"]
        else:
            assert verdict == "wrong" and set(missing) <= {part}, (part, name, looked)
    assert "can't be written (No space left on device); seen so far" in errors
    assert "wrong [O12] the loss gets probabilities" in errors


# Several ranks

DRIFT = """
import os, torch
from torch import nn
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
torch.manual_seed(rank)
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    optimizer.zero_grad()
    CALL(torch.rand(8, 4)).square().mean().backward()
    optimizer.step()
torch.distributed.destroy_process_group()
raise SystemExit(3)
"""


def on_two_ranks(folder: Path, program: str, code: int) -> dict:
    """What the probe tells of a program that torchrun starts twice."""
    (folder / "train.py").write_text(program)
    torchrun = "torchrun --standalone --local-addr=127.0.0.1 --nproc-per-node=2 train.py"
    done = subprocess.run(
        [sys.executable, PROBE, "--json", "told.json", "--page", "told.html", "--", *torchrun.split()],
        capture_output=True, text=True, cwd=folder, timeout=300,
        env=os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return json.loads((folder / "told.json").read_text())


@pytest.mark.parametrize("call, ids, state", [("model", [], "sound"), ("model.module", ["D38"], "found")])  # fmt: skip
def test_the_weights_of_ranks_are_compared(call, ids, state, tmp_path):
    torch_is_there()
    told = on_two_ranks(tmp_path, DRIFT.replace("CALL", call), code=1)  # torchrun's own
    assert [one["id"] for one in told["findings"]] == ids
    assert told["observations"]["ranks"]["state"] == state, told["observations"]
    assert "train.py" in (tmp_path / "told.html").read_text()


STREAM = """
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()

class Stream(IterableDataset):
    seeds = torch.Generator().manual_seed(rank)

    def __iter__(self):
        mine = range(600) if SHARED else range(300 * rank, 300 * rank + 300)
        order = torch.randperm(len(mine), generator=self.seeds)
        for i in order.tolist():
            yield torch.sin(torch.arange(16) * (mine[i] + 1) * 0.37), torch.ones(16)

torch.manual_seed(0)
model = nn.Sequential(nn.parallel.DistributedDataParallel(nn.Linear(16, 16)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(6):
    for x, ones in DataLoader(Stream(), batch_size=40):
        optimizer.zero_grad()
        (model(x) - x.roll(1, 1) * ones).square().mean().backward()
        optimizer.step()
torch.distributed.destroy_process_group()
"""


@pytest.mark.parametrize("shared, ids", [("True", ["DP2"]), ("False", [])])
def test_rows_that_all_ranks_read_in_their_own_order_are_a_hint(shared, ids, tmp_path):
    torch_is_there()
    told = on_two_ranks(tmp_path, STREAM.replace("SHARED", shared), code=0)
    assert [one["id"] for one in told["findings"]] == ids
    assert told["verdict"] == ("suspicious" if ids else "sound")
    assert "2 ranks, DistributedDataParallel" in [fact["text"] for fact in told["facts"]]
    if ids:
        assert "100% were trained on by another rank too" in told["findings"][0]["evidence"]


def test_rows_are_told_apart_by_all_tensors_of_their_batch():
    torch_is_there()
    import torch

    images, labels = torch.rand(6, 3, 16, 16), torch.arange(6)
    prints = probe.row_prints([images, labels])
    assert len(set(prints)) == 6
    assert probe.row_prints([images, labels + 1]) != prints
    assert probe.row_prints([images[2:], labels[2:]]) == prints[2:]
    assert probe.row_prints([images.to(torch.bfloat16), labels > 2])
    assert probe.row_prints([labels]) == probe.row_prints([images[:0]]) == []
    quantized = torch.quantize_per_tensor(torch.randn(4, 9), 0.1, 0, torch.quint8)
    assert probe.row_prints([quantized]) == []  # torch 2.13 crashes where its bytes are read


@pytest.mark.parametrize(
    "rows, hints",
    [
        ([range(300), range(300)], 1),
        ([range(300), range(200, 500)], 0),
        ([range(60), range(60)], 0),
        ([range(300), []], 0),
    ],
)
def test_ranks_that_read_mostly_the_same_rows_get_a_hint(rows, hints):
    reports = [report_of(rank, rows=[*some], spread=True) for rank, some in enumerate(rows)]
    assert [one["level"] for one in probe.merged(reports, [], 0)["findings"]] == ["hint"] * hints
    alone = [report_of(rank, rows=[*some]) for rank, some in enumerate(rows)]
    assert not probe.merged(alone, [], 0)["findings"]


def pass_of(batches, epochs=1):
    """The rows that count, of batches with these hashes of rows."""
    parts = {"ranks": types.SimpleNamespace(has_replicas=True)}
    part = probe.Batches(types.SimpleNamespace(parts=parts))
    part.last = types.SimpleNamespace(epochs=[[]] * epochs)
    for rows in batches:
        part.last_rows = list(rows)
        part.see_rows()
    return part.told()["rows"]


def test_rows_count_until_one_comes_again_or_an_epoch_is_over():
    assert pass_of([range(20), range(20, 40), range(40, 60), range(30, 50)]) == [*range(60)]
    assert pass_of([range(80), range(80), range(80)]) == [], "a table that comes with every batch"
    assert pass_of([range(20), range(20, 40), range(40, 60)], epochs=2) == []


def test_ranks_are_sound_only_where_their_weights_were_compared():
    def state(*weights):
        reports = [dict(report_of(rank), weights=told) for rank, told in enumerate(weights)]
        return probe.merged(reports, [], 0)["observations"]["ranks"]

    assert state({"2": 5}) == {"state": "not looked at", "why": "one process"}
    assert state({"2": 5}, {"4": 5})["why"] == "the weights of the ranks weren't compared"
    assert state({}, {})["state"] == "not looked at"
    assert state({"2": 5}, {"2": 5}) == {"state": "sound"}
    assert state({"2": 5}, {"2": 6}) == {"state": "found"}


@pytest.mark.parametrize(
    "weights, hosts, levels",
    [
        ([5, 6], [1, 1], ["wrong"]),
        ([5, 5], [1, 1], []),
        ([5, 6], [1, 2], ["hint"]),  # unlike machines may round in two ways
        ([5, 6, 6], [1, 1, 2], ["wrong"]),
    ],
)
def test_ranks_of_one_machine_with_other_weights_are_wrong(weights, hosts, levels):
    reports = [
        dict(report_of(rank), weights={"2": told}, host=host)
        for rank, (told, host) in enumerate(zip(weights, hosts, strict=True))
    ]
    found = probe.merged(reports, [], 0)["findings"]
    assert [(one["id"], one["level"]) for one in found] == [("D38", level) for level in levels]


def test_a_part_that_saw_nothing_says_so_and_none_is_sound_beside_a_fault(tmp_path):
    torch_is_there()
    bare = """
import torch
weight = torch.nn.Parameter(torch.ones(4, 4))
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(STEPS):
    optimizer.zero_grad()
    (weight ** 2).sum().backward()
    optimizer.step()
"""
    _, report, errors = run(tmp_path, bare.replace("STEPS", "30"))
    looked = {name: state["state"] for name, state in report["observations"].items()}
    sound = {name for name, state in looked.items() if state == "sound"}
    assert sound == {"parameters", "gradients", "rates", "losses", "time and memory"}
    assert report["observations"]["ranks"]["why"] == "one process"
    assert errors.count("not looked at: ") == 1 and "batches (no batch of a DataLoader" in errors
    _, report, _ = run(tmp_path, bare.replace("STEPS", "1"))
    assert report["observations"]["parameters"]["state"] == "not looked at"
    every = [dict(report_of(r), saved=[7], host=1, batches=[1, 2, 3], spread=True) for r in (0, 1)]
    told = probe.merged(every, [], 0)
    for one in told["findings"]:
        mine = [name for name, kinds in probe.OBSERVATIONS.items() if one["kind"] in kinds]
        assert [told["observations"][name]["state"] for name in mine] == ["found"]


def test_wrong_usage_says_what_to_do(tmp_path):
    for words, told in (
        ([], "no program; give it after --"),
        (["--", "missing.py"], "missing.py: no such file or command"),
        (["--steps", "0", "--", "python"], "--steps must be 1 or more"),
    ):
        done = subprocess.run(
            [sys.executable, PROBE, *words], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 2 and told in done.stderr


def test_nothing_of_the_probe_stays_on_the_disk(tmp_path):
    run(tmp_path, "print('hello')", TMPDIR=str(tmp_path))
    assert not list(tmp_path.glob("rgt-probe-*"))
    shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
    assert {path.name for path in tmp_path.iterdir()} == {"program.py", "report.json"}


# Launchers

MODEL = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1))
rows, classes = torch.randn(320, 4), torch.randint(3, (320,))
"""
ACCELERATE = (
    MODEL
    + """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
data = torch.utils.data.TensorDataset(rows, classes)
loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x, y in loader:
    optimizer.zero_grad()
    accelerator.backward(nn.functional.cross_entropy(model(x), y))
    optimizer.step()
raise SystemExit(3)
"""
)
DEEPSPEED = (
    MODEL
    + """
import deepspeed
engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
    "train_micro_batch_size_per_gpu": 4, "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
    "zero_allow_untested_optimizer": True})
for x, y in zip(rows.split(4), classes.split(4)):
    engine.backward(nn.functional.cross_entropy(engine(x), y))
    engine.step()
"""
)
LAUNCHED = {
    "accelerate": (ACCELERATE, "-m accelerate.commands.launch --multi_gpu --num_processes=2 --main_process_port=0", 2, 1),
    "deepspeed": (DEEPSPEED, "-m deepspeed.launcher.runner --num_gpus=1", 1, 0),
}  # fmt: skip


@pytest.mark.parametrize("how", LAUNCHED)
def test_it_enters_each_process_that_a_launcher_starts(how, tmp_path):
    program, launcher, processes, code = LAUNCHED[how]
    module("deepspeed" if how == "deepspeed" else "accelerate", "pip install -e '.[proofs]'")
    (tmp_path / "train.py").write_text(program)
    cpu = {"ACCELERATE_USE_CPU": "true", "DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": "", "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}  # fmt: skip
    done = subprocess.run(
        [sys.executable, PROBE, "--json", "told.json", "--", sys.executable, *launcher.split(), "train.py"],
        capture_output=True, text=True, cwd=tmp_path, env=os.environ | cpu, timeout=300,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    told = json.loads((tmp_path / "told.json").read_text())
    assert [one["steps"] for one in told["processes"]] == [30] * processes
    assert [(one["id"], one["ranks"]) for one in told["findings"]] == [("O12", [*range(processes)])]


# What the parent makes of the reports of several processes


def report_of(rank, *kinds, batches=(), rows=(), spread=False):
    found = [dict(probe.finding(kind, 3, "seen"), rank=rank) for kind in kinds]
    looked = {name: {"state": "sound"} for name in probe.OBSERVATIONS}
    return {
        "rank": rank, "pid": rank, "steps": 30, "findings": found, "observations": looked,
        "torch": "2.13.0", "python": "3.11.7", "batches": list(batches), "rows": list(rows), "spread": spread,
    }  # fmt: skip


def test_findings_of_several_ranks_become_one_with_its_ranks():
    told = probe.merged([report_of(0, "no gradient"), report_of(1, "no gradient")], [], 0)
    assert [(one["id"], one["ranks"]) for one in told["findings"]] == [("O3", [0, 1])]
    assert told["verdict"] == "suspicious"
    assert told["observations"]["parameters"] == {"state": "found"}


@pytest.mark.parametrize(
    "kinds, verdict",
    [
        ((), "sound"),
        (("anomaly detection",), "sound"),  # a note, on speed
        (("anomaly detection", "no gradient"), "suspicious"),
        (("anomaly detection", "no gradient", "softmax twice"), "wrong"),
    ],
)
def test_the_worst_finding_gives_the_verdict_and_stands_first(kinds, verdict):
    told = probe.merged([report_of(0, *kinds)], [], 0)
    assert told["verdict"] == verdict
    assert [one["level"] for one in told["findings"]] == sorted(
        (one["level"] for one in told["findings"]), key=["wrong", "hint", "note"].index
    )


def test_ranks_with_the_same_batches_are_wrong_only_where_they_exchange_gradients():
    same = [report_of(rank, batches=[1, 2, 3, 4], spread=True) for rank in (0, 1)]
    told = probe.merged(same, [], 0)
    assert [(one["id"], one["level"]) for one in told["findings"]] == [("DP2", "wrong")]
    assert told["observations"]["ranks"] == {"state": "found"}
    assert told["findings"][0]["ranks"] == [0, 1]
    assert "DistributedSampler" in probe.ADVICE["ranks share data"]["fix"]
    other = [
        report_of(0, batches=[1, 2, 3], spread=True),
        report_of(1, batches=[4, 5, 6], spread=True),
    ]
    alone = [report_of(rank, batches=[1, 2, 3, 4]) for rank in (0, 1)]
    assert not probe.merged(other, [], 0)["findings"]
    assert not probe.merged(alone, [], 0)["findings"]


@pytest.mark.parametrize(
    "epochs, kinds",
    [
        ([[1, 2, 3], [1, 2, 3]], ["same order each epoch"]),
        ([[1, 2, 3], [2, 3, 1]], []),
        ([[7], [1, 2, 3], [2, 3, 1]], []),  # a look at one batch before the training
        ([[7], [1, 2, 3], [1, 2, 3], [1]], ["same order each epoch"]),
        ([[1, 2, 3], [7], [1, 2, 3]], []),  # not next to each other
        ([[1, 2, 3], [1, 2, 3], [3, 2, 1]], []),
        ([[5, 5, 5], [5, 5, 5]], []),  # batches that are all alike tell no order
    ],
)
def test_an_order_counts_as_repeated_only_from_one_whole_epoch_to_the_next(epochs, kinds):
    loader = types.SimpleNamespace(
        num_workers=0,
        persistent_workers=False,
        pin_memory=False,
        sampler=types.SimpleNamespace(shuffle=1),
    )
    held = probe.Loader(loader)
    held.epochs = epochs
    found = probe.Batches.of_order(None, held, 30)
    assert [one["kind"] for one in found] == kinds
    assert all(one["level"] == "wrong" for one in found)


def test_workers_share_random_numbers_only_where_they_used_them():
    def worker(number, before, after):
        rows = [{"dataset.rng": [before, after]}]
        return {"trainer": 1, "worker": number, "of": 2, "time": number, "rows": rows}

    def told(*workers):
        return [one["id"] for one in probe.merged([report_of(0)], list(workers), 0)["findings"]]

    assert told(worker(0, "a", "b"), worker(1, "a", "b")) == ["DP1"]
    assert told(worker(0, "a", "a"), worker(1, "a", "a")) == []
    assert told(worker(0, "a", "b"), worker(1, "c", "d")) == []
    seeded_for_each_sample = told(worker(0, "a", "b"), worker(1, "a", "c"))
    assert seeded_for_each_sample == []


def bursts(waits, workers, total):
    """The entries that waits for batches name, under a loader with so many workers."""
    loader = types.SimpleNamespace(waits=waits, workers=workers)
    return [one["id"] for one in probe.Resources.bursts(None, loader, total, 30)]


def test_every_nth_batch_is_slow_where_n_workers_load():
    waits = [0.001, 0.11, 0.002] * 10
    assert bursts(waits, 3, 3.0) == ["T7"]
    shifted = waits[:13] + [0.001] + waits[13:]
    assert bursts(shifted, 3, 3.0) == ["T7"]
    assert bursts([0.04] * 30, 3, 3.0) == []  # each batch is slow
    assert bursts(waits, 3, 30.0) == []  # a small share of the time
    assert bursts([0.001, 0.001, 0.002, 0.003] * 8, 4, 1.0) == []
    assert bursts([0.001] * 29 + [1.0], 3, 3.0) == []  # once


def test_a_file_from_two_ranks_of_one_machine_is_wrong():
    def told(*saved):
        reports = [
            dict(report_of(rank), saved=paths, host=host)
            for rank, (host, paths) in enumerate(saved)
        ]
        return [(one["id"], one["level"]) for one in probe.merged(reports, [], 0)["findings"]]

    assert told((1, [7, 8]), (1, [7])) == [("D23", "wrong")]
    assert told((1, [7]), (1, [8])) == []
    assert told((1, [7]), (2, [7])) == []  # each machine has a disk of its own


def test_a_checkpoint_has_the_number_in_its_name_or_in_its_folder():
    assert probe.numbered("/a/step_8.pt") == ("/a", "step_#.pt", [8])
    assert probe.numbered("/a/checkpoint-10/optimizer.pt") == ("/a", "checkpoint-#", [10])
    for path in (
        "/a/b/model.pt",
        "/a/b/rank-1.pt",
        "/a/b/model-00001-of-00002.pt",
        "/a/b/best_3.pt",
        "/a/b/model_2.pt",
        "/a/run_2/model.pt",
        "/a/b/step_8.pt.tmp",
    ):
        assert probe.numbered(path) is None


def test_a_loss_with_label_smoothing_is_looked_at(tmp_path):
    torch_is_there()
    text = TRAINING.replace(
        "cross_entropy(model(x), y)", "cross_entropy(model(x), y, label_smoothing=0.1)"
    )
    _, report, _ = run(tmp_path, text + "\ntrain(build(), 1)\n")
    assert report["observations"]["losses"] == {"state": "sound"}


def test_a_save_within_a_signal_handler_names_the_signal(tmp_path):
    torch_is_there()
    text = (
        TRAINING
        + """
import io, signal
def warned(number, frame):
    torch.save({}, io.BytesIO())
model = build()
train(model, 1)
HOW
train(model, 1)
"""
    )
    for how, ids in (
        ("signal.signal(signal.SIGUSR1, warned); os.kill(os.getpid(), signal.SIGUSR1)", ["SLURM1"]),
        ("signal.signal(signal.SIGUSR1, warned); warned(0, None)", []),
    ):
        _, report, _ = run(tmp_path, text.replace("HOW", how))
        assert [one["id"] for one in report["findings"]] == ids


def test_the_text_says_what_was_seen_what_would_be_well_and_what_to_do():
    text = probe.shown(probe.merged([report_of(0, "softmax twice")], [], 0))
    assert text.splitlines() == [
        "probe: wrong (30 steps of 1 process looked at)",
        "wrong step 3: the loss gets probabilities where it wants raw scores [O12]",
        "    seen: seen",
        "    if all were well: cross entropy gets the model's raw scores",
        "    do: drop the softmax or sigmoid at the end of the model while training",
        "not looked at: ranks (one process)",
    ]


HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


@pytest.mark.skipif(not all(map(Path.exists, HEADERS.values())), reason="needs linux-libc-dev")
def test_a_look_at_a_data_set_is_denied_the_same_calls_of_the_kernel_on_each_machine():
    names, denied = {}, {}
    for machine, header in HEADERS.items():
        found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\b", header.read_text())
        names[machine] = {int(number): name for name, number in found}
        table = read_only.MACHINES[machine]
        # A call that is newer than the headers has one number on all machines.
        denied[machine] = {names[machine].get(n, n if n > 423 else "") for n in table["denied"]}
        for name in table.keys() - {"denied", "audit"}:
            assert names[machine][table[name]] == name
    older = set(names["x86_64"].values()) - set(names["aarch64"].values())
    assert denied["x86_64"] - older == denied["aarch64"]
    assert {"rename", "unlink", "mkdir", "fork"} <= denied["x86_64"]
    assert {"kill", "execve", "socket", "unlinkat", "renameat", "ftruncate"} <= denied["aarch64"]
