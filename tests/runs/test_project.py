"""What a project's source says of its program, its saves and its options, written as a job."""

import ast
import os
import subprocess
import textwrap

import pytest
import yaml
from remote_gpu_trainer.cli.main import main
from remote_gpu_trainer.runs.job_reading import from_file, from_object
from remote_gpu_trainer.runs.project import options, sources
from remote_gpu_trainer.runs.project.drafting import Undrafted, draft

LOOP = """
import torch
model, opt = torch.nn.Linear(1, 1), None
for epoch in range(3):
    loss = model(torch.zeros(1)).sum()
    loss.backward()
    opt.step(); opt.zero_grad()
    SAVE
"""


@pytest.fixture
def project(tmp_path):
    """Write files into a folder: project({"train.py": text, ...})."""

    def write(files):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(textwrap.dedent(text))
        return tmp_path

    return write


def loop(save: str, before: str = "") -> str:
    return before + LOOP.replace("SAVE", save)


def checkpoint_of(folder) -> dict:
    return draft(folder).values().get("checkpoint", {})


SAVES = [
    # (what is above the loop, the call that saves, the folder, the pattern)
    ("", "torch.save(model, 'model.pt')", ".", "model.pt"),
    ("", "torch.save(model.state_dict(), f'out/step_{epoch:05d}.pt')", "out", "step_*.pt"),
    ("", "torch.save(model, 'out/%s_%d.pth' % ('a', epoch))", "out", "a_*.pth"),
    ("D = '.'\n", "torch.save(model, '%s/net_%d.pth' % (D, epoch))", ".", "net_*.pth"),
    ("D = 'out'\n", "torch.save(model, '{0}/{name}-{1:03d}.pth'.format(D, epoch, name='g'))", "out", "g-*.pth"),
    ("D = 'out'\n", "torch.save(model, '%(where)s/e%(at)03d.pth' % {'where': D, 'at': epoch})", "out", "e*.pth"),
    ("", "torch.save(model, '%s/net.pth' % unknown())", None, None),
    # the working folder: what is added to it without a slash lies beside it
    ("import os\n", "torch.save(model, os.getcwd() + '/ck/' + f'{epoch}.pt')", "ck", "*.pt"),
    ("import os\n", "torch.save(model, f'{os.getcwd()}/ck/{epoch}.pt')", "ck", "*.pt"),
    ("import os\n", "torch.save(model, os.path.join(os.getcwd(), 'ck', 'm.pt'))", "ck", "m.pt"),
    ("import os\nN = 'heat'\n", "torch.save(model, os.getcwd() + N + 'model.pt')", None, None),
    ("from pathlib import Path\n", "torch.save(model, str(Path.cwd()) + 'x.pt')", None, None),
    # what of several a loop goes through isn't known
    ("", "[torch.save(model, f'ck/net_{kind}.pt') for kind in KINDS]", "ck", "net_*.pt"),
    ("KINDS = ['a', 'b']\ndef put(m):\n    for kind in KINDS:\n        torch.save(m, f'ck/net_{kind}.pt')\n",
     "put(model)", "ck", "net_*.pt"),
    ("", "torch.save(model, './ck/{}.pth'.format(epoch))", "ck", "*.pth"),
    ("import os\nDIR = 'runs/a'\n", "torch.save(model, os.path.join(DIR, 'last.pt'))", "runs/a", "last.pt"),
    ("from pathlib import Path\nOUT = Path('out') / 'x'\n", "torch.save(model, OUT / f'{epoch}.pt')", "out/x", "*.pt"),
    ("from time import strftime\nD = 'logs/' + strftime('%Y')\n", "torch.save(model, D + '/m.pt')", "logs", "*/m.pt"),
    ("import argparse\np = argparse.ArgumentParser()\np.add_argument('--save-dir', default='sv')\nargs = p.parse_args()\n",
     "torch.save(model, f'{args.save_dir}/e{epoch}.ckpt')", "sv", "e*.ckpt"),
    ("def save(path, state):\n    torch.save(state, path)\n", "save(f'ck/{epoch}.pt', model)", "ck", "*.pt"),
    ("def put(*args, **kwargs):\n    torch.save(*args, **kwargs)\n", "put(model, 'ck/last.pt')", "ck", "last.pt"),
    # another name first, then the one that stays
    ("import os\n", "torch.save(model, 'out/new.tmp'); os.replace('out/new.tmp', f'out/step_{epoch:03d}.pt')",
     "out", "step_*.pt"),
    ("import os\nos.makedirs('ck')\n", "tmp = f'ck/{epoch}.pt.tmp'; torch.save(model, tmp); os.rename(tmp, f'ck/{epoch}.pt')",
     "ck", "*.pt"),
    ("import shutil\n", "torch.save(model, '/tmp/m'); shutil.move('/tmp/m', 'ck/last.pt')", "ck", "last.pt"),
    ("from pathlib import Path\n",
     "p = Path('ck') / f'{epoch}.pt'; t = p.with_suffix('.tmp'); torch.save(model, t); t.replace(p)", "ck", "*.pt"),
    ("import os\ndef put(what, path):\n    part = path + '.part'\n    torch.save(what, part)\n    os.replace(part, path)\n",
     "put(model, f'ck/{epoch}.pt')", "ck", "*.pt"),
    ("import os\ndef put(what, path):\n    with open(path + '.part', 'wb') as file:\n"
     "        torch.save(what, file)\n        os.fsync(file)\n    os.replace(path + '.part', path)\n",
     "put(model, f'ck/{epoch}.pt')", "ck", "*.pt"),
    ("from pathlib import Path\ndef put(what, path):\n    with path.open('wb') as file:\n        torch.save(what, file)\n",
     "put(model, Path('ck') / f'{epoch}.pt')", "ck", "*.pt"),
    # a counter of an object, a folder that a function or the program makes of its name
    ("class T:\n    def __init__(self):\n        self.n = 0\n    def save(self):\n"
     "        torch.save(1, f'ck/n_{self.n}.pt')\nt = T()\n", "t.n += 1; t.save()", "ck", "n_*.pt"),
    ("def put(what, folder):\n    folder = folder + f'/m_{what}'\n    torch.save(what, folder + '/g.pt')\n",
     "put(epoch, 'ck')", "ck", "m_*/g.pt"),
    ("import argparse\nfrom time import strftime\np = argparse.ArgumentParser()\np.add_argument('--run', default='sv')\n"
     "args = p.parse_args()\nargs.run = f'{args.run}-{strftime()}'\n",
     "torch.save(model, f'ck/{args.run}/{epoch}.pt')", "ck", "sv-*/*.pt"),
    # pickled: the file is opened first, or dump takes its name
    ("import pickle\ndef put(agent, path):\n    with open(path, 'wb') as file:\n        pickle.dump(agent, file)\n",
     "put(model, f'ck/{epoch}.pkl')", "ck", "*.pkl"),
    ("import pickle\n", "pickle.dump(model, open(f'ck/agent_{epoch}.pickle', 'wb'))", "ck", "agent_*.pickle"),
    ("import joblib\n", "joblib.dump(model, 'ck/model.joblib')", "ck", "model.joblib"),
    ("import pickle\nlosses = []\n", "pickle.dump(losses, open('ck/losses.pkl', 'wb'))", None, None),
    ("import json\n", "json.dump({'model': 1}, open('ck/model.pkl', 'w'))", None, None),
    # which of two functions of a name a call means isn't known
    ("class A:\n    def put(self, a, path):\n        torch.save(a, path + '/a.pt')\n"
     "class B:\n    def put(self, path, a):\n        torch.save(a, path)\nb = B()\n", "b.put('ck/x.pt', 'G')", None, None),
    ("paths = ['out/latest.pt']\n", "[torch.save(model, p) for p in paths]", None, None),
    ("", "torch.save(model, unknown())", None, None),
    ("import io\nbuffer = io.BytesIO()\n", "torch.save(model, buffer)", None, None),
    ("", "plt.save(f'images/{epoch}.png')", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("before", "save", "folder", "pattern"), SAVES)
def test_the_folder_and_the_names_of_checkpoints_are_read(project, before, save, folder, pattern):
    found = checkpoint_of(project({"train.py": loop(save, before)}))
    assert (found.get("folder"), found.get("pattern")) == (folder, pattern)


WRITER = """
import io, torch
class Slow(io.RawIOBase):
    def __init__(self, path):
        self.file = open(path, "wb")
    def write(self, data):
        return self.file.write(data)
def write(path, state):
    with io.BufferedWriter(Slow(path), 1 << 17) as file:
        torch.save(state, file)
"""


def test_a_function_that_gets_a_folder_and_joins_a_name_to_it_is_followed(project):
    """Through another file's function, a class of its own for open, and one that only writes."""
    saver = (
        "import os\n" + WRITER + "def save_checkpoint(folder, model, step):\n"
        "    write(os.path.join(folder, f'at{step}.pth'), model)\n"
    )
    before = (
        "import argparse\nfrom saver import save_checkpoint\np = argparse.ArgumentParser()\n"
        "p.add_argument('--out_dir', default='kept')\nargs = p.parse_args()\n"
    )
    program = loop("save_checkpoint(args.out_dir, model, epoch)", before)
    made = draft(project({"train.py": program, "saver.py": saver}))
    assert made.values()["checkpoint"] == {"folder": "kept", "pattern": "at*.pth"}
    assert not any(one.question for one in made.lines if one.field in ("checkpoint", "results"))


def test_a_function_of_a_folder_whose_file_is_not_told_has_that_folder_and_a_question(project):
    before = "def save_checkpoint(at, model):\n    torch.save(model, where(at, model))\n"
    made = draft(project({"train.py": loop("save_checkpoint('kept', model)", before)}))
    line = next(one for one in made.lines if one.field == "checkpoint")
    assert line.value["folder"] == "kept" and line.question


def test_each_call_of_a_function_that_saves_is_a_save(project):
    program = loop("write('out/last.pt', model)", "from saver import write\n")
    program += "write('out/final_state.pt', model)\n"
    made = draft(project({"train.py": program, "saver.py": WRITER}))
    assert made.values()["checkpoint"] == {"folder": "out", "pattern": "last.pt"}
    assert made.values()["results"] == ["out/final_state.pt"]


def test_a_call_of_a_function_that_saves_whose_path_is_not_told_is_a_question(project):
    program = loop(
        "write('out/last.pt', model); write(hidden(epoch), model)", "from saver import write\n"
    )
    made = draft(project({"train.py": program, "saver.py": WRITER}))
    line = next(one for one in made.lines if one.field == "checkpoint")
    assert line.value["folder"] == "out" and "may save elsewhere" in line.question


def test_what_lies_outside_the_folder_is_a_question_and_no_guess(project):
    save = "torch.save(model, os.getcwd() + 'heat' + 'model.pt')"
    more = "with open(os.getcwd() + '/data/output/r.txt', 'w') as f:\n    f.write('x')\n"
    made = draft(project({"train.py": loop(save, "import os\n") + more}))
    assert "checkpoint" not in made.values() and "results" not in made.values()
    line = next(one for one in made.lines if one.field == "checkpoint")
    assert "saves ../*heatmodel.pt" in line.question and "outside" in line.question
    assert "/data/output" not in made.as_yaml()  # below the folder, and no path of another machine


CONFIGURED = """
import argparse, os, torch
from pathlib import Path
from settings import read
def prepare(cfg, name):
    name = os.path.basename(name).split('.')[0]
    folder = Path(cfg.KEPT_DIR) / name
    return None, str(folder)
p = argparse.ArgumentParser()
p.add_argument('--cfg', default='conf/small.yaml')
args = p.parse_args()
cfg = read(args.cfg)
logger, folder = prepare(cfg, args.cfg)
"""


def test_a_folder_that_a_configuration_names_is_followed(project):
    program = loop("torch.save(model, os.path.join(folder, 'c.pth.tar'))", CONFIGURED)
    files = {"train.py": program, "conf/small.yaml": "KEPT_DIR: kept\n"}
    files["settings.py"] = "def read(path):\n    return load(path)\n"
    assert checkpoint_of(project(files)) == {"folder": "kept/small", "pattern": "c.pth.tar"}


def test_a_folder_that_is_put_into_the_settings_under_another_name_is_followed(project):
    made = (
        "import argparse, os\nfrom parts import run\np = argparse.ArgumentParser()\n"
        "p.add_argument('-m', '--model', required=True)\nargs = p.parse_args()\n"
        "params = load(args)\nparams.kept_in = os.path.join('logs', args.model)\nstart(run, params)\n"
    )
    run = "import os\n" + LOOP.replace(
        "SAVE", "torch.save(model, os.path.join(hps.kept_in, f'G_{epoch}.pth'))"
    )
    run = "def run(hps):\n" + textwrap.indent(run, "    ")
    files = {"train.py": made, "parts.py": run, "README.md": "```\npython train.py -m vi\n```\n"}
    assert checkpoint_of(project(files)) == {"folder": "logs/vi", "pattern": "G_*.pth"}


@pytest.mark.parametrize(("key", "value", "offered"), [
    ("MODEL_DIR", "kept/a", "kept/a"), ("output_dir", "./kept", "kept"), ("LEARNING", "kept", "out"),
    ("save_dir", "../kept", "out"), ("save_dir", "/kept", "out"),
])  # fmt: skip
def test_a_folder_that_is_not_followed_is_asked_with_the_key_that_may_name_it(
    project, key, value, offered
):
    before = (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('-c', default='c.json')\n"
    )
    program = loop("torch.save(model, hidden(epoch))", before)
    made = draft(project({"train.py": program, "c.json": f'{{"{key}": "{value}"}}'}))
    line = next(one for one in made.lines if one.field == "checkpoint")
    assert line.is_off and line.value["folder"] == offered
    assert (f"{key} is {offered}" in line.question) == (offered != "out")


def test_a_script_with_defaults_for_its_variables_is_the_command(project):
    """It wins over a docstring with ... in it; what its launcher is told stays as it stands."""
    options_ = (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--prompt', required=True)\n"
        "p.add_argument('--out_dir', default='x')\nargs = p.parse_args()\n"
    )
    save = "torch.save(model, f'{args.out_dir}/{epoch}.pt')"
    script = """\
        #!/bin/bash
        OUT="${OUT:-./kept/desk}"
        PROMPT="${PROMPT:-a photo, of a desk}"
        RATE=${RATE:-5e-4}
        accelerate launch --cpu --num_processes 1 train.py \\
          --prompt "$PROMPT" \\
          --out_dir "$OUT" --rate $RATE
        """
    docstring = '"""accelerate launch --cpu train.py ... (see train.sh)"""\n'
    program = docstring + loop(save, options_ + "p.add_argument('--rate')\n")
    made = draft(project({"train.py": program, "train.sh": script}))
    line = next(one for one in made.lines if one.field == "command")
    assert line.value == [
        "accelerate", "launch", "--cpu", "--num_processes", "1", "train.py",
        "--prompt", "a photo, of a desk", "--out_dir", "./kept/desk", "--rate", "5e-4",
    ]  # fmt: skip
    assert line.comment == "as train.sh starts it" and not made.questions
    assert made.values()["gpus"] == 1 and "launcher" not in made.values()
    assert made.values()["checkpoint"] == {"folder": "kept/desk", "pattern": "*.pt"}


def test_what_a_usage_shows_as_optional_is_no_word_of_the_command(project):
    program = '"""python train.py --lr [0.1,0.2] [--fp16] [KEY VALUE ...]"""\n' + loop(
        "torch.save(model, 'a.pt')"
    )
    made = draft(project({"train.py": program}))
    assert made.values()["command"] == ["python3", "train.py", "--lr", "[0.1,0.2]"]


def test_a_switch_by_which_a_program_finds_its_newest_checkpoint_is_drafted_as_one(project):
    options_ = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--resume', action='store_true')\n"
    program = loop("torch.save(model, f'out/{epoch}.pt')", options_ + "args = p.parse_args()\n")
    made = draft(project({"train.py": program}))
    line = next(one for one in made.lines if one.field == "resume")
    assert line.value == {"switch": "--resume"}
    assert line.question == "does --resume find its newest checkpoint alone?"


def test_what_lies_in_a_copied_folder_is_not_named_to_be_copied_too(project):
    saves = "torch.save(model, f'out/ck_{epoch}.pt'); torch.save(model, 'out/best.pt')"
    made = draft(project({"train.py": loop(saves) + "torch.save(model, 'final.pt')\n"}))
    [durable] = [one.value for one in made.lines if one.field == "durable"]
    assert durable["what"] == ["final.pt", "out"]


def test_a_numbered_checkpoint_is_preferred_and_the_best_one_is_a_result(project):
    save = "torch.save(model, 'out/best.pt'); torch.save(model, f'out/ck_{epoch}.pt')"
    made = draft(project({"train.py": loop(save) + "torch.save(model, 'out/final.pt')\n"}))
    assert made.values()["checkpoint"] == {"folder": "out", "pattern": "ck_*.pt"}
    assert made.values()["results"] == ["out/final.pt", "out/best.pt"]


@pytest.mark.parametrize("library", [
    "if __name__ == '__main__':\n    for n in range(3):\n        torch.save(n, 'lib/p.pkl')\n",
    "def unused():\n    for n in range(3):\n        torch.save(n, 'lib/p.pkl')\n",
])  # fmt: skip
def test_a_save_of_an_imported_file_that_does_not_run_is_left_out(project, library):
    files = {"train.py": loop("keep(model)", "from net import keep\n")}
    files["net.py"] = f"import torch\ndef keep(m):\n    torch.save(m, where())\n{library}"
    made = draft(project(files))
    assert "checkpoint" not in made.values()
    assert any("net.py:3 doesn't tell" in one for one in made.questions)


def test_an_option_that_the_command_sets_and_the_program_adds_to_has_a_new_folder_each_time(
    project,
):
    before = (
        "import argparse, time\np = argparse.ArgumentParser()\np.add_argument('--run')\n"
        "args = p.parse_args()\nargs.run = args.run + time.strftime('%d')\n"
    )
    program = loop("torch.save(model, f'ck/{args.run}/{epoch}.pt')", before)
    files = {"train.py": program, "README.md": "```\npython train.py --run a\n```\n"}
    assert checkpoint_of(project(files)) == {"folder": "ck", "pattern": "a*/*.pt"}


def test_settings_that_are_unpacked_into_a_trainer_leave_its_folder_open(project):
    program = (
        "import pytorch_lightning as pl\ntrainer = pl.Trainer(**open('s'))\n"
        "if __name__ == '__main__':\n    trainer.fit(1)\n"
    )
    made = draft(project({"train.py": program}))
    assert "checkpoint" not in made.values() and "where does it save" in made.questions[0]


def test_what_saves_at_its_end_alone_is_asked_about(project):
    made = draft(project({"train.py": loop("pass") + "torch.save(model, 'final.pt')\n"}))
    assert "checkpoint" not in made.values() and made.values()["results"] == ["final.pt"]
    assert any("at its end alone" in question for question in made.questions)


FRAMEWORKS = {
    "trainer": (
        "from transformers import Trainer, TrainingArguments\n"
        "args = TrainingArguments(output_dir='runs/sft', save_steps=10)\nTrainer(args=args).train()\n",
        {"folder": "runs/sft", "pattern": "checkpoint-*"},
    ),
    "parser": (
        "from transformers import HfArgumentParser, TrainingArguments, Trainer\n"
        "[args] = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"
        "Trainer(args=args).train()\n",
        {"folder": "out/x", "pattern": "checkpoint-*"},
    ),
    "lightning": (
        "import lightning as L\nL.Trainer(max_epochs=3).fit(None)\n",
        {"folder": "lightning_logs", "pattern": "version_*/checkpoints/*.ckpt"},
    ),
    "callback": (
        "import lightning as L\nfrom lightning.pytorch.callbacks import ModelCheckpoint\n"
        "L.Trainer(callbacks=[ModelCheckpoint(dirpath='ck', save_top_k=2)]).fit(None)\n",
        {"folder": "ck", "pattern": "*.ckpt"},
    ),
    "ultralytics": (
        "from ultralytics import YOLO\nYOLO('y.pt').train(data='c.yaml', epochs=3)\n",
        {"folder": "runs/detect", "pattern": "train*/weights/last.pt"},
    ),
    "accelerate": (
        loop("accelerator.save_state(f'out/step_{epoch}')"),
        {"folder": "out", "pattern": "step_*"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_what_a_framework_does_by_itself_is_known(project, name):
    program, expected = FRAMEWORKS[name]
    readme = "```\npython train.py --output_dir out/x\n```\n" if name == "parser" else ""
    assert checkpoint_of(project({"train.py": program, "README.md": readme})) == expected


STARTS = [
    # (README's line, command, launcher, gpus)
    ("python train.py --lr 1e-3", ["python3", "train.py", "--lr", "1e-3"], None, 1),
    ("$ CUDA_VISIBLE_DEVICES=0 python3 -u train.py --a b 2>&1 | tee x.log", ["python3", "train.py", "--a", "b"], None, 1),
    ("torchrun --nproc_per_node=8 train.py --x 1", ["train.py", "--x", "1"], "torchrun", 8),
    ("python -m torch.distributed.launch --nproc_per_node 4 train.py", ["train.py"], "torchrun", 4),
    ("accelerate launch --num_processes 2 train.py \\\n  --x 1", ["train.py", "--x", "1"], "accelerate", 2),
    ("deepspeed --num_gpus=2 train.py --deepspeed ds.json", ["train.py", "--deepspeed", "ds.json"], "deepspeed", 2),
    ("uv run train.py --x 1", ["python3", "train.py", "--x", "1"], None, 1),
    ("python train.py --eval --resume a.pt", ["python3", "train.py"], None, 1),
    ("python other.py --x 1", ["python3", "train.py"], None, 1),
    ('python train.py --name="a b" --out "o"', ["python3", "train.py", "--name=a b", "--out", "o"], None, 1),
    ('python train.py --name "a; b|c"; python other.py', ["python3", "train.py", "--name", "a; b|c"], None, 1),
    ("(python train.py --x 1) &", ["python3", "train.py", "--x", "1"], None, 1),
    ("python train.py (--x 1)", ["python3", "train.py"], None, 1),
    ("python train.py ^\n  --x 1 \\", ["python3", "train.py", "--x", "1"], None, 1),
]  # fmt: skip


@pytest.mark.parametrize(("line", "command", "launcher", "gpus"), STARTS)
def test_the_command_is_the_one_of_the_documents(project, line, command, launcher, gpus):
    program = loop("torch.save(model, 'out/a.pt')")
    values = draft(
        project({"train.py": program, "README.md": f"# X\n\n```\n{line}\n```\n"})
    ).values()
    assert values["command"] == command
    assert (values.get("launcher"), values["gpus"]) == (launcher, gpus)


@pytest.mark.parametrize(("script", "command", "left_open"), [
    ("OUT=ck\nLR='1e-3'\npython train.py --out $OUT/a --lr ${LR}\n", ["--out", "ck/a", "--lr", "1e-3"], ""),
    ("OUT=a\nOUT=b\npython train.py --out $OUT\n", ["--out", "$OUT"], "$OUT"),
    ("OUT=$1\npython train.py --out \"$OUT\"\n", ["--out", "$OUT"], "$OUT"),
    ('python train.py --lr 1 "$@"\n', ["--lr", "1"], "$@"),
    ('python train.py --conf "$(pwd)/c"\n', ["--conf", "$(pwd)/c"], "$(pwd)/c"),
    ('python train.py --lr 1 --name "b\nc"\n', ["--lr", "1", "--name"], "a quote"),
])  # fmt: skip
def test_what_a_script_sets_is_put_in_and_what_it_leaves_open_is_a_question(
    project, script, command, left_open
):
    program = loop("torch.save(model, 'out/a.pt')")
    made = draft(project({"train.py": program, "run.sh": f"#!/bin/bash\n{script}"}))
    assert made.values()["command"] == ["python3", "train.py", *command]
    assert made.questions[:1] == ([f"run.sh leaves open: '{left_open}'"] if left_open else [])


@pytest.mark.parametrize(("line", "nodes"), [
    ("torchrun --nnodes=2 --nproc_per_node=8 train.py", 2),
    ("torchrun --nnodes 4 --nproc_per_node 8 --rdzv_endpoint $HOST train.py", 4),
    ("python -m torch.distributed.launch --nnodes=2 --nproc_per_node=8 train.py", 2),
    ("accelerate launch --num_machines 2 --num_processes 16 train.py", 2),
    ("torchrun --nnodes=1 --nproc_per_node=8 train.py", None),
    ("torchrun --nnodes=1:4 --nproc_per_node=8 train.py", None),
    ("torchrun --nnodes=$NNODES --nproc_per_node=8 train.py --nnodes 9", None),
])  # fmt: skip
def test_the_nodes_of_a_launchers_line_are_suggested_and_the_job_takes_one_box(
    project, line, nodes
):
    program = loop("torch.save(model, 'out/a.pt')")
    made = draft(project({"train.py": program, "README.md": f"```\n{line}\n```\n"}))
    assert [one.value for one in made.lines if one.field == "nodes"] == ([nodes] if nodes else [])
    assert "nodes" not in made.values() and made.values()["gpus"] == 8
    assert ("# nodes: " in made.as_yaml()) == bool(nodes)


@pytest.mark.parametrize("word", ["<path>", "[data-folder with images]", "/path/to/data", "$DATA"])
def test_a_word_that_a_person_must_replace_is_a_question(project, word):
    readme = f"```\npython train.py --data {word}\n```\n"
    made = draft(project({"train.py": loop("torch.save(model, 'out/a.pt')"), "README.md": readme}))
    assert made.values()["command"] == ["python3", "train.py", "--data", word]
    assert any("leaves open" in question for question in made.questions)


def test_an_option_that_the_program_asks_for_is_a_question(project):
    before = (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--data', required=True)\n"
        "p.add_argument('--resume', default='')\nargs = p.parse_args()\n"
    )
    made = draft(project({"train.py": loop("torch.save(model, 'out/a.pt')", before)}))
    assert any("asks for --data" in question for question in made.questions)
    assert made.values()["resume"] == {"flag": "--resume"}


def test_a_configuration_in_python_and_words_on_the_line_set_what_the_source_assigns(project):
    program = "out_dir = 'out'\n" + loop("torch.save(model, out_dir + '/ckpt.pt')")
    files = {
        "train.py": program,
        "config/small.py": "out_dir = 'out-small'\n",
        "README.md": "```\npython train.py config/small.py\n```\n",
    }
    assert checkpoint_of(project(files))["folder"] == "out-small"
    files["README.md"] = "```\npython train.py config/small.py --out_dir=given\n```\n"
    assert checkpoint_of(project(files))["folder"] == "given"


def test_settings_of_a_yaml_file_are_read(project):
    program = "cfg = load('conf/train.yaml')\n" + loop(
        "torch.save(model, cfg['out'] + f'/{epoch}.pt')"
    )
    files = {"train.py": program, "conf/train.yaml": "run:\n  out: kept\n"}
    assert checkpoint_of(project(files)) == {"folder": "kept", "pattern": "*.pt"}


def test_among_several_programs_the_one_that_trains_is_found(project):
    train = loop("torch.save(model, 'out/a.pt')")
    files = {
        "tools/train_net.py": train,
        "eval.py": train,
        "utils.py": "def f():\n    pass\n",
        "tests/train.py": train,
    }
    assert draft(project(files)).program == "tools/train_net.py"
    with pytest.raises(Undrafted, match="no training program"):
        draft(project({"a/b.py": ""}) / "a")


def test_where_nothing_shows_that_a_program_trains_one_that_is_called_so_is_taken(project):
    folder = project({"train.py": "print('step 1')\n", "prepare.py": "print('data')\n"})
    assert draft(folder).values()["command"] == ["python3", "train.py"]
    (folder / "train.py").unlink()
    with pytest.raises(Undrafted, match="no training program"):
        draft(folder)


def test_where_the_program_is_named_it_is_taken(project):
    train = loop("torch.save(model, 'out/a.pt')")
    folder = project({"train.py": train, "other.py": train.replace("out", "els")})
    assert draft(folder, "other.py").values()["checkpoint"]["folder"] == "els"
    with pytest.raises(Undrafted, match="isn't a Python file"):
        draft(folder, "none.py")


def test_a_program_that_only_runs_under_torchrun_gets_it(project):
    before = "import os\nimport torch.distributed as dist\nlocal = int(os.environ['LOCAL_RANK'])\ndist.init_process_group('nccl')\n"
    values = draft(project({"train.py": loop("torch.save(model, 'o/a.pt')", before)})).values()
    assert values["launcher"] == "torchrun" and values["command"] == ["train.py"]
    alone = before.replace("os.environ['LOCAL_RANK']", "os.environ.get('LOCAL_RANK', 0)")
    values = draft(project({"train.py": loop("torch.save(model, 'o/a.pt')", alone)})).values()
    assert "launcher" not in values and values["command"] == ["python3", "train.py"]


@pytest.mark.parametrize("name", ["uv.lock", "requirements.txt", "environment.yml"])
def test_the_list_of_packages_is_named(project, name):
    folder = project({"train.py": loop("pass"), name: ""})
    assert draft(folder).values()["environment"] == name


def test_what_may_stop_the_program_on_a_box_is_told(project):
    program = "root = '/home/me/data/train'\nname = input('which? ')\n" + loop("pass")
    text = draft(project({"train.py": program})).as_yaml()
    assert "# train.py:1 names /home/me/data/train: is it on the box?" in text
    assert "# train.py:2 calls input, which waits for a person" in text


def test_the_job_can_be_read_and_every_line_has_its_reason(project, capsys):
    before = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--max-steps', type=int, default=500)\nargs = p.parse_args()\n"
    save = "torch.save(model, 'out/a.pt')\n    if epoch == args.max_steps: break"
    folder = project(
        {
            "My Project/train.py": loop(save, before),
            "My Project/requirements.txt": "torch\n",
        }
    )
    target = folder / "My Project"
    assert main(["init", str(target)]) == 0
    written = target / "job.yaml"
    assert capsys.readouterr().out == f"{written}\n"
    job = from_object(from_file(written))
    assert job.name == "my-project" and job.checkpoint.folder == "out"
    rows = written.read_text().splitlines()
    assert all("  # " in row for row in rows if not row.startswith("# "))
    assert "# final_step: 500" in written.read_text()
    off = [row[2:].partition("  #")[0] for row in rows[3:] if row.startswith("# ")]
    from_object({**from_file(written), **yaml.safe_load("\n".join(off))})
    assert main(["init", str(target)]) == 2
    assert "is there already; --replace writes over it" in capsys.readouterr().err
    assert main(["init", str(target), "--replace"]) == 0


def test_a_question_is_printed_and_gives_exit_1(project, capsys):
    folder = project({"train.py": loop("torch.save(model, unknown())")})
    assert main(["init", str(folder), "--write-to", "-"]) == 1
    out, err = capsys.readouterr()
    assert "# ? where does it save? train.py:8 doesn't tell; a rehearsal does" in out
    assert "?  where does it save?" in err and not (folder / "job.yaml").exists()


def test_a_terminal_asks_and_a_wrong_answer_is_asked_again(project, capsys, monkeypatch):
    folder = project(
        {"train.py": loop("torch.save(model, unknown())", "from other import unknown\n")}
    )
    answers = iter(["{folder: [}", "{folder: 5}", "{folder: ck, pattern: '*.pt'}"])
    monkeypatch.setattr("remote_gpu_trainer.cli.terminal.is_terminal", lambda stream: True)
    monkeypatch.setattr("click.prompt", lambda *_, **__: next(answers, ""))
    assert main(["init", str(folder), "--profile", "vastai"]) == 0
    assert from_file(folder / "job.yaml")["checkpoint"] == {"folder": "ck", "pattern": "*.pt"}
    assert "as you said" in (folder / "job.yaml").read_text()
    assert capsys.readouterr().err.count("error: ") == 2


@pytest.mark.parametrize("name", ["finetune", "ddp", "slurm", "sweep"])
def test_each_example_is_a_whole_job(name, tmp_path, capsys):
    assert main(["init", "--example", name]) == 0
    (tmp_path / "job.yaml").write_text(capsys.readouterr().out)
    assert from_object(from_file(tmp_path / "job.yaml")).name == name


def test_a_hostile_source_neither_runs_nor_stops_the_reading(project):
    files = {
        "train.py": "raise SystemExit('ran')\n" + loop("torch.save(model, 'out/a.pt')"),
        "deep.py": "x = " + "(" * 5000 + ")" * 5000,
        "bad.py": "def f(:\n",
        "null.py": "x = '\0'\n",
        "round.py": "a = b\nb = a\nimport torch\nfor i in x:\n    torch.save(1, a)\n",
        "README.md": "python train.py '$(touch ran)' \x1b[31m\n",
    }
    folder = project(files)
    assert draft(folder).program == "train.py"
    assert not (folder / "ran").exists()
    readable = {one.path for one in sources.read(folder).sources.values() if not one.fault}
    assert readable == {"train.py", "round.py"}


def test_words_of_a_command_give_options_their_values():
    declared = [
        options.Option(("--out-dir", "-o"), "out_dir", None),
        options.Option(("--amp",), "amp", None, True),
    ]
    given = options.given_by(["--amp", "x.yaml", "--out-dir", "a", "lr=1", "--k=v"], declared)
    assert given == {"out_dir": ("a",), "lr": ("1",), "k": ("v",)}


def test_a_real_program_trains_by_the_job_that_was_drafted(project):
    """The command of the job runs in the folder, and saves where the job says."""
    program = (
        "import argparse, json, os, pathlib\np = argparse.ArgumentParser()\n"
        "p.add_argument('--out', default='runs/a')\nargs = p.parse_args()\n"
        "class torch:\n    save = staticmethod(lambda what, path: pathlib.Path(path).write_text('x'))\n"
        "os.makedirs(args.out, exist_ok=True)\n"
        "for step in range(2):\n    torch.save({}, os.path.join(args.out, f'step_{step}.pt'))\n"
        "# loss.backward(); opt.step(); opt.zero_grad()\n"
        "if False:\n    loss.backward(); opt.step(); opt.zero_grad()\n"
    )
    folder = project({"train.py": program})
    values = draft(folder).values()
    subprocess.run(values["command"], cwd=folder, check=True)
    found = values["checkpoint"]
    assert len(list((folder / found["folder"]).glob(found["pattern"]))) == 2


PARSER = "import argparse\np = argparse.ArgumentParser()\nADD\nargs = p.parse_args()\n"


def with_options(save: str, *options: str) -> str:
    added = "\n".join(f"p.add_argument({one})" for one in options)
    return loop(save, PARSER.replace("ADD", added))


ASKED = [
    # (options, README's line, what the question says)
    (["'dataset', default='CIFAR10'", "'lr', type=float"], "", "asks for dataset, lr"),
    (["'--resume', type=str2bool"], "", "does --resume find its newest checkpoint alone?"),
    (["'--cfg'"], "python train.py --model a --lr 1", "--model, --lr, which train.py doesn't take"),
    (["'--model'"], "python train.py --model path_to/llama", "leaves open"),
    ([], "torchrun train.py", "how many? torchrun takes them all"),
    ([], "python train.py  # arguments as above", "leaves open: '# arguments as above'"),
]


@pytest.mark.parametrize(("added", "line", "asked"), ASKED)
def test_what_would_fail_or_begin_anew_is_a_question(project, added, line, asked):
    program = with_options("torch.save(model, 'out/a.pt')", *added)
    made = draft(project({"train.py": program, "README.md": f"```\n{line}\n```\n"}))
    assert any(asked in question for question in made.questions), made.questions


def test_options_that_the_program_takes_are_no_question(project):
    program = with_options(
        "torch.save(model, 'out/a.pt')", "'--lr', type=float", "'--amp', action='store_true'"
    )
    readme = "```\npython train.py --lr=0.1 --am\n```\n"
    assert draft(project({"train.py": program, "README.md": readme})).questions == []
    known = program.replace("parse_args()", "parse_known_args()")
    readme = readme.replace("--am", "--trainer.gpus 2")
    assert draft(project({"train.py": known, "README.md": readme})).questions == []


@pytest.mark.parametrize(("option", "loads", "asks"), [
    ("'-w', '--weights'", "optimizer.load_state_dict(torch.load(args.weights)['optimizer'])", "loads what it goes on from"),
    ("'-c', '--ckpt'", "optimizer.load_state_dict(torch.load(args.ckpt)['optimizer'])", "does --ckpt go on from a checkpoint,"),
    ("'--checkpoint'", "saved = torch.load(args.checkpoint)\nstart_epoch = saved['epoch'] + 1", "does --checkpoint go on"),
    ("'--checkpoint'", "model.load_state_dict(torch.load(args.checkpoint))", ""),
    ("'--resume_from_checkpoint'", "accelerator.load_state(args.resume_from_checkpoint)", "loads a state that nothing here saves"),
    ("'--resume_from_checkpoint'", "accelerator.load_state(a)\naccelerator.save_state('out')", ""),
])  # fmt: skip
def test_a_program_that_loads_where_it_was_without_a_sure_option_is_a_question(
    project, option, loads, asks
):
    program = with_options("torch.save(model, 'out/a.pt')", option) + loads + "\n"
    made = draft(
        project({"train.py": "from other import optimizer, accelerator, args, a\n" + program})
    )
    assert any(asks in question for question in made.questions) if asks else made.questions == []


def test_a_save_of_another_mode_is_left_out(project):
    save = (
        "if args.mode == 'all':\n        name = f'm_{epoch}.pt'\n        torch.save(model, name)\n"
        "    else:\n        name = 'last.pt'\n        torch.save(model, 'out/' + name)"
    )
    assert checkpoint_of(project({"train.py": with_options(save, "'--mode', default='best'")})) == {
        "folder": "out", "pattern": "last.pt",
    }  # fmt: skip
    nowhere = with_options(
        "if args.out:\n        torch.save(model, 'x/last.pt')", "'--out', default=''"
    )
    assert checkpoint_of(project({"train.py": nowhere})) == {}


def test_what_only_a_switch_saves_is_no_result(project):
    end = "\nif args.seed_file:\n    torch.save(model, 'seed.pt')\n"
    program = with_options(
        "torch.save(model, f'out/{epoch}.pt')", "'--seed_file', action='store_true'"
    )
    assert "results" not in draft(project({"train.py": program + end})).values()
    rank = end.replace("args.seed_file", "rank == 0")
    assert draft(project({"train.py": program + rank})).values()["results"] == ["seed.pt"]


def test_a_count_is_a_hole_and_a_replaced_text_is_read(project):
    before = "done = 0\nname = 'a/b'.replace('/', '-')\n"
    save = "done += 1\n    torch.save(model, f'out/{name}/{done:07d}.pt')"
    assert checkpoint_of(project({"train.py": loop(save, before)})) == {
        "folder": "out/a-b",
        "pattern": "*.pt",
    }


def test_a_program_in_the_folder_comes_before_one_of_a_library_below(project):
    train = loop("torch.save(model, 'out/a.pt')")
    files = {
        "main.py": train,
        "lib/setup.py": "",
        "lib/examples/train.py": train,
        "README.md": "```\npython main.py --data d\n```\n",
        "lib/README.md": "```\npython examples/train.py\n```\n",
    }
    assert draft(project(files)).program == "main.py"


def test_a_module_behind_the_options_of_accelerate_is_found(project):
    readme = "```\naccelerate launch -m \\\n  --num_processes 8 \\\n  scripts.train --config c.yaml\n```\n"
    files = {"scripts/train.py": loop("torch.save(model, 'out/a.pt')"), "README.md": readme}
    values = draft(project(files)).values()
    assert values["command"] == ["-m", "scripts.train", "--config", "c.yaml"]
    assert (values["launcher"], values["gpus"]) == ("accelerate", 8)


def test_a_package_is_found_by_its_own_name_and_by_an_assigned_training(project):
    files = {
        "train.py": "import torch\nfrom mine.engine import Engine\nEngine().go()\n",
        "engine.py": loop("torch.save(model, 'out/a.pt')"),
    }
    assert draft(project(files)).program == "train.py"
    yolo = "from ultralytics import YOLO\nresults = YOLO('y.pt').train(data='c.yaml')\n"
    (project({"b/model.py": yolo}) / "b").exists()
    assert draft(project({}) / "b").program == "model.py"


def test_extras_that_train_are_installed(project):
    files = {
        "train.py": loop("torch.save(model, 'out/a.pt')"),
        "pyproject.toml": "[project.optional-dependencies]\nweb = ['x']\ntrain = ['torch']\n",
        "README.md": "```\npip install -e '.[web]'\n```\n",
    }
    assert draft(project(files)).values()["setup"] == ["pip install -e '.[web,train]'"]


def test_hydras_folder_is_a_question(project):
    program = (
        "import hydra\n@hydra.main(config_path='c', config_name='d')\ndef run(cfg):\n    pass\n"
        + loop("torch.save(model, 'out/a.pt')")
    )
    made = draft(project({"train.py": program}))
    assert any("hydra runs a program of this form" in question for question in made.questions)
    made = draft(
        project({"train.py": program.replace("config_name", "version_base=None, config_name")})
    )
    assert not any("hydra" in question for question in made.questions)


def test_a_program_with_undefined_names_is_a_question(project):
    program = "from transformers import Trainer, TrainingArguments\nargs = TrainingArguments(output_dir='o')\nTrainer(model=model, args=args).train()\n"
    made = draft(project({"train.py": program}))
    assert any("uses model and defines it nowhere" in question for question in made.questions)


@pytest.mark.parametrize(
    "line",
    ["python==3.6", "numpy=1.2", "torch torchvision --index-url https://x.org", "pytorch==1.3.1"],
)
def test_a_line_that_pip_cannot_read_is_a_question(project, line):
    folder = project(
        {"train.py": loop("torch.save(model, 'out/a.pt')"), "requirements.txt": f"numpy\n{line}\n"}
    )
    assert any("pip can't read its line" in question for question in draft(folder).questions)


@pytest.mark.parametrize(
    "line", ["torch", "torch>=2.0,<3", "x[a,b]==1.0", "git+https://x.org/y.git", "-r more.txt", "a @ file:///b", "n==1; python_version < '3'", "# c", "./here", "t ~= 1.0  # c"]
)  # fmt: skip
def test_lines_of_pip_are_no_question(project, line):
    folder = project(
        {"train.py": loop("torch.save(model, 'out/a.pt')"), "requirements.txt": f"numpy\n{line}\n"}
    )
    assert draft(folder).questions == []


def parsed(*options: str) -> str:
    added = "".join(f"p.add_argument({one})\n" for one in options)
    return f"import argparse\np = argparse.ArgumentParser()\n{added}args = p.parse_args()\n"


SAVE = "torch.save(model, 'out/a.pt')"


@pytest.mark.parametrize(("before", "words", "asked"), [
    (parsed("'--data_dir', type=str"), "", "--data_dir is empty: where is the data?"),
    (parsed("'--dataset-path', default=''"), "", "--dataset-path is empty: where is the data?"),
    (parsed("'--data_dir'"), "--data_dir here", ""),
    (parsed("'--data_dir', default='data'"), "", ""),
    (parsed("'--root', default='d:\\\\sets'"), "", "it names d:\\sets: is that on the box?"),
    (parsed("'--root', default='/nfs/a/b'"), "", "it names /nfs/a/b: is that on the box?"),
    (parsed("'--root', default='/nfs/a/b'"), "--root here", ""),
    (parsed("'--root'"), "--root=/fsx/data", "it names /fsx/data: is that on the box?"),
    (parsed("'--root', default='/tmp/a'"), "", ""),
    ("ROOT = r'C:\\Users\\me\\data'\n", "", "it names C:\\Users\\me\\data: is that on the box?"),
    ("# ROOT = r'C:\\Users\\me\\data'\n", "", ""),
    (parsed("'rest', nargs=argparse.REMAINDER"), "", ""),
])  # fmt: skip
def test_data_that_is_not_named_or_lies_elsewhere_is_a_question(project, before, words, asked):
    files = {"train.py": loop(SAVE, before), "README.md": f"```\npython train.py {words}\n```\n"}
    assert draft(project(files)).questions == ([asked] if asked else [])


@pytest.mark.parametrize(("others", "asked"), [
    # no document starts one of them; as likely by its source although one is started
    ({"finetune.py": loop(SAVE)}, "guessed; or is it finetune.py?"),
    ({"train_b.py": loop(SAVE), "README.md": "`python train.py`"}, "as README.md starts it; or is it train_b.py?"),
    ({"plot.py": loop(SAVE), "README.md": "`python train.py`"}, ""),
    ({"plot.py": loop(SAVE)}, ""),
    # two scripts start it with other words
    ({"a.sh": "python train.py --x 1", "b.sh": "python train.py --x 2"}, "as a.sh starts it; or is it b.sh?"),
    ({"a.sh": "python train.py --x 1", "b.sh": "python train.py --x 1"}, ""),
    ({"a.sh": "python train.py evaluate", "b.sh": "python train.py --x 1"}, ""),
    ({"README.md": "`python train.py --x 1`", "b.sh": "python train.py --x 2"}, ""),
])  # fmt: skip
def test_what_may_be_meant_as_well_is_a_question(project, others, asked):
    made = draft(project({"train.py": loop(SAVE), **others}))
    assert made.program == "train.py"
    assert made.questions == ([asked] if asked else [])


def test_a_program_that_the_documents_start_but_that_hardly_trains_is_not_taken(project):
    files = {"train.py": loop(SAVE), "net.py": loop(SAVE), "colour.sh": "python colour_app.py\n"}
    files["colour_app.py"] = "import net, torch\nfor n in range(3):\n    print(n)\n"
    assert draft(project(files)).program == "train.py"


def test_how_many_processes_a_program_starts_itself_is_a_question(project):
    before = "import torch.multiprocessing as mp\ndef go(rank): pass\nmp.spawn(go, nprocs=2)\n"
    made = draft(project({"train.py": loop(SAVE, before)}))
    assert made.questions == ["how many? train.py:3 starts a process for each"]


@pytest.mark.parametrize(("imported", "variables"), [
    ("net", {"PYTHONPATH": "."}), ("tools", None), ("os", None),
])  # fmt: skip
def test_a_program_below_finds_what_it_imports_from_the_folder_above(project, imported, variables):
    files = {"scripts/train.py": loop(SAVE, f"import {imported}\n"), "net/__init__.py": ""}
    made = draft(project({**files, "scripts/tools.py": "", "tools.py": ""}))
    assert made.values().get("variables") == variables
    assert from_object({**made.values(), "checkpoint": {"folder": "out"}}).variables == (
        variables or {}
    )


def test_a_program_below_that_names_folders_above_is_a_question(project):
    files = {"src/train.py": loop(SAVE, "DATA = '../data/a'\n")}
    assert draft(project(files)).questions == [
        "src/train.py names ../data/a: in which folder does it start?"
    ]


@pytest.mark.parametrize(("text", "setup"), [
    ("[tool.coverage.run]\nomit = []\n", None),
    ("[project]\nname = 'a'\n", ["pip install -e ."]),
    ("[tool.poetry]\nname = 'a'\n", ["pip install -e ."]),
])  # fmt: skip
def test_a_pyproject_of_settings_alone_is_not_installed(project, text, setup):
    files = {"train.py": loop(SAVE), "pyproject.toml": text}
    assert draft(project(files)).values().get("setup") == setup


@pytest.mark.parametrize("program", [
    "from mmengine.runner import Runner\nrunner = Runner.from_cfg(1)\nrunner.train()\n",
    "from detectron2.engine import DefaultTrainer\nif __name__ == '__main__':\n    DefaultTrainer(1).train()\n",
])  # fmt: skip
def test_a_framework_that_saves_by_itself_is_a_question_of_where(project, program):
    made = draft(project({"main.py": program}))
    assert made.values()["command"] == ["python3", "main.py"]
    assert made.questions == ["no call that saves was found: where does it save, if at all?"]


def test_a_script_that_trains_by_a_command_of_its_own_is_a_question(project):
    files = {"script/train_a.sh": "some-train x\n", "script/train_b.sh": "", "script/test.sh": ""}
    made = draft(project(files))
    assert made.values()["command"] == ["bash", "script/train_a.sh"]
    assert made.questions == [
        "no Python file here trains: does this script, or script/train_b.sh, and until it ends?",
        "no call that saves was found: where does it save, if at all?",
    ]
    assert yaml.safe_load(made.as_yaml())["command"] == ["bash", "script/train_a.sh"]
    made = draft(project({"requirements.txt": "torch\n"}))
    assert made.questions[1] == "does it have what script/train_a.sh calls?"


@pytest.mark.parametrize("default", ["", ", default=False", ", default=None"])
def test_a_save_that_an_option_switches_on_is_asked_for(project, default):
    before = (
        "import argparse\np = argparse.ArgumentParser()\n"
        f"p.add_argument('--save-model', action='store_true'{default})\nargs = p.parse_args()\n"
    )
    text = loop("if args.save_model: torch.save(model, 'model.pt')", before)
    made = draft(project({"train.py": text}))
    assert made.questions == [
        "train.py:12 saves only with --save-model: is the command to have it?"
    ]


def test_a_subcommand_is_no_word_that_the_program_refuses(project):
    before = (
        "import argparse\np = argparse.ArgumentParser()\nsub = p.add_subparsers()\n"
        "t = sub.add_parser('train')\nt.add_argument('--epochs', type=int, default=2)\np.parse_args()\n"
    )
    files = {
        "train.py": loop("torch.save(model, 'model.pt')", before),
        "run.sh": "python train.py train --epochs 3\n",
    }
    assert draft(project(files)).questions == []


def test_an_own_function_that_saves_is_no_second_place(project):
    before = (
        "def save_checkpoint(state, is_best, filename='checkpoint.pth.tar'):\n"
        "    torch.save(state, filename)\n"
    )
    made = draft(project({"train.py": loop("save_checkpoint({'a': 1}, False)", before)}))
    assert made.questions == []
    assert made.values()["checkpoint"]["pattern"] == "checkpoint.pth.tar"


def test_where_it_saves_is_a_question_while_the_command_is_open(project):
    files = {"train.py": loop(SAVE), "run.sh": "python train.py --config $1\n"}
    assert draft(project(files)).questions == [
        "run.sh leaves open: '$1'",
        "read from train.py:8, torch.save without what run.sh leaves open: is it right?",
    ]


def git(folder, *words):
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


def test_a_program_that_git_does_not_track_is_seen_and_asked_about(project):
    folder = project({".gitignore": "data/\nold/\n", "README.md": "", "old/train.py": loop(SAVE)})
    git(folder, "init", "-q")
    git(folder, "add", ".")
    project({
        "main.py": loop(SAVE, "import net\nDATA = 'data/packed'\n"),
        "net.py": "",
        ".cache/train.py": loop(SAVE),
        "env1/pyvenv.cfg": "",
        "env1/lib/train.py": loop(SAVE),
    })  # fmt: skip
    made = draft(folder)
    assert made.program == "main.py"
    assert made.questions == [
        "git doesn't track main.py, net.py, so a start doesn't send it: add it?"
    ]
    assert "# main.py names data/packed, which git ignores: it isn't sent" in made.notes
    (folder / "data/packed").mkdir(parents=True)
    git(folder, "add", "main.py", "net.py")
    assert draft(folder).questions == ["git ignores data/packed, so it isn't sent: who brings it?"]


@pytest.mark.parametrize("line", ["model.cuda(async=True)", "print 'done'"])
def test_a_program_that_python_cannot_read_is_started_by_the_documents_with_a_question(
    project, line
):
    program = loop("pass") + f"if __name__ == '__main__':\n    {line}\n"
    made = draft(project({"main.py": program, "README.md": "`python main.py --arch a`"}))
    assert made.values()["command"] == ["python3", "main.py", "--arch", "a"]
    assert made.questions[0].startswith("main.py:10 can't be read as Python (")
    with pytest.raises(Undrafted, match=r"where net.py:1 can't be read"):
        draft(project({"main.py": "", "net.py": "def\n", "README.md": ""}))


def test_a_file_with_a_mark_of_its_byte_order_is_read(project):
    assert draft(project({"train.py": "\ufeff" + loop(SAVE)})).questions == []


def test_a_method_whose_own_self_is_asked_for_is_read(project):
    before = "class A:\n    def put(self):\n        torch.save(1, self)\nA().put()\n"
    assert draft(project({"train.py": loop(SAVE, before)})).program == "train.py"


@pytest.mark.parametrize("path", ["''", "'.'", "'a'.strip('a')"])
def test_a_save_to_no_name_is_a_question(project, path):
    made = draft(project({"train.py": loop(f"torch.save(model, {path})")}))
    assert "checkpoint" not in made.values() or made.values()["checkpoint"].get("pattern") == "a"


@pytest.mark.parametrize(("files", "field", "value", "asked"), [
    ({"setup.py": "setup(install_requires=['torch'])"}, "setup", ["pip install -e ."], None),
    ({"setup.py": "setup(name='a')"}, "environment", None, None),
    ({"requirement.txt": "torch"}, "environment", "requirement.txt", "these packages?"),
    ({"requirements-gpu.txt": "torch", "requirements-cpu.txt": "torch"}, "environment", "requirements-cpu.txt",
     "these packages, or requirements-gpu.txt?"),
    ({"requirements/train.txt": "torch"}, "environment", "requirements/train.txt", "these packages?"),
    ({"env.yml": "name: a"}, "environment", "env.yml", "these packages?"),
    ({"requirements.txt": "torch", "requirements-dev.txt": "x"}, "environment", "requirements.txt", None),
])  # fmt: skip
def test_packages_are_found_under_their_other_names(project, files, field, value, asked):
    made = draft(project({"train.py": loop(SAVE), **files}))
    assert made.values().get(field) == value
    assert made.questions == ([asked] if asked else [])
    assert ("a list of packages, if there is one" in made.as_yaml()) == (value is None)


def test_what_waits_for_a_person_is_a_question(project):
    files = {"train.py": loop(SAVE, "import net\nname = input('which? ')\n")}
    files["net.py"] = "def unused():\n    input()\n"
    assert draft(project(files)).questions == [
        "train.py:2 calls input, which waits for a person: what is it told?"
    ]


OPTIONS = "import argparse\np = argparse.ArgumentParser()\n"


@pytest.mark.parametrize(("words", "left"), [
    ("--data BLAH_BLAH/x.h5", "BLAH_BLAH/x.h5"), ("--out ROOT_DIR", "ROOT_DIR"), ("--a=MODEL", "--a=MODEL"),
    ("--lr 1 ...", "..."), ("--data_path data_path", "data_path"), ("--data data", None), ("--set MNIST", None), ("--conf conf/BIG.txt", None), ("--n 3", None),
])  # fmt: skip
def test_a_word_in_capitals_that_the_project_does_not_know_is_a_question(project, words, left):
    files = {"train.py": loop(SAVE, "SETS = ['MNIST']\n"), "conf/BIG.txt": ""}
    made = draft(project({**files, "README.md": f"```\npython train.py {words}\n```\n"}))
    assert made.questions[:1] == ([f"README.md leaves open: {left}"] if left else [])


def test_a_line_that_downloads_is_no_training_and_two_trainings_are_a_question(project):
    lines = (
        "python train.py --download_weights 1\npython train.py --task a\npython train.py --task b\n"
    )
    made = draft(project({"train.py": loop(SAVE), "README.md": f"```\n{lines}```\n"}))
    assert made.values()["command"] == ["python3", "train.py", "--task", "a"]
    assert made.questions == ["as README.md starts it; or is it train.py --task b?"]


def test_words_behind_a_comment_in_a_continued_line_are_kept(project):
    line = "python train.py --a 1 \\  # the first\n   --b 2 \\ # and the second\n   --c 3\n"
    made = draft(project({"train.py": loop(SAVE), "README.md": f"```\n{line}```\n"}))
    assert made.values()["command"][2:] == ["--a", "1", "--b", "2", "--c", "3"]


@pytest.mark.parametrize(("name", "text", "words"), [
    ("README.md", "```\ncd tools\npython go.py --a 1\n```\n", ["--a", "1"]),
    ("tools/README.md", "`python go.py --a 1`", ["--a", "1"]),
    ("scripts/a.sh", "cd ../tools && python go.py", []),
])  # fmt: skip
def test_a_program_that_is_started_in_a_folder_below_is_a_question(project, name, text, words):
    made = draft(project({"tools/go.py": loop(SAVE), name: text}))
    assert made.values()["command"] == ["python3", "tools/go.py", *words]
    assert made.questions == [
        f"{name} starts it in tools: do its paths hold from here?",
        "read from tools/go.py:8, torch.save; below tools, or from here?",
    ]


def test_what_a_script_exports_is_kept(project):
    script = (
        "export KIND=big\nexport CUDA_VISIBLE_DEVICES=3\nLR=1\nsrun deepspeed train.py --lr $LR\n"
    )
    values = draft(project({"train.py": loop(SAVE), "run.sh": script})).values()
    assert values["variables"] == {"KIND": "big"} and values["launcher"] == "deepspeed"


@pytest.mark.parametrize(
    ("added", "asked"), [("p.add_argument('--local_rank')\n", True), ("", False)]
)
def test_a_launch_that_gives_the_rank_as_an_option_is_a_question(project, added, asked):
    line = "python -m torch.distributed.launch --nproc_per_node=2 train.py"
    made = draft(project({"train.py": loop(SAVE, OPTIONS + added), "README.md": f"`{line}`"}))
    assert made.values()["launcher"] == "torchrun"
    assert ("takes --local_rank" in str(made.questions)) == asked


def test_a_resume_that_the_command_leaves_empty_is_a_question(project):
    before = OPTIONS + "p.add_argument('--resume')\nargs = p.parse_args()\n"
    files = {"train.py": loop(SAVE, before), "README.md": "`python train.py --resume None`"}
    assert draft(project(files)).questions == [
        "the command has --resume, which is empty: does it go on?"
    ]


@pytest.mark.parametrize(("save", "asked"), [
    ("torch.save(model, open(model))", "read from train.py:9, torch.save; train.py:9 may save elsewhere: is it right?"),
    ("torch.save(model, 'b/n.pt')", "read from train.py:9, torch.save; train.py:9 may save elsewhere: is it right?"),
    ("torch.save(model, 'out/b.pt')", None),
    ("torch.save(features, open(model))", None),
    ("torch.save(model, 'best/best.pt')", None),
])  # fmt: skip
def test_a_folder_is_sure_where_all_that_saves_the_model_agrees(project, save, asked):
    made = draft(project({"train.py": loop(f"{SAVE}; {save}", "features = 1\n")}))
    assert made.values()["checkpoint"] == {"folder": "out", "pattern": "a.pt"}
    assert made.questions == ([asked] if asked else [])


FOLLOWED = [
    # a class that keeps what it was given; one of an imported file's own trial isn't it
    ({"train.py": "import log\nlogger = log.Logger('kept')\n" + loop("torch.save(model, logger.path + '/a.pt')"),
      "log.py": "class Logger:\n    def __init__(self, out):\n        self.path = out\n"
                "if __name__ == '__main__':\n    out = 'trial'\n    Logger(out)\n"}, "kept", "a.pt"),
    ({"train.py": loop("torch.save(model, logger.path + '/a.pt')", "logger = make()\ncfg = load('a.yaml')\n"),
      "a.yaml": "data:\n  path: d\n", "README.md": "`python train.py --config a.yaml`"}, None, None),
    ({"train.py": loop("torch.save(model, C().out + '/a.pt')", "class C:\n    out = 'kept'\n")}, "kept", "a.pt"),
    ({"train.py": loop("torch.save(model, cfg['run']['out'] + '/a.pt')", "cfg = load()\n"),
      "a.json": '{"run": {"out": "kept"}, "data": {"out": "d"}}', "README.md": "`python train.py -c a.json`"},
     "kept", "a.pt"),
    ({"train.py": "def main(out):\n    for e in x:\n        torch.save(model, f'{out}/{e}.pt')\n"
                  + loop("pass") + "main(**load())\n", "a.yaml": "out: kept\n",
      "README.md": "`python train.py -c a.yaml`"}, "kept", "*.pt"),
    ({"train.py": loop("torch.save(model, '{}.pkl'.format(epoch))")}, ".", "*.pkl"),
    ({"train.py": loop("torch.save(model, f'{epoch}.pkl')")}, ".", "*.pkl"),
    ({"train.py": loop("torch.save(model, f'{name}.pkl')")}, None, None),
    ({"train.py": loop("model.save_pretrained('kept')")}, "kept", None),
    ({"train.py": "from mmengine.runner import Runner\nr = Runner.from_cfg(1)\nr.train()\n",
      "README.md": "`python train.py --work-dir kept`"}, "kept", "*.pth"),
    ({"train.py": "from lightning.pytorch.cli import LightningCLI\nclass Own(LightningCLI):\n    pass\n"
                  "if __name__ == '__main__':\n    Own().trainer.fit(1)\n"},
     "lightning_logs", "version_*/checkpoints/*.ckpt"),
    # a property of the project's own says another thing than the configuration's key
    ({"train.py": "class C:\n    @property\n    def out(self):\n        return 'kept/' + now()\n"
                  + loop("torch.save(model, cfg.out + '/a.pt')", "cfg = C()\n"),
      "a.yaml": "run:\n  out: other\n", "README.md": "`python train.py -c a.yaml`"}, "kept", "*/a.pt"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "folder", "pattern"), FOLLOWED)
def test_where_it_saves_is_followed_to_a_definite_value(project, files, folder, pattern):
    found = checkpoint_of(project(files))
    assert (found.get("folder"), found.get("pattern")) == (folder, pattern)


def test_the_name_with_a_number_is_preferred_to_one_with_the_models_name_alone(project):
    save = "torch.save(model, f'out/{name}.pt'); torch.save(model, f'out/{name}_{epoch}.pt')"
    assert checkpoint_of(project({"train.py": loop(save)}))["pattern"] == "*_*.pt"


def test_an_option_of_a_function_that_nobody_calls_is_not_asked_for(project):
    before = OPTIONS + "def dead():\n    p.add_argument('--dataset')\n"
    assert draft(project({"train.py": loop(SAVE, before)})).questions == []


@pytest.mark.parametrize("unread", ["", "torch.save(model, open(model))\n"])
def test_results_are_a_question_where_a_call_does_not_tell_where_it_saves(project, unread):
    end = f"torch.save(model, 'final.pt')\n{unread}"
    made = draft(project({"train.py": loop("pass") + end}))
    assert made.values()["results"] == ["final.pt"]
    assert [one for one in made.questions if "what it leaves" in one] == (
        ["are these what it leaves? train.py:10 doesn't tell"] if unread else []
    )


# --- what a reader of strangers' projects took for sure, and it wasn't ---


def test_a_sentence_that_speaks_of_a_program_is_no_command(project):
    readme = "some python code to change.\n\nTo run train.py you need to check `conf.yaml`\n"
    made = draft(project({"train.py": loop("pass"), "README.md": readme}))
    assert made.values()["command"] == ["python3", "train.py"]


@pytest.mark.parametrize(("run", "launcher", "words"), [
    ("uv run torchrun --standalone --nproc_per_node=2 train.py --a 1", "torchrun", ["train.py", "--a", "1"]),
    ("uv run --extra gpu python train.py --a 1", None, ["python3", "train.py", "--a", "1"]),
    ("poetry run accelerate launch train.py --a 1", "accelerate", ["train.py", "--a", "1"]),
    ("uv run train.py --a 1", None, ["python3", "train.py", "--a", "1"]),
    ("python -u -X dev train.py --a 1", None, ["python3", "train.py", "--a", "1"]),
])  # fmt: skip
def test_a_launcher_behind_another_program_is_seen(project, run, launcher, words):
    made = draft(project({"train.py": loop("pass"), "README.md": f"`{run}`"}))
    assert (made.values()["command"], made.values().get("launcher")) == (words, launcher)


def test_a_program_is_found_where_its_path_is_the_only_one_and_asked_about(project):
    files = {"core/scripts/train.py": loop("torch.save(model, f'ck/{epoch}.pt')")}
    files["data/train.sh"] = "torchrun --nproc_per_node=2 scripts/train.py --config a\n"
    made = draft(project(files))
    assert made.values()["command"] == ["core/scripts/train.py", "--config", "a"]
    assert (made.values()["launcher"], made.values()["gpus"]) == ("torchrun", 2)
    assert any("starts it in core" in one for one in made.questions)
    assert any("below core, or from here" in one for one in made.questions)
    ends = {"core/scripts/train.py": loop("pass") + "torch.save(model, 'end.pt')\n"}
    assert "below core, or from here?" in draft(project({**files, **ends})).questions


def test_a_program_says_itself_how_it_is_started(project):
    program = '"""Train.\n\n    python train.py --set a\n"""\n' + loop("pass")
    made = draft(project({"train.py": program}))
    assert made.values()["command"] == ["python3", "train.py", "--set", "a"]


ARGUMENTS = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', type=float)\nARGS\np.parse_args()\n"


@pytest.mark.parametrize(("added", "words", "asked"), [
    ("", "--lr 1 now", "now"),
    ("", "fast --lr 1", "fast"),
    ("p.add_argument('mode')", "fast --lr 1", ""),
    ("p.add_argument('--gpus', nargs='+')", "--gpus 0 1 --lr -1", ""),
    ("p.add_argument('--amp', action='store_true')", "--amp on", "on"),
])  # fmt: skip
def test_a_word_that_the_parser_would_refuse_is_a_question(project, added, words, asked):
    program = loop("pass", ARGUMENTS.replace("ARGS", added))
    made = draft(project({"train.py": program, "run.sh": f"python train.py {words}\n"}))
    found = [one for one in made.questions if "doesn't take" in one]
    assert bool(found) == bool(asked) and all(f"has {asked}," in one for one in found)


def test_a_method_of_another_file_that_no_loop_calls_saves_at_the_end_alone(project):
    agent = "import torch\nclass Agent:\n    def put(self, path):\n        torch.save(self, path)\n"
    program = loop("pass", "from agent import Agent\n") + "Agent().put('models/a.pt')\n"
    made = draft(project({"train.py": program, "agent.py": agent}))
    assert "checkpoint" not in made.values() and made.values()["results"] == ["models/a.pt"]
    assert any("at its end alone" in one for one in made.questions)
    program = loop("Agent().put(f'models/{epoch}.pt')", "from agent import Agent\n")
    assert checkpoint_of(project({"train.py": program})) == {"folder": "models", "pattern": "*.pt"}


def test_what_is_handed_on_as_a_function_has_no_default_path(project):
    net = "import torch\ndef keep(path='./net.pt'):\n    torch.save(1, path)\ndef run(saver):\n    saver(where())\n"
    made = draft(
        project({"train.py": loop("run(saver=keep)", "from net import *\n"), "net.py": net})
    )
    assert "checkpoint" not in made.values()
    assert any("net.py:3 doesn't tell" in one for one in made.questions)


@pytest.mark.parametrize(("words", "is_saved"), [("", False), ("--save", True)])
def test_a_save_that_a_switch_forbids_is_no_checkpoint(project, words, is_saved):
    parser = ARGUMENTS.replace("ARGS", "p.add_argument('--save', action='store_true')")
    parser = parser.replace("p.parse_args()", "args = p.parse_args()")
    program = loop("if args.save: torch.save(model, f'ck/{epoch}.pt')", parser)
    made = draft(project({"train.py": program, "run.sh": f"python train.py {words}\n"}))
    assert ("checkpoint" in made.values()) == is_saved
    assert any("saves only with --save:" in one for one in made.questions) != is_saved


@pytest.mark.parametrize(
    ("option", "asks"), [("--load_checkpoint", True), ("--resume_from", False)]
)
def test_an_option_that_may_only_load_is_a_question(project, option, asks):
    parser = ARGUMENTS.replace("ARGS", f"p.add_argument('{option}')")
    made = draft(project({"train.py": loop("torch.save(model, f'ck/{epoch}.pt')", parser)}))
    assert made.values()["resume"] == {"flag": option}
    assert any(option in one for one in made.questions) == asks


@pytest.mark.parametrize(("text", "asked"), [
    ('[tool.poetry]\nname = "a"\npackage-mode = false\n[build-system]\nrequires = []\n', "no package"),
    ('[project]\nname = "a"\nversion = "1"\n', "finds 2 packages"),
    ('[project]\nname = "a"\nversion = "1"\n[tool.setuptools]\npackages = ["net"]\n', ""),
    ('[project]\nname = "a"\n[build-system]\nbuild-backend = "hatchling.build"\n', ""),
])  # fmt: skip
def test_a_project_that_pip_refuses_is_a_question(project, text, asked):
    files = {"train.py": loop("pass"), "pyproject.toml": text, "net/a.py": "", "configs/b.yaml": ""}
    made = draft(project({**files, "tests/test_a.py": ""}))
    assert [
        one for one in made.questions if "packages get there" in one and asked in one
    ] != [] or not asked
    assert ("setup" in made.values()) == (not asked)


def test_a_list_for_conda_is_found_by_what_it_holds(project):
    text = "name: a\nchannels: [defaults]\ndependencies: [python=3.9]\n"
    made = draft(project({"train.py": loop("pass"), "basic_env.yaml": text, "a.yaml": "b: 1\n"}))
    assert made.values()["environment"] == "basic_env.yaml"
    assert "these packages?" in made.questions


HYDRA = (
    "import hydra\n@hydra.main(version_base=None, config_path='conf', config_name='NAME')\n"
    "def main(cfg):\n    pass\n"
)


@pytest.mark.parametrize(("name", "words", "asks"), [
    ("train", "", False), ("other", "", True), ("other", "--config-name=train", False), ("train", "--config-name deep/x", True),
])  # fmt: skip
def test_a_configuration_of_hydra_that_is_not_there_is_a_question(project, name, words, asks):
    files = {"train.py": loop("pass", HYDRA.replace("NAME", name)), "conf/train.yaml": "a: 1\n"}
    made = draft(project({**files, "run.sh": f"python train.py {words}\n"}))
    assert any("conf has no" in one for one in made.questions) == asks


@pytest.mark.parametrize(("text", "words", "asks"), [
    ("a: 1\n", "", True), ("paths: {train: x}\n", "", False), ("a: 1\n", "paths.train=x", False),
])  # fmt: skip
def test_what_hydras_configuration_must_give_is_asked_for(project, text, words, asks):
    fields = "from dataclasses import dataclass\nMISSING = '???'\n@dataclass\nclass Paths:\n    train: str = MISSING\n"
    files = {"train.py": loop("pass", HYDRA.replace("NAME", "train") + fields)}
    made = draft(
        project({**files, "conf/train.yaml": text, "run.sh": f"python train.py {words}\n"})
    )
    assert any("must give train" in one for one in made.questions) == asks


def test_what_a_script_exports_for_another_machine_is_a_question_and_a_secret_is_left_out(project):
    script = (
        "export HTTP_PROXY=http://a:1\nexport TOOLS=/opt/tools\nexport HF_TOKEN=hf_abcdefgh12345678\n"
        "export MASTER_PORT=99\nexport OMP_NUM_THREADS=1\npython train.py\n"
    )
    made = draft(project({"train.py": loop("pass"), "run.sh": script}))
    assert made.values()["variables"] == {
        "HTTP_PROXY": "http://a:1", "TOOLS": "/opt/tools", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    assert (
        "are HTTP_PROXY, TOOLS right on the box?; HF_TOKEN belongs under secrets: where is it?"
        in made.questions
    )


def test_a_job_that_would_be_refused_is_a_question(project):
    words = "--hub-token hf_abcdefghijklmnop1234567890abcdefgh"
    made = draft(project({"train.py": loop("pass"), "run.sh": f"python train.py {words}\n"}))
    assert any("it is refused as it is: " in one for one in made.questions)


@pytest.mark.parametrize(("before", "words", "asked"), [
    ("", "--gpu-id 1", "the command has gpu_id 1: which cards"),
    ("", "--gpu-id 0", ""),
    ("", "--device cuda:2", "the command has device cuda:2"),
    ("", "--device cpu", "the command has device cpu"),
    ("", "--device cuda", ""),
    ("import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0,1'\n", "", "train.py:2 names the cards 0,1"),
    ("import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0'\n", "", ""),
    ("# 'cuda:3'\nwhere = 'cuda:0'\n", "", ""),
])  # fmt: skip
def test_a_card_that_the_box_may_lack_is_a_question(project, before, words, asked):
    made = draft(
        project({"train.py": loop("pass", before), "run.sh": f"python train.py {words}\n"})
    )
    found = [one for one in made.questions if "which cards does it use there" in one]
    assert bool(found) == bool(asked) and all(one.startswith(asked) for one in found)


@pytest.mark.parametrize(("value", "asks"), [("best/a.pth", True), ("auto", False)])
def test_a_command_that_begins_at_a_file_each_time_is_a_question(project, value, asks):
    parser = ARGUMENTS.replace("ARGS", "p.add_argument('--resume')")
    program = loop("torch.save(model, f'ck/{epoch}.pt')", parser)
    run = f"python train.py --resume {value}\n"
    made = draft(project({"train.py": program, "run.sh": run}))
    assert any(f"begins at {value} each time" in one for one in made.questions) == asks


@pytest.mark.parametrize(("load", "asks"), [
    ("torch.load('models/old.pt')\n", True),
    ("torch.load('sent/a.pt')\n", False),
    ("import os\nif os.path.exists('ck/1.pt'):\n    torch.load('models/old.pt')\n", False),
    ("def back():\n    torch.load('ck/1.pt')\nback()\n", False),  # the program's own
    ("torch.load(input)\n", False),
])  # fmt: skip
def test_a_file_that_is_loaded_and_not_sent_is_a_question(project, load, asks):
    program = loop("torch.save(model, f'ck/{epoch}.pt')", "import torch\n" + load)
    made = draft(project({"train.py": program, "sent/a.pt": ""}))
    assert any("it loads models/old.pt, which isn't sent" in one for one in made.questions) == asks
    assert not any("ck/1.pt" in one for one in made.questions)


def test_a_file_that_is_loaded_before_the_program_has_saved_it_is_a_question(project):
    end = "torch.load('ck/2.pt')\n"
    program = loop("torch.save(model, f'ck/{epoch}.pt')", "import torch\ntorch.load('ck/1.pt')\n")
    made = draft(project({"train.py": program + end}))
    assert any("it loads ck/1.pt, which isn't sent" in one for one in made.questions)


@pytest.mark.parametrize(("asked", "gpus", "slurm"), [
    ("#SBATCH --partition=big\n#SBATCH --gres=gpu:a100:4\n", 4, "# slurm: {partition: big}"),
    ("#SBATCH -p big\n#SBATCH -A me\n#SBATCH --gpus-per-node 2\n", 2, "# slurm: {partition: big, account: me}"),
    ("#SBATCH --time=1:00:00\n", 1, ""),
])  # fmt: skip
def test_what_a_script_asks_of_slurm_is_kept(project, asked, gpus, slurm):
    made = draft(project({"train.py": loop("pass"), "a.sbatch": f"{asked}python train.py\n"}))
    assert made.values()["gpus"] == gpus
    assert slurm in made.as_yaml() and ("slurm:" in made.as_yaml()) == bool(slurm)
    assert (
        "# platform: slurm  " in made.as_yaml() and "guessed: a.sbatch is for it" in made.as_yaml()
    )


def switched(option: str, *, called: bool) -> str:
    """Return a program whose training, a function or a loop, stands below an option."""
    above = ARGUMENTS.replace("ARGS", option).replace("p.parse_args()", "args = p.parse_args()")
    body = textwrap.indent(loop("torch.save(model, f'ck/{epoch}.pt')"), "    ")
    if called:
        return f"{above}def fit_all():\n{body}\nif args.train:\n    fit_all()\n"
    return f"{above}if args.train:\n{body}"


@pytest.mark.parametrize("called", [True, False])
@pytest.mark.parametrize(("option", "words", "asks"), [
    ("p.add_argument('--train', action='store_true')", "", True),
    ("p.add_argument('--train', action='store_true')", "--train", False),
    ("p.add_argument('--train', type=int, default=1)", "", False),
])  # fmt: skip
def test_a_training_that_an_option_switches_on_is_asked_for(project, called, option, words, asks):
    files = {"train.py": switched(option, called=called), "run.sh": f"python train.py {words}\n"}
    asked = [one for one in draft(project(files)).questions if "trains only with --train:" in one]
    assert bool(asked) == asks


def test_a_training_elsewhere_needs_no_option(project):
    option = "p.add_argument('--train', action='store_true')"
    program = switched(option, called=False) + "else:\n    loss.backward()\n"
    assert not any("trains only" in one for one in draft(project({"train.py": program})).questions)


@pytest.mark.parametrize(("added", "flag"), [
    (("--loadckpt", "--resume"), "--resume"),
    (("--load_ckpt", "--continue_from"), "--continue_from"),
    (("--resume_epoch", "--resume_net"), "--resume_net"),
])  # fmt: skip
def test_the_option_that_is_named_after_going_on_comes_before_one_that_loads(project, added, flag):
    types = {"--resume_epoch": ", type=int"}
    args = "\n".join(f"p.add_argument('{one}'{types.get(one, '')})" for one in added)
    made = draft(project({"train.py": loop(SAVE, ARGUMENTS.replace("ARGS", args))}))
    assert made.values()["resume"] == {"flag": flag}


@pytest.mark.parametrize("option", ["--loadckpt", "--resume_net", "--continue_training"])
def test_an_option_that_is_not_known_to_go_on_is_a_question(project, option):
    before = ARGUMENTS.replace("ARGS", f"p.add_argument('{option}')")
    program = loop(SAVE, before) + "optimizer = opt\noptimizer.load_state_dict({})\n"
    made = draft(project({"train.py": program}))
    assert any(f"does {option} go on" in one for one in made.questions)


def test_where_no_option_to_go_on_is_known_nothing_is_claimed(project):
    text = draft(project({"train.py": loop(SAVE)})).as_yaml()
    row = next(row for row in text.splitlines() if row.startswith("# resume:"))
    assert "if it takes an option to go on" in row and "found" not in row


@pytest.mark.parametrize(("recipe", "words", "saves"), [
    ('"no"', "", False), ("no", "", False), ("steps", "", True), ("steps", "--save_strategy no", False),
])  # fmt: skip
def test_a_trainer_that_is_told_not_to_save_has_no_checkpoint(project, recipe, words, saves):
    files = {
        "train.py": FRAMEWORKS["parser"][0],
        "a.yaml": f"output_dir: out/x\nsave_strategy: {recipe}\n",
        "README.md": f"```\npython train.py --config a.yaml {words}\n```\n",
    }
    assert bool(checkpoint_of(project(files))) == saves


@pytest.mark.parametrize(("line", "asked"), [
    ("accelerate launch --config_file a/b.yaml train.py", "with --config_file a/b.yaml"),
    ("accelerate launch --num_processes 2 --mixed_precision=bf16 train.py", "with --mixed_precision=bf16"),
    ("accelerate launch --num_processes=2 --main_process_port 1 train.py", ""),
    ("torchrun --standalone --nproc_per_node 2 train.py", ""),
    ("deepspeed --include localhost:4,5 train.py", "with --include localhost:4,5"),
])  # fmt: skip
def test_what_a_launcher_is_told_besides_is_a_question(project, line, asked):
    made = draft(project({"train.py": loop(SAVE), "README.md": f"```\n{line}\n```\n"}))
    found = [one for one in made.questions if "which the launcher doesn't get" in one]
    assert bool(found) == bool(asked) and all(asked in one for one in found)


@pytest.mark.parametrize(("words", "command", "left"), [
    ("conf/new_(A, B, or c)/x.py", ["conf/new_(A, B, or c)/x.py"], "conf/new_(A, B, or c)/x.py"),
    ("--net resnet50 or", ["--net", "resnet50"], "or"),
    ("--net resnet50 or vgg", ["--net", "resnet50"], "or vgg"),
    ("--net a|b --x 1", ["--net", "a|b", "--x", "1"], "a|b"),
    ('--name "a (b) or c|d"', ["--name", "a (b) or c|d"], None),
    ("--x 1 (see below)", ["--x", "1"], None),
    ("--x 1|tee log", ["--x", "1|tee", "log"], "1|tee"),
])  # fmt: skip
def test_a_choice_within_a_command_is_kept_whole_and_asked_about(project, words, command, left):
    made = draft(
        project({"train.py": loop(SAVE), "README.md": f"```\npython train.py {words}\n```\n"})
    )
    assert made.values()["command"][2:] == command
    assert any("leaves open" in one for one in made.questions) == bool(left)
    assert not left or left in made.questions[0]


@pytest.mark.parametrize(("lists", "asked"), [
    ({"requirements.txt": "numpy\n", "requirements/mm.txt": "mm-core>=2\n"}, True),
    ({"requirements.txt": "numpy\n-r requirements/mm.txt\n", "requirements/mm.txt": "mm_core\n"}, False),
    ({"requirements.txt": "MM-core\n", "requirements/mm.txt": "mm-core\n"}, False),
    ({"requirements.txt": "numpy\n", "requirements/mm.txt": "other\n"}, False),
    ({"requirements.txt": "numpy\n", "environment.yml": "dependencies:\n  - mm-core=2\n"}, True),
    ({"environment.yml": "dependencies:\n  - mm-core=2\n", "requirements/a.txt": "mm_core\n"}, False),
])  # fmt: skip
def test_a_package_that_another_list_alone_has_is_a_question(project, lists, asked):
    made = draft(project({"train.py": loop(SAVE, "import mm_core.runner\n"), **lists}))
    assert any("has mm_core, which the program imports" in one for one in made.questions) == asked


@pytest.mark.parametrize(("line", "launcher"), [
    ("python3  -m torch.distributed.launch --nproc_per_node 2 train.py --x 1", "torchrun"),
    ("python train.py --x 1", None),
])  # fmt: skip
def test_a_block_whose_language_is_python_is_no_part_of_its_command(project, line, launcher):
    values = draft(
        project({"train.py": loop(SAVE), "README.md": f"```python\n{line}\n```\n"})
    ).values()
    assert values.get("launcher") == launcher and values["command"][-2:] == ["--x", "1"]


@pytest.mark.parametrize("parse", [
    "if __name__ == '__main__':\n    main()\n",
    "",
])  # fmt: skip
def test_options_of_an_imported_program_are_not_asked_for(project, parse):
    score = (
        "from argparse import ArgumentParser\np = ArgumentParser()\np.add_argument('path', nargs=2)\n"
        "def main():\n    p.parse_args()\n" + parse
    )
    made = draft(project({"train.py": loop(SAVE, "from score import *\n"), "score.py": score}))
    assert made.questions == []


@pytest.mark.parametrize(("words", "asked"), [
    ("train -a 1", []), ("predict -b 1", []), ("train", ["-a"]), ("", ["-a", "-b"]),
])  # fmt: skip
def test_only_the_options_of_the_subcommand_that_is_used_are_asked_for(project, words, asked):
    before = (
        "import argparse\np = argparse.ArgumentParser()\nsub = p.add_subparsers()\n"
        "t = sub.add_parser('train')\nt.add_argument('-a', required=True)\n"
        "u = sub.add_parser('predict')\nu.add_argument('-b', required=True)\np.parse_args()\n"
    )
    made = options.read([source_of(loop(SAVE, before))], words.split())
    assert [one.flag for one in options.unset(made, words.split())] == asked


def source_of(text: str) -> sources.Source:
    return sources.Source("train.py", text, ast.parse(text))


@pytest.mark.parametrize(("before", "save", "pattern"), [
    ("epoch_ = 0 + int(input)\n", "epoch_ += 1; torch.save(model, 'ck/e_' + str(epoch_) + '.pt')", "e_*.pt"),
    ("", "torch.save(model, f'ck/e_{epoch + 1}.pt')", "e_*.pt"),
    ("", "torch.save(model, f'ck/e_{epoch + 1:03d}.pt')", "e_*.pt"),
    ("", "torch.save(model, 'ck/e_' + str(10 + epoch) + '.pt')", "e_*.pt"),
    ("import argparse\np = argparse.ArgumentParser()\np.add_argument('--from', dest='at', default=0, type=int)\n"
     "args = p.parse_args()\nn = 0 + args.at\n", "n += 1; torch.save(model, 'ck/e_' + str(n) + '.pt')", "e_*.pt"),
])  # fmt: skip
def test_a_number_that_counts_leaves_no_digit_of_its_own(project, before, save, pattern):
    assert checkpoint_of(project({"train.py": loop(save, before)}))["pattern"] == pattern


@pytest.mark.parametrize("words", ["--multirun", "-m", "hydra/launcher=slurm"])
def test_a_sweep_or_a_launcher_of_hydra_is_a_question(project, words):
    files = {
        "train.py": "import hydra\n" + loop(SAVE),
        "run.sh": f"python train.py {words} a=1\n",
    }
    assert any(f"it has {words}, for many runs" in one for one in draft(project(files)).questions)


def test_a_line_that_is_commented_out_stands_behind_the_real_one(project):
    lines = "# python train.py a=1\npython train.py a=2\n# python train.py a=3\n"
    made = draft(project({"train.py": loop(SAVE), "README.md": f"```\n{lines}```\n"}))
    assert made.values()["command"] == ["python3", "train.py", "a=2"] and made.questions == []
    (made_folder := project({})).joinpath("README.md").write_text("```\n# python train.py a=1\n```")
    assert (
        "README.md leaves open: 'a line that is commented out'" in draft(made_folder).questions[0]
    )


STEPS = """
import torch
model, opt = torch.nn.Linear(1, 1), None
LOOP
    loss = model(torch.zeros(1)).sum()
    loss.backward()
    opt.step(); opt.zero_grad()
    torch.save(model, 'out/a.pt')
"""
TRAINER = "from transformers import Trainer, TrainingArguments\nTrainer(args=TrainingArguments('out', ARGS)).train()\n"
LIGHTNING = "import lightning as L\nL.Trainer(ARGS).fit(model)\n"
NO_EPOCH = "def train_one(n):\n    for step in range(n):\n        loss.backward()\nfor epoch in range(3):\n    train_one(500)\n"
LENGTHS = [
    # (the program, its last step, the reason)
    (STEPS.replace("LOOP", "for step in range(500):"), "500", "it ends by train.py:4; write the last step"),
    (STEPS.replace("LOOP", "max_iters = 500\nfor it in tqdm(range(1, max_iters + 1)):"), "500", "it ends by max_iters, train.py:5;"),
    (STEPS.replace("LOOP", "step, N = 0, 9\nmost = 500\nwhile step < most:"), "500", "it ends by most, train.py:6;"),
    (STEPS.replace("LOOP", "most = 500\nwhile True:\n    if step > most: break"), "500", "it ends by most, train.py:5;"),
    (TRAINER.replace("ARGS", "max_steps=500, num_train_epochs=2"), "500", "it ends by max_steps, train.py:2;"),
    (TRAINER.replace("ARGS", "max_steps=-1, num_train_epochs=2"), "", "it trains 2 epochs (num_train_epochs, train.py:2);"),
    (TRAINER.replace("ARGS", "num_train_epochs=2.0"), "", "it trains 2 epochs (num_train_epochs, train.py:2);"),
    (LIGHTNING.replace("ARGS", "max_epochs=30"), "", "it trains 30 epochs (max_epochs, train.py:2);"),
    (loop("torch.save(model, 'a.pt')"), "", "it trains 3 epochs (train.py:4);"),
    (loop("torch.save(model, 'a.pt')").replace("range(3)", "range(1, count() + 1)"), "",
     "it trains by epochs (count(), train.py:4), whose number"),
    ("import torch\n" + NO_EPOCH, "", "it trains 3 epochs (train.py:5);"),
    (STEPS.replace("LOOP", "for step in range(500):") + STEPS.replace("LOOP", "for step in range(90):"), "",
     "several parts train, the first for 500 (train.py:4)"),
    (STEPS.replace("LOOP", "while True:"), "", "the source doesn't tell how long it trains"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "steps", "why"), LENGTHS)
def test_the_last_step_is_what_ends_the_training_or_open_with_its_reason(
    project, program, steps, why
):
    text = draft(project({"train.py": program}), "train.py").as_yaml()
    line = next(row for row in text.splitlines() if row.startswith("# final_step:"))
    assert line.partition("  #")[0].removeprefix("# final_step:").strip() == steps
    assert line.partition("  # ")[2].removeprefix("open: ").startswith(why)
    assert (steps == "") == ("# open: " in line)


@pytest.mark.parametrize(("uses", "is_total"), [
    ("if it >= args.max_iter: break", True), ("if it > args.max_iter * 128: break", False), ("pass", False),
])  # fmt: skip
def test_an_option_named_after_the_steps_counts_where_a_loop_ends_by_it(project, uses, is_total):
    before = ARGUMENTS.replace("ARGS", "p.add_argument('--max-iter', type=int, default=700)")
    program = loop(f"torch.save(model, 'a.pt')\n    for it in data:\n        {uses}", before)
    text = draft(project({"train.py": program})).as_yaml()
    assert ("# final_step: 700" in text) == is_total


def test_a_draft_reads_the_saves_once(project, monkeypatch):
    from remote_gpu_trainer.runs.project import saves

    read, times = saves.read, []
    monkeypatch.setattr(saves, "read", lambda *given: times.append(1) or read(*given))
    draft(project({"train.py": loop(SAVE)}))
    assert len(times) == 1


@pytest.fixture
def at_home(tmp_path, monkeypatch):
    """A machine that is no rented box, with an empty home."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home/state"))
    for name in [name for name in os.environ if name.startswith(("RUNPOD_", "VAST_"))]:
        monkeypatch.delenv(name)
    (tmp_path / "home/.ssh").mkdir(parents=True)
    return tmp_path / "home"


def platform_row(capsys, folder, *words) -> str:
    main(["init", str(folder), "--write-to", "-", *words])
    rows = capsys.readouterr().out.splitlines()
    return next(row for row in rows if row.removeprefix("# ").startswith("platform:"))


def test_the_platform_is_a_line_of_the_draft(project, at_home, capsys):
    folder = project({"p/train.py": loop(SAVE)}) / "p"
    assert platform_row(capsys, folder).startswith("# platform:    ")
    assert platform_row(capsys, folder, "--profile", "vastai").startswith("platform: vastai  ")
    assert main(["init", str(folder), "--write-to", "-", "--profile", "vasti"]) == 2


@pytest.mark.parametrize(("hosts", "guess"), [
    (["ssh4.vast.ai"], "# platform: vastai  "), (["10.0.0.4", "ssh.runpod.io"], "# platform: runpod  "),
    (["ssh4.vast.ai", "ssh.runpod.io"], "# platform:    "), (["notvast.ai"], "# platform:    "),
])  # fmt: skip
def test_the_platform_is_guessed_by_the_ssh_configuration(project, at_home, capsys, hosts, guess):
    text = "".join(f"Host box{at}\n  HostName {host}\n" for at, host in enumerate(hosts))
    (at_home / ".ssh/config").write_text(text)
    row = platform_row(capsys, project({"p/train.py": loop(SAVE)}) / "p")
    assert row.startswith(guess)
    assert ("guessed: your ssh configuration has " in row) == (guess != "# platform:    ")


def test_a_terminal_asks_for_what_the_job_can_do_without(project, at_home, monkeypatch):
    from remote_gpu_trainer.cli import init

    folder = project({"p/train.py": loop(SAVE)}) / "p"
    made = draft(folder)
    answers = iter(["runpod", "3000"])
    asked = []
    monkeypatch.setattr(init.click, "prompt", lambda *a, **k: next(answers, ""))
    monkeypatch.setattr(init.click, "echo", lambda text, err: asked.append(text))
    init._ask(made)
    assert made.values()["platform"] == "runpod" and made.values()["final_step"] == 3000
    assert asked[0].startswith("on which platform does it run?") and "not known" in asked[0]
    assert "it trains 3 epochs (train.py:4)" in asked[1]


def test_a_projects_own_add_arg_puts_the_dashes_before_the_name(project):
    before = (
        "import argparse, functools\nfrom utils import add_arguments\np = argparse.ArgumentParser()\n"
        "add_arg = functools.partial(add_arguments, argparser=p)\n"
        "add_arg('out', str, 'saved', 'where to')\n"
        "add_arg('resume_from_checkpoint', type=str, default=None, help='x')\nargs = p.parse_args()\n"
    )
    folder = project({"train.py": loop("torch.save(model, f'{args.out}/a.pt')", before)})
    values = draft(folder).values()
    assert values["checkpoint"]["folder"] == "saved"
    assert values["resume"] == {"flag": "--resume_from_checkpoint"}


@pytest.mark.parametrize(("imports", "is_asked"), [
    ("from other import load", False), ("from other import load, read_args\nread_args([])", True),
])  # fmt: skip
def test_options_of_another_program_of_the_project_are_none_of_this_one(project, imports, is_asked):
    other = """
        import argparse, sys
        def read_args(words):
            p = argparse.ArgumentParser()
            p.add_argument("--image", required=True)
            return p.parse_args(words)
        def load(): pass
        if __name__ == "__main__":
            read_args(sys.argv[1:])
    """
    own = "import argparse\ndef read_args_of(words):\n    return argparse.ArgumentParser().parse_args(words)\n"
    program = f"{imports}\n{own}read_args_of([])\n{loop(SAVE)}load()\n"
    if not is_asked:
        program = program.replace("read_args_of", "read_args")
    made = draft(project({"train.py": program, "other.py": other}), "train.py")
    assert any("asks for --image" in one for one in made.questions) == is_asked


CLI = "from model import Model\nfrom lightning.pytorch.cli import LightningCLI\nif __name__ == '__main__':\n    LightningCLI(Model)\n"


@pytest.mark.parametrize(("words", "is_asked"), [("", True), (" fit --config a.yaml", False)])
def test_a_lightning_cli_is_a_program_and_its_subcommand_a_question(project, words, is_asked):
    readme = f"```\npython cli.py{words}\n```\n"
    made = draft(project({"cli.py": CLI, "README.md": readme}))
    assert made.program == "cli.py"
    assert any("takes fit and --config FILE" in one for one in made.questions) == is_asked
    assert any("the default of a LightningCLI" in one for one in made.questions)


def test_a_trainer_that_a_configuration_names_is_started_by_the_program_of_the_readme(project):
    files = {
        "train.py": "import torch\nfrom util import make\ntrainer = make('trainer')\nif __name__ == '__main__':\n    trainer.train()\n",
        "util.py": "import importlib\ndef make(name): return importlib.import_module(name)\n",
        "trainer/trainer.py": "import torch\nprint('on')\nclass Trainer:\n    def train(self):\n        loss.backward()\n",
        "README.md": "```\npython train.py\n```\n",
    }
    assert draft(project(files)).program == "train.py"


@pytest.mark.parametrize(("save", "pattern"), [
    ("p = f'out/a_{step}.pt'\n    torch.save(model, p)", "a_*.pt"),
    ("torch.save(model, f'out/e{epoch}_{score / 2000:.4f}.pt')", "e*_*.pt"),
])  # fmt: skip
def test_a_path_made_in_a_loop_and_one_with_a_fraction_are_read(project, save, pattern):
    program = loop(save).replace("for epoch in range(3):", "while True:")
    assert checkpoint_of(project({"train.py": program}))["pattern"] == pattern


def test_a_switched_off_load_is_no_file(project):
    before = "path = False\nstate = torch.load(path) if path else None\nold = torch.load(path)\n"
    made = draft(project({"train.py": "import torch\n" + before + loop(SAVE)}))
    assert not any("it loads" in one for one in made.questions)


@pytest.mark.parametrize(("option", "asks"), [
    ("'--data', default='../datasets'", "it names ../datasets: is that on the box?"),
    ("'--data', default='data'", ""),
    ("'--dataset', choices=['a', 'b'], default=first", ""),
    ("'--device', default='cpu'", "device is cpu where nothing else is said"),
    ("'--device', default='cuda'", ""),
])  # fmt: skip
def test_data_above_the_folder_and_a_device_that_is_cpu_are_questions(project, option, asks):
    made = draft(project({"train.py": "from other import first\n" + with_options(SAVE, option)}))
    assert any(asks in one for one in made.questions) if asks else made.questions == []


def test_a_file_of_settings_goes_before_a_dataclass_whose_default_it_sets(project):
    before = "import argparse, dataclasses\np = argparse.ArgumentParser()\np.add_argument('--config', default='c.yaml')\n"
    before += "@dataclasses.dataclass\nclass Settings:\n    max_epochs: int = 1\n"
    files = {
        "train.py": before + STEPS.replace("LOOP", "while True:"),
        "c.yaml": "training: {max_epochs: 50}\n",
    }
    assert "it trains 50 epochs (training.max_epochs)" in draft(project(files)).as_yaml()


@pytest.mark.parametrize(
    ("listed", "variables"), [("evaluate==0.4\n", None), ("torch\n", {"PYTHONPATH": "."})]
)
def test_a_folder_that_is_called_as_an_installed_package_is_not_imported(
    project, listed, variables
):
    files = {
        "train/fit.py": "import evaluate\n" + loop(SAVE),
        "evaluate/run.py": "x = 1\n",
        "requirements.txt": listed,
    }
    assert draft(project(files)).values().get("variables") == variables
