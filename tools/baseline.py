#!/usr/bin/env python3
"""Freeze what every tool answers, and list what a change of the code changes.

usage: python tools/baseline.py [--write | --save FILE | --against FILE]

Without an option: answer everything again and list the answers whose digest differs from
tests/records/baseline.json; exit 1 if any does. `--write` writes that record anew. A digest can't
say what changed, so `--save FILE` keeps the answers themselves, and `--against FILE` shows for each
difference what the saved answer was and what it is now:

    git worktree add /tmp/before main && cp tools/baseline.py /tmp/before/tools/
    (cd /tmp/before && python tools/baseline.py --save /tmp/before.json.gz)
    python tools/baseline.py --against /tmp/before.json.gz

What is asked: every report of evals/cases.jsonl and evals/sets, every log there, some reports
within whole logs and as folders of ranks, short lines, jobs on every target, staleness, the memory
of models, the captures of boxes, and what the server lists. All on one day (TODAY), since ages are
part of an answer. Three to four minutes on one core.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "server"))
RECORD = ROOT / "tests/records/baseline.json"
EVALS = ROOT / "evals"
TODAY = date(2026, 11, 26)
REPORTS = ("cases", "sets/by_time", "sets/fresh", "sets/waiting", "sets/near")
LOGS = ("evals/logs", "evals/sets/curves", "evals/sets/healthy_logs", "evals/sets/good_runs")
LOGS += ("examples/logs", "evals/tasks")
# Every how many of them: these ask the same reader about the same kind of text.
SHORT, WHOLE, RANKS = 4, 8, 12
INSTALLED = (
    "torch==2.9.1\ntransformers==5.2.0\n",
    "torch==1.13.1\naccelerate==0.20.0\npeft==0.7.0\n",
    "numpy==2.4.6\ndeepspeed==0.19.8\nlightning==2.6.6\n",
)
RELEASED = ("torch 2.14", "transformers 6.0", "deepspeed 0.20")
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": True,
}
BERT = {
    "architectures": ["BertForMaskedLM"],
    "model_type": "bert",
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "vocab_size": 30522,
}
MODELS = {"llama": LLAMA, "bert": BERT, "empty": {}, "unknown": {"model_type": "nothing-known"}}
FIT = (
    ["--batch", "1", "--sequence", "512"],
    ["--batch", "4", "--sequence", "4096", "--gpu", "H100-80GB"],
    ["--batch", "8", "--sequence", "2048", "--precision", "bf16-mixed", "--gpu", "A100-40GB"],
    ["--batch", "2", "--sequence", "1024", "--lora", "16", "--precision", "4bit-bf16"],
    ["--batch", "2", "--sequence", "1024", "--checkpointing", "--optimizer", "sgd-momentum"],
)


def main() -> int:
    """Answer everything, then write, save or compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--write", action="store_true", help="write the record of digests")
    way.add_argument("--save", metavar="FILE", type=Path, help="keep the answers (.json.gz)")
    way.add_argument("--against", metavar="FILE", type=Path, help="compare with kept answers")
    given = parser.parse_args()
    answers = dict(all_answers())
    digests = {name: digest(answer) for name, answer in answers.items()}
    if given.write:
        RECORD.write_text(json.dumps(digests, indent=0, sort_keys=True) + "\n", encoding="utf-8")
        print(f"{len(digests)} answers written to {RECORD.relative_to(ROOT)}")
        return 0
    if given.save:
        given.save.write_bytes(gzip.compress(json.dumps(answers, ensure_ascii=False).encode()))
        print(f"{len(digests)} answers kept in {given.save}")
        return 0
    if given.against:
        saved = json.loads(gzip.decompress(given.against.read_bytes()))
        before = {name: digest(answer) for name, answer in saved.items()}
    else:
        saved, before = {}, json.loads(RECORD.read_text(encoding="utf-8"))
    changed = [name for name in {**before, **digests} if before.get(name) != digests.get(name)]
    for name in changed:
        print(name)
        if name in saved or name in answers and saved:
            print(f"  before: {brief(saved.get(name))}\n  now:    {brief(answers.get(name))}")
    print(f"{len(changed)} of {len(digests)} answers differ")
    return int(bool(changed))


def digest(answer: object) -> str:
    """Twelve hexadecimal digits of an answer's SHA-256."""
    text = json.dumps(answer, ensure_ascii=False, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def brief(answer: object) -> str:
    """An answer in one line: the ids and confidences of a look-up, else its first characters."""
    if isinstance(answer, dict) and "matches" in answer:
        ids = [f"{match['id']} {match['confidence']}" for match in answer["matches"]]
        also = [title["id"] for title in answer.get("also", [])]
        return f"{ids} also {also[:5]} ask {answer.get('ask', '')[:80]!r}"
    return json.dumps(answer, ensure_ascii=False, default=str)[:300]


def all_answers() -> Iterator[tuple[str, object]]:
    """(its name, the answer) of everything that is asked."""
    for part in (reports, short_lines, logs, whole_logs, rank_folders, jobs, ages):
        yield from part()
    for part in (memory, boxes, listings):
        yield from part()


def lines_of(name: str) -> list[dict]:
    """The objects of a .jsonl file of evals/."""
    text = (EVALS / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def text_of(case: dict) -> str:
    """A report's text, which may stand in a file beside it."""
    return case["text"] if "text" in case else (EVALS / case["file"]).read_text(encoding="utf-8")


def look_up(**asked: object) -> object:
    """The answer of the function that command line and server call, or the error's text."""
    from remote_gpu_trainer.logs.files import Unreadable
    from remote_gpu_trainer.lookup.answer import answer_for
    from remote_gpu_trainer.text import BadRequest

    try:
        return answer_for(**asked, today=TODAY).as_dict()  # type: ignore[arg-type]
    except (BadRequest, Unreadable) as error:
        return str(error)


def reports() -> Iterator[tuple[str, object]]:
    """Every report as a pasted text; of some also with what the asker has installed."""
    for name in REPORTS:
        for at, case in enumerate(lines_of(name)):
            yield f"report {name} {case['id']}", look_up(text=text_of(case))
            if at % 40 == 0:
                answer = look_up(text=text_of(case), installed=INSTALLED[at // 40 % 3], limit=5)
                yield f"report {name} {case['id']} installed", answer


def short_lines() -> Iterator[tuple[str, object]]:
    """Questions of a few words."""
    for case in lines_of("sets/short")[::SHORT]:
        yield f"short {case['id']}", look_up(text=case["text"])


def logs() -> Iterator[tuple[str, object]]:
    """Every log and folder of logs in the tree, by its path."""
    for folder in LOGS:
        for path in sorted((ROOT / folder).iterdir()):
            name = path.relative_to(ROOT).as_posix()
            yield f"log {name}", look_up(log=str(path))
    for path in sorted((EVALS / "sets/healthy_logs").glob("*.log"))[::4]:
        question = "the loss doesn't go down"
        yield f"log and question {path.name}", look_up(log=str(path), text=question)


def whole_logs() -> Iterator[tuple[str, object]]:
    """Reports behind the log of a healthy run, without and with a good log beside it."""
    healthy = sorted((EVALS / "sets/healthy_logs").glob("*.log"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.log"
        for at, case in enumerate(lines_of("cases")[::WHOLE]):
            beside = healthy[at % len(healthy)]
            log = beside.read_text(encoding="utf-8", errors="replace")
            path.write_text(f"{log[:12_000]}\n{text_of(case)[-7_000:]}\n", encoding="utf-8")
            yield f"whole log {case['id']}", look_up(log=str(path))
            if at % 10 == 0:
                yield f"good log {case['id']}", look_up(log=str(path), good=str(beside))
                said = "it died after an hour"
                yield f"whole log and text {case['id']}", look_up(log=str(path), text=said)


def rank_folders() -> Iterator[tuple[str, object]]:
    """A report as rank 2 of three, in one log and as a folder with a file a rank."""
    words = {path.stem: path.read_text() for path in (EVALS / "sets/ranks").glob("*.txt")}
    others = sorted(set(words) - {"torchrun"})
    for at, case in enumerate(lines_of("cases")[::RANKS]):
        victims = words[others[at % len(others)]]
        own = text_of(case)[-7_000:]
        ranked = "".join(f"[rank2]: {line}\n" for line in own.splitlines())
        summary = words["torchrun"] if at % 2 else ""
        both = victims.replace("%R", "0") + victims.replace("%R", "1")
        yield f"ranks in one log {case['id']}", look_up(text=f"{ranked}{both}{summary}")
        with tempfile.TemporaryDirectory() as folder:
            texts = [victims.replace("%R", "0"), victims.replace("%R", "1"), own]
            for rank, text in enumerate(texts):
                (Path(folder) / f"rank_{rank}.log").write_text(text, encoding="utf-8")
            if summary:
                (Path(folder) / "torchrun.log").write_text(summary, encoding="utf-8")
            yield f"rank folder {case['id']}", look_up(log=folder)


def jobs() -> Iterator[tuple[str, object]]:
    """Rendered scripts of every job that the evals have."""
    from remote_gpu_trainer.runs.rendering import rendered
    from remote_gpu_trainer.text import UserError

    # Outside of git, whose commit a script names; always at one path, which is part of its hash.
    code = Path("/tmp/baseline-of-answers/code")
    code.mkdir(parents=True, exist_ok=True)
    (code / "train.py").write_text("print('trained')\n", encoding="utf-8")
    for case in lines_of("sets/render"):
        job = {**case["job"], **({"code": str(code)} if "code" in case["job"] else {})}
        try:
            answer: object = rendered(job, case["profile"], case.get("target"), on=TODAY)
        except UserError as error:
            answer = str(error)
        yield f"job {case['id']}", json.loads(json.dumps(answer, default=str))


def ages() -> Iterator[tuple[str, object]]:
    """What is stale, by date, platform, installation and release."""
    from remote_gpu_trainer.platforms import checking

    profiles = sorted(path.stem for path in (ROOT / "profiles").glob("[a-z]*.md"))
    questions: list[dict] = [{"on": day} for day in (TODAY, date(2027, 6, 1), date(2029, 1, 1))]
    questions += [{"on": date(2027, 6, 1), "scope": name} for name in [*profiles, "O", "D9"]]
    questions += [{"on": TODAY, "packages": text} for text in INSTALLED]
    questions += [{"on": TODAY, "released": name} for name in RELEASED]
    for question in questions:
        asked = {**question}
        found = checking.check(asked.pop("on"), **asked).as_dict()
        yield f"staleness {json.dumps(question, default=str)}", found


def memory() -> Iterator[tuple[str, object]]:
    """`rgt fit` on configurations of models."""
    with tempfile.TemporaryDirectory() as folder:
        for name, config in MODELS.items():
            path = Path(folder) / name / "config.json"
            path.parent.mkdir()
            path.write_text(json.dumps(config))
            for options in FIT:
                command = ["-m", "remote_gpu_trainer", "fit", str(path), *options, "--json"]
                told = run(command)
                yield (
                    f"fit {name} {' '.join(options)}",
                    [text.replace(folder, "") if isinstance(text, str) else text for text in told],
                )
            yield f"config {name}", look_up(log=str(path))


def boxes() -> Iterator[tuple[str, object]]:
    """The box check on what other boxes printed."""
    for capture in sorted((ROOT / "tests/gpu_health/gpu_captures").iterdir()):
        if capture.is_dir() and not capture.name.startswith("_"):
            for more in ([], ["--expect", "gpus=8,name=H100"]):
                script = str(ROOT / "scripts/gpu_health.py")
                told = run([script, "--replay", str(capture), "--json", *more])
                yield f"health {capture.name} {' '.join(more)}", told


def run(command: list[str]) -> list:
    """[exit code, stdout, stderr] of a Python program."""
    path = {"PYTHONPATH": str(ROOT / "server"), "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=path)
    return [done.returncode, done.stdout, done.stderr]


def listings() -> Iterator[tuple[str, object]]:
    """The server's tools, resources and prompts, and some answers over it."""
    from mcp import Client, StdioServerParameters

    async def ask() -> dict[str, object]:
        command = StdioServerParameters(
            command=sys.executable,
            args=["-m", "remote_gpu_trainer", "serve"],
            env={"PYTHONPATH": str(ROOT / "server")},
        )
        async with Client(command) as client:
            found: dict[str, object] = {}
            for kind in ("tools", "resources", "resource_templates", "prompts"):
                listed = await getattr(client, f"list_{kind}")()
                found[f"server {kind}"] = listed.model_dump(mode="json")
            for uri in ("entry://D9", "profile://runpod", "schema://job"):
                found[f"server {uri}"] = (await client.read_resource(uri)).model_dump(mode="json")
            return found

    with contextlib.suppress(KeyboardInterrupt):
        yield from asyncio.run(ask()).items()


if __name__ == "__main__":
    sys.exit(main())
