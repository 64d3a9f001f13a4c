"""Each wrong job and the exact words that its writer gets: where it is, what is wrong, what to write."""

import json
import re
import time

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import core_schema
from remote_gpu_trainer.cli.main import main
from remote_gpu_trainer.runs import job_errors
from remote_gpu_trainer.runs.job import Job
from remote_gpu_trainer.runs.job_errors import JobError
from remote_gpu_trainer.runs.job_reading import (
    from_file,
    from_object,
    from_text,
    with_options,
)
from remote_gpu_trainer.runs.rendering import rendered
from remote_gpu_trainer.runs.written import MOST_TOGETHER

HEAD = "name: sft\ncommand: [python, train.py]\ndeadline: 20h\n"
# A word of the code, of its libraries or of their own texts: no user has to know it.
INTERNAL = re.compile(
    r"pydantic|ValidationError|input_value|input_type|type=|\bctx\b|Traceback|[Rr]ecursion|Exception"
    r"|Input should|valid (string|integer|number|boolean|list|dictionary)|unable to parse|\bdict\b|\bstr\b"
    r"|\bint\b|\bbool\b|NoneType|<class|function-|\b(Copy|Checkpoint|Resume|Durable|AtEnd|Stall|Floors"
    r"|Rehearsal|Cell|Queue|Container|Toleration|Skypilot|Job|Secret)\b|yaml\.|json\."
)

# A line in place of that of HEAD, or behind it.
FIELDS = [
    ("gpus: two", "job.yaml line 4, gpus: is a text, and must be a whole number; write gpus: 8"),
    ("gpus: 8 GPUs", "job.yaml line 4, gpus: is a text, and must be a whole number; write gpus: 8"),
    ("gpus: 1.5", "job.yaml line 4, gpus: is 1.5, and must be a whole number; write gpus: 8"),
    ("gpus: -1", "job.yaml line 4, gpus: is -1, and must be 0 or more; write gpus: 8"),
    ("gpus: 65", "job.yaml line 4, gpus: is 65, and must be 64 or less; write gpus: 8"),
    ("gpus: true", "job.yaml line 4, gpus: is true, and must be a whole number; write gpus: 8"),
    ("gpus:", "job.yaml line 4, gpus: has no value; write gpus: 8, or leave it out"),
    ("gpus: [1]", "job.yaml line 4, gpus: is a list, and must be a whole number; write gpus: 8"),
    ("gpus: {a: 1}", "job.yaml line 4, gpus: is an object with fields, and must be a whole number; write gpus: 8"),
    ("gpus: 99999999999999999999", "job.yaml line 4, gpus: is 99999999999999999999, and must be 64 or less; write gpus: 8"),
    ("nodes: 0", "job.yaml line 4, nodes: is 0, and must be 1 or more; write nodes: 2"),
    ("nodes: many", "job.yaml line 4, nodes: is a text, and must be a whole number; write nodes: 2"),
    ("processes: 0", "job.yaml line 4, processes: is 0, and must be 1 or more; write processes: 16"),
    ("budget: 0", 'job.yaml line 4, budget: must be an amount over 0 with its currency; write budget: "45 USD"'),
    ("budget: -5", 'job.yaml line 4, budget: must be an amount over 0 with its currency; write budget: "45 USD"'),
    ("budget: .inf", 'job.yaml line 4, budget: must be an amount over 0 with its currency; write budget: "45 USD"'),
    ("budget: nan", 'job.yaml line 4, budget: must be an amount over 0 with its currency; write budget: "45 USD"'),
    ("budget: $45", 'job.yaml line 4, budget: has a sign in place of its currency; write budget: "45 USD", or EUR, CNY'),
    ("budget: 45 USD", "job.yaml line 4, budget: nothing says what an hour costs; add price: 1.99 USD"),
    ("budget: 45\nprice: 1.99 USD", "job.yaml line 4, budget: names no currency; write budget: 45 USD"),
    ("budget: 45 USD\nprice: 1.99 EUR", "job.yaml line 4, budget: is in USD and price in EUR; write both in one"),
    ("price: free", 'job.yaml line 4, price: must be an amount over 0 with its currency; write price: "1.99 USD"'),
    ("rented: yesterday", 'job.yaml line 4, rented: must be now, or a date and time with its zone; write rented: "2026-12-01T08:00Z"'),
    ("final_step: 0", "job.yaml line 4, final_step: is 0, and must be 1 or more; write final_step: 6000"),
    ("final_step: 1e3x", "job.yaml line 4, final_step: is a text, and must be a whole number; write final_step: 6000"),
    ("hours_between_kills: 2d", "job.yaml line 4, hours_between_kills: is a text, and must be a number of hours, without a unit behind it; write hours_between_kills: 48"),
    ("name: 5", 'job.yaml line 3, name: is the number 5, and must be a text; write name: "5"'),
    ("name: true", 'job.yaml line 3, name: is true, and must be a text; write name: "true"'),
    ("name: Sft", "job.yaml line 3, name: must be 1 to 50 of a-z, 0-9 and '-', with '-' neither first nor last; write name: finetune"),
    ("name: my run", "job.yaml line 3, name: must be 1 to 50 of a-z, 0-9 and '-', with '-' neither first nor last; write name: finetune"),
    ("name: ''", "job.yaml line 3, name: must be 1 to 50 of a-z, 0-9 and '-', with '-' neither first nor last; write name: finetune"),
    ("name: [a]", "job.yaml line 3, name: is a list, and must be a text; write name: finetune"),
    ("name:", "job.yaml line 3, name: has no value; write name: finetune"),
    ("python: 3.11", 'job.yaml line 4, python: is the number 3.11, and must be a text; write python: "3.11"'),
    ("python: [python3]", "job.yaml line 4, python: is a list, and must be a text; write python: ~/venv/bin/python"),
    ("python: ''", "job.yaml line 4, python: is empty; write python: ~/venv/bin/python"),
    ("code: 5", 'job.yaml line 4, code: is the number 5, and must be a text; write code: "5"'),
    ("code: [a, b]", "job.yaml line 4, code: is a list, and must be a text; write code: ."),
    ("command: 5", 'job.yaml line 3, command: is the number 5, and must be a list of arguments or one line; write command: [python, train.py], or "5" in quotes for a program of that name'),
    ("command: 1.5", 'job.yaml line 3, command: is the number 1.5, and must be a list of arguments or one line; write command: [python, train.py], or "1.5" in quotes for a program of that name'),
    ("command: true", 'job.yaml line 3, command: is true, and must be a list of arguments or one line; write command: [python, train.py], or "true" in quotes for a program of that name'),
    ("command: []", "job.yaml line 3, command: is empty, so there is nothing to run; write command: [python, train.py]"),
    ("command: ''", "job.yaml line 3, command: is empty, so there is nothing to run; write command: [python, train.py]"),
    ("command: ['']", "job.yaml line 3, command: is empty, so there is nothing to run; write command: [python, train.py]"),
    ("command:", "job.yaml line 3, command: has no value; write command: [python, train.py]"),
    ("command: {python: train.py}", "job.yaml line 3, command: is an object with fields, and must be a text or a list; write command: [python, train.py]"),
    ("command: [python, true]", 'job.yaml line 3, command.1: is true, and must be a text; write "true"'),
    ("command: [python, [a]]", "job.yaml line 3, command.1: is a list, and must be a text; write command: [python, train.py]"),
    ("command: [python, null]", 'job.yaml line 3, command.1: has no value; write "null", or leave it out'),
    ("deadline: 20", "job.yaml line 3, deadline: is a number without a unit; write deadline: 20h, or 20m or 20d"),
    ("deadline: 1.5", 'job.yaml line 3, deadline: is a number without a unit; write deadline: "1.5h", or 1.5m or 1.5d'),
    ("deadline: 0", "job.yaml line 3, deadline: must be over 0, with a unit; write deadline: 20h"),
    ("deadline: -3", "job.yaml line 3, deadline: must be over 0, with a unit; write deadline: 20h"),
    ("deadline: -5h", "job.yaml line 3, deadline: must be over 0; write deadline: 5h"),
    ("deadline: 0h", "job.yaml line 3, deadline: must be over 0 and at most a year; write deadline: 20h"),
    ("deadline: 9999h", "job.yaml line 3, deadline: must be over 0 and at most a year; write deadline: 20h"),
    ("deadline: tomorrow", "job.yaml line 3, deadline: must be a length of time, or a time with its zone; write deadline: 20h, or 90m, 2d, 18:00+02:00, 2026-12-01T08:00Z"),
    ("deadline: ''", "job.yaml line 3, deadline: must be a length of time, or a time with its zone; write deadline: 20h, or 90m, 2d, 18:00+02:00, 2026-12-01T08:00Z"),
    ("deadline:", "job.yaml line 3, deadline: must be a length of time, or a time with its zone; write deadline: 20h"),
    ("deadline: [20h]", "job.yaml line 3, deadline: must be a length of time, or a time with its zone; write deadline: 20h"),
    ("deadline: true", "job.yaml line 3, deadline: must be a length of time, or a time with its zone; write deadline: 20h"),
    ("deadline: 18:00", 'job.yaml line 3, deadline: is a time of day without its zone; write deadline: "18:00Z" for UTC, or 18:00+02:00'),
    ("deadline: 25:00Z", 'job.yaml line 3, deadline: is no time of day with its zone; write deadline: "18:00Z"'),
    ("deadline: 2026-12-01T08:00", 'job.yaml line 3, deadline: is a time without its zone; write deadline: "2026-12-01T08:00Z" for UTC, or 2026-12-01T08:00+02:00'),
    ("deadline: 2026-12-01", 'job.yaml line 3, deadline: is a time without its zone; write deadline: "2026-12-01T00:00Z" for UTC, or 2026-12-01T00:00+02:00'),
    ("deadline: 2026-13-01T08:00Z", 'job.yaml line 3, deadline: is no date and time that there is; write deadline: "2026-12-01T08:00Z"'),
    ("deadline: 20 hours", "job.yaml line 3, deadline: must be one number with s, m, h or d behind it; write deadline: 20h"),
    ("deadline: 1h30m", "job.yaml line 3, deadline: must be one number with s, m, h or d behind it; write deadline: 90m"),
    ("deadline: 1 day, 3 hours", "job.yaml line 3, deadline: must be one number with s, m, h or d behind it; write deadline: 27h"),
    ("deadline: 20H", "job.yaml line 3, deadline: must be one number with s, m, h or d behind it; write deadline: 20h"),
    ("deadline: 9999-12-31T23:59-14:00", "job.yaml line 3, deadline: is out of the years that can be told; write deadline: 20h"),
    ("probe: maybe", "job.yaml line 4, probe: is a text, and must be true or false; write probe: false"),
    ("probe: 5", "job.yaml line 4, probe: is the number 5, and must be true or false; write probe: false"),
    ("probe: [true]", "job.yaml line 4, probe: is a list, and must be true or false; write probe: false"),
    ("checkpoint: out", 'job.yaml line 4, checkpoint: is a text, and must be an object with fields; write checkpoint: {folder: out, pattern: "step_*.pt"}'),
    ("checkpoint: [out]", 'job.yaml line 4, checkpoint: is a list, and must be an object with fields; write checkpoint: {folder: out, pattern: "step_*.pt"}'),
    ("checkpoint: 5", 'job.yaml line 4, checkpoint: is the number 5, and must be an object with fields; write checkpoint: {folder: out, pattern: "step_*.pt"}'),
    ("checkpoint: {}", "job.yaml line 4, checkpoint.folder: missing; write folder: out"),
    ("checkpoint: {folder: 5}", 'job.yaml line 4, checkpoint.folder: is the number 5, and must be a text; write folder: "5"'),
    ("checkpoint: {folder: [out]}", "job.yaml line 4, checkpoint.folder: is a list, and must be a text; write folder: out"),
    ("checkpoint: {folder: ''}", "job.yaml line 4, checkpoint.folder: is empty; write folder: out"),
    ("checkpoint: {folder: /}", "job.yaml line 4, checkpoint.folder: names no file or folder; write one such as out/final.pt"),
    ("checkpoint: {folder: out, pattern: [a]}", 'job.yaml line 4, checkpoint.pattern: is a list, and must be a text; write pattern: "step_*.pt"'),
    ("checkpoint: {folder: out, files: optim.pt}", 'job.yaml line 4, checkpoint.files: is a text, and must be a list; write files: ["optim_*.pt"]'),
    ("checkpoint: {folder: out, files: [../optim.pt]}", "job.yaml line 4, checkpoint.files.0: leads out of the folder; write a glob below it, such as optim_*.pt"),
    ("checkpoint: {folder: out, every_minutes: 30s}", "job.yaml line 4, checkpoint.every_minutes: is a text, and must be a number of minutes, without a unit behind it; write every_minutes: 0.5"),
    ("checkpoint: {folder: out, every_minutes: 2h}", "job.yaml line 4, checkpoint.every_minutes: is a text, and must be a number of minutes, without a unit behind it; write every_minutes: 120"),
    ("checkpoint: {folder: out, every_minutes: -1}", "job.yaml line 4, checkpoint.every_minutes: is -1, and must be 0 or more; write every_minutes: 15"),
    ("checkpoint: {folder: out, save_seconds: 2m}", "job.yaml line 4, checkpoint.save_seconds: is a text, and must be a number of seconds, without a unit behind it; write save_seconds: 120"),
    ("checkpoint: {folder: out, save_seconds: 0}", "job.yaml line 4, checkpoint.save_seconds: is 0, and must be over 0; write save_seconds: 40"),
    ("checkpoint: {folder: out, save_seconds: 9999}", "job.yaml line 4, checkpoint.save_seconds: is 9999, and must be 3600 or less; write save_seconds: 40"),
    ("checkpoint: {folder: out, every: 5}", "job.yaml line 4, checkpoint.every: unknown field; write every_minutes in place of every"),
    ("checkpoint: {folder: out, gpus: 8}", "job.yaml line 4, checkpoint.gpus: stands in the wrong place; write gpus: 8 at the left edge"),
    ("checkpoint: {Folder: out}", "job.yaml line 4, checkpoint.Folder: unknown field; write folder in place of Folder"),
    ("folder: out", "job.yaml line 4, folder: stands in the wrong place; write checkpoint: {folder: out}"),
    ("free_gb: 50", "job.yaml line 4, free_gb: stands in the wrong place; write floors: {free_gb: 50}"),
    ("log_minutes: 10", "job.yaml line 4, log_minutes: stands in the wrong place; write stall: {log_minutes: 10}"),
    ("cells: [{name: a}]", 'job.yaml line 4, cells: stands in the wrong place; write queue: {cells: [{name: seed1, arguments: [--seed, "1"]}, {name: seed2, arguments: [--seed, "2"]}]}'),
    ("every_minutes: 5", "job.yaml line 4, every_minutes: stands in the wrong place; write checkpoint: {every_minutes: 5}"),
    ("partition: gpu", "job.yaml line 4, partition: stands in the wrong place; write slurm: {partition: gpu}"),
    ("comand: x", "job.yaml line 4, comand: unknown field; write command in place of comand"),
    ("Command: x", "job.yaml line 4, Command: unknown field; write command in place of Command"),
    ("step-pattern: x", "job.yaml line 4, step-pattern: unknown field; write step_pattern in place of step-pattern"),
    ("stepPattern: x", "job.yaml line 4, stepPattern: unknown field; write step_pattern in place of stepPattern"),
    ("num_gpus: 8", "job.yaml line 4, num_gpus: unknown field; write gpus: 8"),
    ("env: {A: b}", "job.yaml line 4, env: unknown field; write variables: {WANDB_PROJECT: lora}"),
    ("timeout: 3600", "job.yaml line 4, timeout: unknown field; write deadline: 20h"),
    ("max_steps: 100", "job.yaml line 4, max_steps: unknown field; write final_step: 100"),
    ("output_dir: /out", "job.yaml line 4, output_dir: unknown field; write checkpoint: {folder: out}"),
    ("xyzzy: 1", "job.yaml line 4, xyzzy: unknown field; rgt render --schema lists the fields (schema://job in MCP)"),
    ("on: 1", "job.yaml line 4, on: unknown field; rgt render --schema lists the fields (schema://job in MCP)"),
    ("stall: 30", "job.yaml line 4, stall: is the number 30, and must be an object with fields; write stall: {log_minutes: 10}"),
    ("stall: {foo: 1}", "job.yaml line 4, stall.foo: unknown field; stall has log_minutes, step_minutes, idle_power_minutes"),
    ("stall: {log_minutes: 10m}", "job.yaml line 4, stall.log_minutes: is a text, and must be a number of minutes, without a unit behind it; write log_minutes: 10"),
    ("floors: {free_gb: 50GB}", "job.yaml line 4, floors.free_gb: is a text, and must be a number; write free_gb: 50"),
    ("floors: {free_gb: lots}", "job.yaml line 4, floors.free_gb: is a text, and must be a number; write free_gb: 50"),
    ("floors: {free_inodes: 1.5}", "job.yaml line 4, floors.free_inodes: is 1.5, and must be a whole number; write free_inodes: 200000"),
    ("rehearsal: {minutes: 5m}", "job.yaml line 4, rehearsal.minutes: is a text, and must be a number of minutes, without a unit behind it; write minutes: 5"),
    ("rehearsal: {arguments: --fast}", 'job.yaml line 4, rehearsal.arguments: is a text, and must be a list; write arguments: [--max-steps, "6", --save-steps, "3"]'),
    ("retries: 5", "job.yaml line 4, retries: is the number 5, and must be an object with fields; write retries: {bug: 0, network: 10}"),
    ("retries: {meteor: 2}", "job.yaml line 4, retries.meteor: unknown name; use one of 'preempted', 'killed', 'stall', 'network', 'hang', 'unknown', 'setup', 'bug', 'oom', 'host-oom', 'disk' or 'gpu'"),
    ("retries: {bug: -1}", "job.yaml line 4, retries.bug: is -1, and must be 0 or more; write bug: 0"),
    ("retries: {bug: many}", "job.yaml line 4, retries.bug: is a text, and must be a whole number; write bug: 0"),
    ("retries: {bug: 101}", "job.yaml line 4, retries.bug: is 101, and must be 100 or less; write bug: 0"),
    ("variables: [A=b]", "job.yaml line 4, variables: is a list, and must be an object with fields; write variables: {WANDB_PROJECT: lora}"),
    ("variables: {A: true}", 'job.yaml line 4, variables.A: is true, and must be a text; write A: "true"'),
    ("variables: {A: [1]}", "job.yaml line 4, variables.A: is a list, and must be a text; write A: lora"),
    ("variables: {A: }", "job.yaml line 4, variables.A: has no value; write A: lora, or leave it out"),
    ("variables: {a b: x}", "job.yaml line 4, variables.a b: the name must be of letters, digits and _, with no digit first; rename it"),
    ("variables: {RGT_NAME: x}", "job.yaml line 4, variables.RGT_NAME: names that begin with RGT_ belong to the runner; use another name"),
    ("variables: {PWD: x}", "job.yaml line 4, variables.PWD: bash sets PWD itself, so yours would be lost; use another name"),
    ("secrets: {A: {}}", "job.yaml line 4, secrets.A: give exactly one of file and variable; write A: {file: ~/.cache/huggingface/token}"),
    ("secrets: {A: tok}", "job.yaml line 4, secrets.A: is a text, and must be an object with fields; write A: {file: ~/.cache/huggingface/token}"),
    ("secrets: {A: {fil: x}}", "job.yaml line 4, secrets.A.fil: unknown field; write file in place of fil"),
    ("secrets: {A: {file: a, variable: B}}", "job.yaml line 4, secrets.A: give exactly one of file and variable; write A: {file: ~/.cache/huggingface/token}"),
    ("resume: auto", "job.yaml line 4, resume: is a text, and must be 'automatic' or 'none', or an object with fields; write resume: automatic"),
    ("resume: 5", "job.yaml line 4, resume: is the number 5, and must be 'automatic' or 'none', or an object with fields; write resume: automatic"),
    ("resume: {flag: resume}", "job.yaml line 4, resume.flag: must begin with '-'; write flag: --resume-from"),
    ("resume: {flg: x}", "job.yaml line 4, resume.flg: unknown field; write flag in place of flg"),
    ("resume: {}", "job.yaml line 4, resume: give exactly one of flag, variable and switch; write resume: automatic"),
    ("notify: mail me", "job.yaml line 4, notify: is a text, and must be a list; write notify: [curl, -fsS, -d, @-, https://ntfy.sh/your-topic]"),
    ("notify: 5", "job.yaml line 4, notify: is the number 5, and must be a list; write notify: [curl, -fsS, -d, @-, https://ntfy.sh/your-topic]"),
    ("results: out", "job.yaml line 4, results: is a text, and must be a list; write results: [out/adapter_model.safetensors]"),
    ("results: [/]", "job.yaml line 4, results.0: names no file or folder; write one such as out/final.pt"),
    ("results: [1]", 'job.yaml line 4, results.0: is the number 1, and must be a text; write "1"'),
    ("results: [../x]", "job.yaml line 4, results.0: leads out of the code; write a path inside it, such as out/final.pt, or an absolute one"),
    ("setup: module load cuda", 'job.yaml line 4, setup: is a text, and must be a list; write setup: ["module load cuda"]'),
    ("data: {from: a, to: b}", "job.yaml line 4, data: is an object with fields, and must be a list; write data: [{from: /workspace/sets/wiki, to: data/wiki}]"),
    ("data: [{from: a}]", "job.yaml line 4, data.0.to: missing; write to: data/wiki"),
    ("data: [a]", "job.yaml line 4, data.0: is a text, and must be an object with fields; write {from: /workspace/sets/wiki, to: data/wiki}"),
    ("durable: /mnt/keep", "job.yaml line 4, durable: is a text, and must be an object with fields; write durable: {to: /workspace/keep/finetune, what: [out]}"),
    ("durable: {to: /mnt/keep}", "job.yaml line 4, durable.what: missing; write what: [out]"),
    ("durable: {to: /mnt/keep, what: []}", "job.yaml line 4, durable.what: is empty; write what: [out]"),
    ("durable: {to: 5, what: [out]}", 'job.yaml line 4, durable.to: is the number 5, and must be a text; write to: "5"'),
    ("at_end: stop", "job.yaml line 4, at_end: is a text, and must be an object with fields; write at_end: {do: stop}"),
    ("at_end: {do: halt}", "job.yaml line 4, at_end.do: must be 'keep', 'stop' or 'run'; write do: stop"),
    ("at_end: {do: run}", "job.yaml line 4, at_end: do and command belong together; write {do: run, command: [...]}, or neither"),
    ("at_end: {when: done}", "job.yaml line 4, at_end.when: is a text, and must be a list; write when: [done, failed]"),
    ("at_end: {when: []}", "job.yaml line 4, at_end.when: is empty; write when: [done, failed]"),
    ("at_end: {when: [never]}", "job.yaml line 4, at_end.when.0: must be 'done', 'failed', 'deadline' or 'unsaved'; write done"),
    ("at_end: {do: stop, box_id: a b}", "job.yaml line 4, at_end.box_id: must be up to 100 letters, digits and ._-; write box_id: abc123xyz"),
    ("at_end: {do: stop, credential: KEY}", "job.yaml line 4, at_end.credential: is a text, and must be an object with fields; write credential: {variable: RUNPOD_API_KEY}"),
    ("queue: [a]", 'job.yaml line 4, queue: is a list, and must be an object with fields; write queue: {cells: [{name: seed1, arguments: [--seed, "1"]}]}'),
    ("queue: {}", 'job.yaml line 4, queue.cells: missing; write cells: [{name: seed1, arguments: [--seed, "1"]}]'),
    ("queue: {cells: []}", 'job.yaml line 4, queue.cells: is empty; write cells: [{name: seed1, arguments: [--seed, "1"]}]'),
    ("queue: {cells: {name: a}}", 'job.yaml line 4, queue.cells: is an object with fields, and must be a list; write cells: [{name: seed1, arguments: [--seed, "1"]}]'),
    ("queue: {cells: [a]}", 'job.yaml line 4, queue.cells.0: is a text, and must be an object with fields; write {name: seed1, arguments: [--seed, "1"]}'),
    ("queue: {cells: [{arguments: [a]}]}", "job.yaml line 4, queue.cells.0.name: missing; write name: seed1"),
    ("queue: {cells: [{name: a b}]}", "job.yaml line 4, queue.cells.0.name: must be 1 to 100 letters, digits and ._=+-, with a letter or digit first; write name: seed1"),
    ("queue: {cells: [{name: a}, {name: a}]}", "job.yaml line 4, queue: two cells are called 'a'; give each its own name"),
    ("queue: {cells: [{name: a}], boxes: 2}", "job.yaml line 4, queue: more boxes than cells; leave some out"),
    ("queue: {cells: [{name: a}], slots: 0}", "job.yaml line 4, queue.slots: is 0, and must be 1 or more; write slots: 2"),
    ("launcher: torchrn", "job.yaml line 4, launcher: must be 'none', 'torchrun', 'accelerate', 'deepspeed' or 'slurm-tasks'; write launcher: torchrun"),
    ("launcher: [torchrun]", "job.yaml line 4, launcher: is a list, and must be 'none', 'torchrun', 'accelerate', 'deepspeed' or 'slurm-tasks'; write launcher: torchrun"),
    ("launcher: slurm", "job.yaml line 4, launcher: must be 'none', 'torchrun', 'accelerate', 'deepspeed' or 'slurm-tasks'; write launcher: slurm-tasks"),
    ("on_nan: die", "job.yaml line 4, on_nan: must be 'go-on' or 'stop'; write on_nan: stop"),
    ("save_signal: 15", "job.yaml line 4, save_signal: must be 'TERM', 'USR1', 'USR2' or 'INT'; write save_signal: USR1"),
    ("save_signal: USR", "job.yaml line 4, save_signal: must be 'TERM', 'USR1', 'USR2' or 'INT'; write save_signal: USR2"),
    ("rendezvous: my host", 'job.yaml line 4, rendezvous: must be HOST:PORT; write rendezvous: "10.0.0.5:29500"'),
    ("run_dir: runs", "job.yaml line 4, run_dir: must be a folder below ~/ or /, of letters, digits and ._-/; write run_dir: /workspace/runs/finetune"),
    ("container: docker", "job.yaml line 4, container: is a text, and must be an object with fields; write container: {engine: docker, image: pytorch/pytorch:latest}"),
    ("container: {engine: dcker, image: x}", "job.yaml line 4, container.engine: must be 'apptainer', 'singularity', 'docker', 'podman' or 'pyxis'; write engine: docker"),
    ("container: {engine: docker}", "job.yaml line 4, container.image: missing; write image: ~/images/torch.sif"),
    ("container: {engine: docker, image: a b}", "job.yaml line 4, container.image: must be a path that ends in .sif, .img or .sqsh, or the name of an image; write image: ~/images/torch.sif"),
    ("container: {engine: docker, image: x, mounts: [data]}", "job.yaml line 4, container.mounts.0: must be SOURCE, SOURCE:TARGET or SOURCE:TARGET:ro, each an absolute path; write mounts: [/scratch/sets:/data:ro]"),
    ("container: {engine: docker, image: x, options: [-d]}", "job.yaml line 4, container: options: -d would hide the program from its runner; leave it out"),
    ("container: {engine: docker, image: x, options: [gpu]}", "job.yaml line 4, container: options: the first word is no option; begin with one such as --env"),
    ("environment: {A: b}", "job.yaml line 4, environment: is an object with fields, and must be a text; variables sets those of the program; write environment: requirements.txt"),
    ("step_pattern: (step", "job.yaml line 4, step_pattern: isn't a regular expression of Python's: a '(' isn't closed at character 1 of 5; write step_pattern: \"step [0-9]+\""),
    ("step_pattern: 'step [0-9'", "job.yaml line 4, step_pattern: isn't a regular expression of Python's: a '[' isn't closed at character 6 of 9; write step_pattern: \"step [0-9]+\""),
    ("step_pattern: 'step **'", "job.yaml line 4, step_pattern: isn't a regular expression of Python's: two repeats stand in a row at character 7 of 7; write step_pattern: \"step [0-9]+\""),
    ("step_pattern: '*step'", "job.yaml line 4, step_pattern: isn't a regular expression of Python's: a repeat has nothing before it at character 1 of 5; write step_pattern: \"step [0-9]+\""),
    ("step_pattern: 'a)'", "job.yaml line 4, step_pattern: isn't a regular expression of Python's: a ')' has no '(' at character 2 of 2; write step_pattern: \"step [0-9]+\""),
    ("step_pattern: 'step \\'", "job.yaml line 4, step_pattern: isn't a regular expression of Python's: a backslash has nothing behind it at character 6 of 6; write step_pattern: \"step [0-9]+\""),
    ("step_pattern: '\\q'", "job.yaml line 4, step_pattern: isn't a regular expression of Python's: a backslash has a letter behind it that means nothing at character 1 of 2; write step_pattern: \"step [0-9]+\""),
    ("step_pattern: '[9-0]'", "job.yaml line 4, step_pattern: isn't a regular expression of Python's: a range runs backwards at character 2 of 5; write step_pattern: \"step [0-9]+\""),
    ("step_pattern: '[[:digit:]]+'", "job.yaml line 4, step_pattern: has [:digit:] at character 2, which isn't of Python's kind; write step_pattern: \"step [0-9]+\""),
    ("step_pattern: (a+)+", 'job.yaml line 4, step_pattern: has a repeat within a repeat, which may take for ever on one line; write step_pattern: "step [0-9]+"'),
    ("step_pattern: 5", 'job.yaml line 4, step_pattern: is the number 5, and must be a text; write step_pattern: "5"'),
    ("slurm: gpu", "job.yaml line 4, slurm: is a text, and must be an object with fields; write slurm: {partition: gpu}"),
    ("slurm: {cpus: 0}", "job.yaml line 4, slurm.cpus: is 0, and must be 1 or more; write cpus: 16"),
    ("slurm: {memory_gb: 64G}", "job.yaml line 4, slurm.memory_gb: is a text, and must be a whole number; write memory_gb: 64"),
    ("slurm: {most_hours: 90m}", "job.yaml line 4, slurm.most_hours: is a text, and must be a number of hours, without a unit behind it; write most_hours: 1.5"),
    ("kubernetes: {}", "job.yaml line 4, kubernetes.image: missing; write image: pytorch/pytorch:latest"),
    ("kubernetes: {shm_gb: 8}", "job.yaml line 4, kubernetes.image: missing; write image: pytorch/pytorch:latest"),
    ("skypilot: {spot: perhaps}", "job.yaml line 4, skypilot.spot: is a text, and must be true or false; write spot: true"),
    ("skypilot: {disk_gb: -1}", "job.yaml line 4, skypilot.disk_gb: is -1, and must be 1 or more; write disk_gb: 500"),
    ("final_step: 10k", "job.yaml line 4, final_step: is a text, and must be a whole number; write final_step: 6000"),
    ("final_step: 1e5", "job.yaml line 4, final_step: is a text, and must be a whole number; write final_step: 100000"),
    ("deadline: 1:30:00", "job.yaml line 3, deadline: must be one number with s, m, h or d behind it; write deadline: 90m"),
    ("secrets: {A: {value: x}}", "job.yaml line 4, secrets.A.value: unknown field; secrets.A has file, variable"),
    ("checkpoint: {folder: out, args: x}", "job.yaml line 4, checkpoint.args: unknown field; checkpoint has folder, pattern, files, every_minutes, save_seconds"),
    ("job: {name: a, command: b, deadline: 1h}", "job.yaml line 4, job: stands around the fields of the job; write name, command and the others without it"),
    ("environment: [torch]", "job.yaml line 4, environment: is a list, and must be a text; write environment: requirements.txt"),
    ("slurm: {gpu: a100}", "job.yaml line 4, slurm.gpu: unknown field; write gpu_type in place of gpu"),
]  # fmt: skip
# A whole file of YAML.
TEXTS = [
    ("", "job.yaml: this is empty; write fields such as name: sft, command: [python, train.py] and deadline: 20h"),
    ("# nothing\n", "job.yaml: this is empty; write fields such as name: sft, command: [python, train.py] and deadline: 20h"),
    ("   \n", "job.yaml: this is empty; write fields such as name: sft, command: [python, train.py] and deadline: 20h"),
    ("- a\n- b\n", "job.yaml: this is a list, and must be an object with fields; write fields such as name: sft, command: [python, train.py] and deadline: 20h"),
    ("just words\n", "job.yaml: this is a text, and must be an object with fields; write fields such as name: sft, command: [python, train.py] and deadline: 20h"),
    ("5\n", "job.yaml: this is a number, and must be an object with fields; write fields such as name: sft, command: [python, train.py] and deadline: 20h"),
    ("true\n", "job.yaml: this is true or false, and must be an object with fields; write fields such as name: sft, command: [python, train.py] and deadline: 20h"),
    ("name:a\ncommand:b\n", "job.yaml: a blank is missing behind ':'; write fields such as name: sft, command: [python, train.py] and deadline: 20h"),
    ("name: a\nb: [1, 2\n", "job.yaml line 2, column 4: this bracket isn't closed; write ] behind its last part"),
    ("name: a\nb: {c: 1\nd: 2\n", "job.yaml line 2, column 4: a comma is missing behind this bracket, or it isn't closed; write ',' between its parts and } behind the last one"),
    ("name: 'a\n", "job.yaml line 1, column 7: this quote isn't closed; write the same quote behind the text"),
    ('name: "a\n', "job.yaml line 1, column 7: this quote isn't closed; write the same quote behind the text"),
    ("name: a\n\tgpus: 1\n", "job.yaml line 2, column 1: a tab stands where blanks belong; indent with blanks"),
    ("name:\ta: b\n", "job.yaml line 1, column 6: a tab stands where blanks belong; indent with blanks"),
    ("name: a: b\n", "job.yaml line 1, column 8: a second ': ' stands in this line; put the text into quotes"),
    ("name: a\n  gpus: 1\n", "job.yaml line 2, column 7: this line is too far to the right; begin it under the lines above it"),
    ("stall:\n  log_minutes: 1\n step_minutes: 2\n", "job.yaml line 3, column 2: this line fits no line above it; indent it as its neighbours"),
    ("name: a\ngpus\n", "job.yaml line 2, column 1: this is neither NAME: VALUE nor a part of the line above; write ': ' behind the name, or indent it"),
    ("name: a\ngpus 1\nnodes: 1\n", "job.yaml line 2, column 1: this is neither NAME: VALUE nor a part of the line above; write ': ' behind the name, or indent it"),
    ("name: @a\n", "job.yaml line 1, column 7: a text begins with @, which YAML keeps for itself; put the text into quotes"),
    ("name: `a`\n", "job.yaml line 1, column 7: a text begins with `, which YAML keeps for itself; put the text into quotes"),
    ("name: %a\n", "job.yaml line 1, column 7: a text begins with %, which YAML keeps for itself; put the text into quotes"),
    ("%name: a\n", "job.yaml line 1, column 6: a line begins with %, as only directives of YAML do; put the text into quotes"),
    ("name: *.pt\n", 'job.yaml line 1, column 8: a text begins with * or &, which YAML takes for an alias or anchor; put the text into quotes, such as "*.pt"'),
    ("name: *all\n", "job.yaml line 1, column 7: a text begins with *, which YAML takes for an alias; put the text into quotes"),
    ("name: &\n", 'job.yaml line 1, column 8: a text begins with * or &, which YAML takes for an alias or anchor; put the text into quotes, such as "*.pt"'),
    ("name: !run a\n", "job.yaml line 1, column 7: a job has no tags such as '!run'; leave it out, or put the text into quotes"),
    ("name: !!python/object:os.system a\n", "job.yaml line 1, column 7: a job has no tags such as '!!python/object:os.system'; leave it out, or put the text into quotes"),
    ("name: | a\n", "job.yaml line 1, column 9: text stands behind | or >; begin it on the next line, indented"),
    ('name: "\\q"\n', "job.yaml line 1, column 9: a backslash within \"…\" begins an escape; write the text within '…'"),
    ('name: "\\UFFFFFFFF"\n', "job.yaml line 1: an escape such as \\U names no character; write the character itself"),
    ("name: a\n---\nname: b\n", "job.yaml line 2, column 1: a second document begins; a file holds one job, so remove what is behind '---'"),
    ("name: a\n- b\n", "job.yaml line 2, column 1: this line fits no line above it; indent it as its neighbours"),
    ("- a\nname: b\n", "job.yaml line 2, column 1: this line fits no line above it; indent it as its neighbours"),
    ("name: ]\n", "job.yaml line 1, column 7: a bracket or comma stands where a value belongs; put the text into quotes"),
    ("name: [a, b}\n", "job.yaml line 1, column 7: a comma is missing behind this bracket, or it isn't closed; write ',' between its parts and ] behind the last one"),
    ("name: [a b: c, d]\nx\n", "job.yaml line 2, column 1: this is neither NAME: VALUE nor a part of the line above; write ': ' behind the name, or indent it"),
    ("<<: 5\n", "job.yaml line 1, column 5: '<<' merges an object alone; write <<: *NAME of an object with fields"),
    ("name: a\u0007\n", "job.yaml line 1: has the control character U+0007; leave it out"),
    ("gpus: 1\nname: a\ngpus: 2\n", "job.yaml line 3, column 1: 'gpus' stands in lines 1 and 3; leave one out"),
    ("stall: {log_minutes: 1, log_minutes: 2}\n", "job.yaml line 1, column 25: 'log_minutes' stands twice in line 1; leave one out"),
    ("stall:\n  log_minutes: 1\n  log_minutes: 2\n", "job.yaml line 3, column 3: 'log_minutes' stands in lines 2 and 3; leave one out"),
    ("5: a\n", 'job.yaml line 1, column 1: the name 5 is read as a number; write "5": in quotes'),
    ("true: a\n", 'job.yaml line 1, column 1: the name true is read as true or false; write "true": in quotes'),
    ("~: a\n", 'job.yaml line 1, column 1: the name ~ is read as nothing; write "~": in quotes'),
    ("? [a, b]\n: c\n", "job.yaml line 1, column 3: a list or an object stands where a name belongs; fill in {{ }} of a template, or write NAME: VALUE"),
    ("{{ name }}: a\n", "job.yaml line 1, column 1: a list or an object stands where a name belongs; fill in {{ }} of a template, or write NAME: VALUE"),
    ("name: {{ name }}\n", "job.yaml line 1, column 8: a list or an object stands where a name belongs; fill in {{ }} of a template, or write NAME: VALUE"),
    ("a: &a [*a]\n", "job.yaml line 1, column 4: an anchor (&) holds itself by its alias (*); write the part out without the alias"),
    ("a: &a {b: *a}\n", "job.yaml line 1, column 4: an anchor (&) holds itself by its alias (*); write the part out without the alias"),
    ("a: &a [1]\nb: &a [2]\nc: [*d]\n", "job.yaml line 2, column 4: an anchor (&) stands twice; give the second one another name"),
    ("a: " + "[" * 10_000, "job.yaml line 1, column 33: lists and objects lie more than 30 deep in each other; close the brackets, or write it flat"),
    ("a: " + "{b: " * 10_000, "job.yaml line 1, column 117: lists and objects lie more than 30 deep in each other; close the brackets, or write it flat"),
    ("- " * 10_000, "job.yaml line 1, column 61: lists and objects lie more than 30 deep in each other; close the brackets, or write it flat"),
]  # fmt: skip
# A whole file of JSON.
JSONS = [
    ("", "job.json: this is empty; write fields such as name: sft, command: [python, train.py] and deadline: 20h"),
    ("{", "job.json line 1, column 2: a name in double quotes is missing; write \"name\": behind '{' or ',', and no comma behind the last field"),
    ('{"name": "a",}', "job.json line 1, column 14: a name in double quotes is missing; write \"name\": behind '{' or ',', and no comma behind the last field"),
    ('{"name" "a"}', "job.json line 1, column 9: a ':' is missing behind a name; write \"name\": value"),
    ('{"name": }', "job.json line 1, column 10: a value is missing; write a number, true, false, null or a text in double quotes"),
    ('{"name": "a"', "job.json line 1, column 13: a comma is missing, or a bracket isn't closed; write ',' between two parts"),
    ('{"name": "a\n"}', "job.json line 1, column 12: a text holds a line break or a tab; write \\n or \\t"),
    ('{"name": "a}', "job.json line 1, column 10: a text isn't closed; write \" behind it, in the same line"),
    ('{"name": "\\q"}', "job.json line 1, column 11: a backslash begins an escape; write \\\\ for a backslash itself"),
    ("{'name': 'a'}", "job.json line 1, column 2: a name in double quotes is missing; write \"name\": behind '{' or ',', and no comma behind the last field"),
    ('{"name": "a"} x', "job.json line 1, column 15: something stands behind the end of the job; remove it"),
    ("[1]", "job.json: this is a list, and must be an object with fields; write fields such as name: sft, command: [python, train.py] and deadline: 20h"),
    ('"a"', "job.json: this is a text, and must be an object with fields; write fields such as name: sft, command: [python, train.py] and deadline: 20h"),
    ("null", "job.json: this is empty; write fields such as name: sft, command: [python, train.py] and deadline: 20h"),
    ('{"price": NaN}', "job.json line 1, column 11: NaN is no number of JSON; write a finite one, or leave the field out"),
    ('{"price": -Infinity}', "job.json line 1, column 11: -Infinity is no number of JSON; write a finite one, or leave the field out"),
    ('{"name": "a",\n"gpus": 1,\n"gpus": 2}', "job.json line 3: 'gpus' stands in lines 2 and 3; leave one out"),
    ('{"stall": {"log_minutes": 1, "log_minutes": 2}}', "job.json line 1: 'log_minutes' stands twice in line 1; leave one out"),
    ('{"a": ' + "[" * 10_000, "job.json line 1, column 36: lists and objects lie more than 30 deep in each other; close the brackets, or write it flat"),
    ('{"name": "a",\n "command": ["a"], "deadline": "20h",\n "gpus": "two"}', 'job.json line 3, gpus: is a text, and must be a whole number; write "gpus": 8'),
    ('{"name": "a",\n "command": ["a"],\n "deadline": 20}', 'job.json line 3, deadline: is a number without a unit; write "deadline": "20h", or 20m or 20d'),
    ('{"name": "a", "command": ["a"], "deadline": "20h", "checkpoint": "out"}', 'job.json line 1, checkpoint: is a text, and must be an object with fields; write "checkpoint": {"folder": "out", "pattern": "step_*.pt"}'),
    ('{"name": "a", "command": "a", "deadline": "20h",\n "data": [\n  {"from": "a"}]}', 'job.json line 3, data.0.to: missing; write "to": "data/wiki"'),
    ("// job\n{}", "job.json line 1, column 1: a value is missing; write a number, true, false, null or a text in double quotes"),
]  # fmt: skip
# What --set gives, on top of HEAD.
OPTIONS = [
    ("gpus=two", "--set gpus: is a text, and must be a whole number; write --set gpus=8"),
    ("gpus=", "--set gpus: has no value; write --set gpus=8, or leave it out"),
    ("deadline=20", "--set deadline: is a number without a unit; write --set deadline=20h, or 20m or 20d"),
    ("deadline=18:00", "--set deadline: is a time of day without its zone; write --set 'deadline=\"18:00Z\"' for UTC, or 18:00+02:00"),
    ("checkpoint=out", "--set checkpoint: is a text, and must be an object with fields; write --set 'checkpoint={folder: out, pattern: \"step_*.pt\"}'"),
    ("checkpoint.folder=5", "--set checkpoint.folder: is the number 5, and must be a text; write --set 'checkpoint.folder=\"5\"'"),
    ("checkpoint.fold=x", "--set checkpoint.fold: unknown field; write folder in place of fold"),
    ("comand=x", "--set comand: unknown field; write command in place of comand"),
    ("name.a=1", "--set name.a: name has no fields; write --set name=VALUE"),
    ("gpus", "--set 'gpus' isn't FIELD=VALUE; write one such as --set deadline=20h or --set checkpoint.folder=out"),
    ("=1", "--set '=1' isn't FIELD=VALUE; write one such as --set deadline=20h or --set checkpoint.folder=out"),
    ("a..b=1", "--set 'a..b=1' isn't FIELD=VALUE; write one such as --set deadline=20h or --set checkpoint.folder=out"),
    ("notify=mail", "--set notify: is a text, and must be a list; write --set 'notify=[curl, -fsS, -d, @-, https://ntfy.sh/your-topic]'"),
    ("stall.log_minutes=5m", "--set stall.log_minutes: is a text, and must be a number of minutes, without a unit behind it; write --set stall.log_minutes=5"),
]  # fmt: skip
# What an agent passes.
OBJECTS = [
    (5, "this is a number, and must be an object with fields; write fields such as name: sft, command: [python, train.py] and deadline: 20h"),
    (None, "this is empty; write fields such as name: sft, command: [python, train.py] and deadline: 20h"),
    ([], "this is a list, and must be an object with fields; write fields such as name: sft, command: [python, train.py] and deadline: 20h"),
    ("a", "this is a text, and must be an object with fields; write fields such as name: sft, command: [python, train.py] and deadline: 20h"),
    (True, "this is true or false, and must be an object with fields; write fields such as name: sft, command: [python, train.py] and deadline: 20h"),
    ({}, "name: missing; write name: finetune\ncommand: missing; write command: [python, train.py]\ndeadline: missing; write deadline: 20h"),
    ({'name': 'a'}, "command: missing; write command: [python, train.py]\ndeadline: missing; write deadline: 20h"),
    ({'gpus': 'two'}, "name: missing; write name: finetune\ncommand: missing; write command: [python, train.py]\ndeadline: missing; write deadline: 20h\ngpus: is a text, and must be a whole number; write gpus: 8"),
    ({'name': 5, 'command': 5, 'deadline': 5}, 'name: is the number 5, and must be a text; write name: "5"\ncommand: is the number 5, and must be a list of arguments or one line; write command: [python, train.py], or "5" in quotes for a program of that name\ndeadline: is a number without a unit; write deadline: 5h, or 5m or 5d'),
    ({'name': 'a', 'command': 'x', 'deadline': '2h', 'queue': {'cells': [{'name': 'a', 'arguments': [None]}]}}, 'queue.cells.0.arguments.0: has no value; write "null", or leave it out'),
]  # fmt: skip
# A file of --queue.
QUEUES = [
    ("", "queue.txt: it holds no cells; write one a line, such as seed1 --seed 1"),
    ("# none\n", "queue.txt: it holds no cells; write one a line, such as seed1 --seed 1"),
    ("a 'b\n", "queue.txt line 1: no closing quote; write NAME ARGUMENT …, with the same quote before and behind a text"),
    ('a "b\nc\n', "queue.txt line 1: no closing quote; write NAME ARGUMENT …, with the same quote before and behind a text"),
    ("a b\\\n", "queue.txt line 1: a backslash ends it; write the cell on one line, or \\\\ for a backslash"),
    ("a b\n'' c\n", "queue.txt line 2, queue.cells.1.name: must be 1 to 100 letters, digits and ._=+-, with a letter or digit first; write name: seed1"),
    ("a b\nb/c d\n", "queue.txt line 2, queue.cells.1.name: must be 1 to 100 letters, digits and ._=+-, with a letter or digit first; write name: seed1"),
    ("a\na\n", "queue.txt, queue: two cells are called 'a'; give each its own name"),
    ("ok\n\nbad! --x\n", "queue.txt line 3, queue.cells.1.name: must be 1 to 100 letters, digits and ._=+-, with a letter or digit first; write name: seed1"),
]  # fmt: skip
# A file of --sweep.
SWEEPS = [
    ("grid: 5\n", "sweep.yaml line 1, grid: must be an object with a list for each option; write grid: {--lr: [1e-4, 3e-4], --seed: [1, 2]}"),
    ("gird: {a: [1]}\n", "sweep.yaml line 1, gird: unknown field; a sweep has grid and arguments"),
    ("grid: {}\n", "sweep.yaml line 1, grid: must be an object with a list for each option; write grid: {--lr: [1e-4, 3e-4], --seed: [1, 2]}"),
    ("grid:\n  --lr: 1\n", "sweep.yaml line 2, grid.--lr: must be a list of values; write --lr: [1, 2]"),
    ("grid:\n  --lr: []\n", "sweep.yaml line 2, grid.--lr: must be a list of values; write --lr: [1, 2]"),
    ("grid:\n  --lr: [true]\n", 'sweep.yaml line 2, grid.--lr.0: is true, and must be a text or a number; write "true"'),
    ("grid:\n  --lr: [[1]]\n", "sweep.yaml line 2, grid.--lr.0: must be a text or a number; write one, or leave it out"),
    ("arguments: [a]\n", "sweep.yaml, grid: must be an object with a list for each option; write grid: {--lr: [1e-4, 3e-4], --seed: [1, 2]}"),
    ("grid: {a: [1]}\narguments: 5\n", "sweep.yaml line 2, arguments: must be a list of words; write arguments: [--fast]"),
    ("grid: {a: [1]}\narguments: [null]\n", "sweep.yaml line 2, arguments.0: must be a text or a number; write one, or leave it out"),
    ("- a\n", "sweep.yaml: this is a list, and must be an object with fields; write grid: {--lr: [1e-4, 3e-4], --seed: [1, 2]}"),
    ("grid: {a: [1]}\nextra: 1\n", "sweep.yaml line 2, extra: unknown field; a sweep has grid and arguments"),
    ("grid: {a: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], b: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], c: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], d: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], e: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]}\n", "sweep.yaml line 1, grid: makes more than 10,000 combinations; give fewer values"),
    ("grid: {a: [1]}\ngrid: {a: [2]}\n", "sweep.yaml line 2, column 1: 'grid' stands in lines 1 and 2; leave one out"),
]  # fmt: skip


def refusal(make, *arguments) -> str:
    """The words of a refusal, in which no word of the code stands."""
    with pytest.raises(JobError) as caught:
        make(*arguments)
    words = str(caught.value)
    assert not INTERNAL.search(words), words
    return words


def with_line(line: str) -> str:
    """HEAD with a line in place of the field's own, or behind it."""
    name = line.partition(":")[0]
    kept = [one for one in HEAD.splitlines() if one.partition(":")[0] != name]
    return "\n".join([*kept, line, ""])


def test_the_table_is_long():
    tables = (FIELDS, TEXTS, JSONS, OPTIONS, OBJECTS, QUEUES, SWEEPS)
    assert sum(len(table) for table in tables) >= 300


@pytest.mark.parametrize(("line", "said"), FIELDS)
def test_a_wrong_field(line, said):
    job = from_text(with_line(line), "job.yaml", is_json=False)
    assert refusal(from_object, job) == said


@pytest.mark.parametrize(("text", "said"), TEXTS)
def test_a_text_that_is_no_yaml_of_a_job(text, said):
    began = time.process_time()
    assert refusal(from_text, text, "job.yaml", False) == said
    assert time.process_time() - began < 5


@pytest.mark.parametrize(("text", "said"), JSONS)
def test_a_text_that_is_no_json_of_a_job(text, said):
    began = time.process_time()
    assert refusal(lambda: from_object(from_text(text, "job.json", is_json=True))) == said
    assert time.process_time() - began < 5


@pytest.mark.parametrize(("option", "said"), OPTIONS)
def test_a_wrong_option(option, said):
    job = from_text(HEAD, "job.yaml")
    assert refusal(lambda: from_object(with_options(job, [option]))) == said


@pytest.mark.parametrize(("job", "said"), OBJECTS)
def test_a_wrong_object(job, said):
    assert refusal(from_object, job) == said


@pytest.mark.parametrize(("option", "file", "text", "said"), [
    *(("queue", "queue.txt", *row) for row in QUEUES), *(("sweep", "sweep.yaml", *row) for row in SWEEPS),
])  # fmt: skip
def test_wrong_cells(option, file, text, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(HEAD)
    (tmp_path / file).write_text(text)
    assert main(["render", "job.yaml", f"--{option}", file]) == 2
    assert capsys.readouterr().err == f"error: {said}\n"


def test_files_that_hold_no_job(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.yaml").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    (tmp_path / "latin.yaml").write_bytes("name: a\ncode: f\xfc\n".encode("latin-1"))
    (tmp_path / "utf16.yaml").write_bytes("name: a\n".encode("utf-16"))
    (tmp_path / "a.out").write_bytes(b"\x7fELF\0\0\0")
    with (tmp_path / "zeros.yaml").open("wb") as file:
        file.truncate(100_000_000)
    (tmp_path / "large.yaml").write_bytes(b"name: a # b\n" * 8_400_000)
    (tmp_path / "words.yaml").write_text("a" * (MOST_TOGETHER + 1))
    holds = "name a YAML or JSON file with a job"
    for name, said in {
        "empty.yaml": "empty.yaml: this is empty; write fields such as name: sft, command: [python, train.py] and deadline: 20h",
        "folder": f"folder: this is a folder; {holds} in it",
        "latin.yaml": "latin.yaml line 2: the text is not UTF-8; save the file as UTF-8",
        "utf16.yaml": "utf16.yaml: the text is UTF-16; save the file as UTF-8",
        "a.out": f"a.out: this is a binary file; {holds}",
        "zeros.yaml": f"zeros.yaml: this is a binary file; {holds}",
        "large.yaml": "large.yaml: a job of 100,800,000 bytes or more is over 600,000; put long values into files of the code",
        "words.yaml": "words.yaml: a job of 600,001 bytes or more is over 600,000; put long values into files of the code",
        "gone.txt": f"gone.txt: there is no such file; {holds}",
        "emty.yaml": "emty.yaml: there is no such file; name empty.yaml",
        "a" * 300: f"{'a' * 300}: it can't be read (File name too long); {holds}",
    }.items():  # fmt: skip
        for command in (["render", name], ["start", "local", name], ["rehearse", name]):
            began = time.process_time()
            assert main(command) == 2, command
            assert capsys.readouterr().err.splitlines()[-1] == f"error: {said}"
            assert time.process_time() - began < 5


def test_every_field_says_its_line_and_every_command_the_same(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "job.yaml").write_text(f"{HEAD}gpus: two\ncheckpoint:\n  folder: out\n  every: 5\n")
    said = (
        "error: job.yaml line 4, gpus: is a text, and must be a whole number; write gpus: 8\n"
        "error: job.yaml line 7, checkpoint.every: unknown field; write every_minutes in place of every\n"
    )
    for command in (
        ["render", "job.yaml"],
        ["start", "local", "job.yaml"],
        ["rehearse", "job.yaml"],
    ):
        assert main(command) == 2
        assert capsys.readouterr().err.endswith(said)


@pytest.mark.parametrize(("command", "said"), [
    (["render", "job.yaml"], "error: job.yaml line 3, deadline: has passed; write deadline: 20h, or a later time\n"),
    (["start", "local", "job.yaml"], " has passed; write deadline: 20h, or a later time\n"),
])  # fmt: skip
def test_a_deadline_in_the_past_says_its_line(command, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "job.yaml").write_text(HEAD.replace("20h", "2020-01-01T00:00Z"))
    assert main(command) == 2
    told = capsys.readouterr().err
    assert told.endswith(said) and "error: job.yaml line 3, deadline: " in told


HEAD_JOB = {"name": "sft", "command": ["python", "train.py"], "deadline": "20h"}


def test_a_refusal_of_a_target_says_its_line():
    job = from_text(with_line("deadline: 18:00Z"), "job.yaml")
    said = refusal(rendered, job, "slurm")
    assert said.startswith("job.yaml line 3, deadline: a Slurm job waits in the queue first, ")
    for target, hint in (("slurn", "did you mean slurm?"), ("moon", "use one of ssh, ")):
        said = refusal(rendered, HEAD_JOB, "", target)
        assert said.startswith(f"target: unknown target '{target}'; {hint}")


BOMB = "y0: &y0 [1, 1]\n" + "".join(f"y{n}: &y{n} [*y{n - 1}, *y{n - 1}]\n" for n in range(1, 25))
MERGES = "y0: &y0 {a: 1}\n" + "".join(
    f"y{n}: &y{n} {{<<: [{', '.join([f'*y{n - 1}'] * 9)}], k{n}: 1}}\n" for n in range(1, 25)
)


@pytest.mark.parametrize("text", [BOMB, MERGES])
def test_aliases_that_multiply_are_refused_before_they_do(text):
    began = time.process_time()
    said = refusal(from_text, text, "job.yaml", False)
    assert re.fullmatch(
        r"job\.yaml line \d+, column \d+: (its aliases \(\*\) make a job of [\d,]+ bytes or more, over 600,000; "
        r"write out what is needed|lists and objects lie more than 30 deep .*)", said
    )  # fmt: skip
    assert time.process_time() - began < 2


@pytest.mark.parametrize("part", [
    "- [a, [b, c]]\n", "- {m: *k, n: [*k]}\n", "- 'a\n\n  b'\n", "- a b\n", "- |\n  a\n", "# a\n", '- "\\n\\n"\n',
])  # fmt: skip
def test_a_text_is_read_in_linear_time(part):
    def seconds(parts: int) -> float:
        began = time.process_time()
        from_text("k: &k a\nl:\n- a\n" + part * parts, "job.yaml", is_json=False)
        return time.process_time() - began

    assert seconds(4000) < 8 * seconds(1000) + 0.5


def test_an_open_quote_in_a_long_queue_is_found_at_once():
    began = time.process_time()
    for text in ("a '" + 'b"\n' * 100_000, 'a "' + "'\n" * 100_000):
        with pytest.raises(JobError, match="^queue line 1: no closing quote; "):
            job_cells(text)
    assert time.process_time() - began < 5


def job_cells(text: str):
    from remote_gpu_trainer.runs.cells import read_queue

    return read_queue(text)


def test_merge_keys_add_what_the_object_itself_lacks():
    text = f"{HEAD}stall: &s {{log_minutes: 5}}\nvariables: {{<<: {{A: a, B: b}}, B: c}}\n"
    assert from_object(from_text(text, "job.yaml")).variables == {"A": "a", "B": "c"}


@pytest.mark.parametrize(("written", "kept"), [
    ("no", "no"), ("on", "on"), ("2026-12-01", "2026-12-01"), ("18:00", "18:00"), ("3.10", "3.10"), ("010", "010"),
    ("1_000", "1_000"), ("0x1F", "0x1F"), ("1e-4", "1e-4"), ("1.0e-4", "1.0e-4"), ("+5", "+5"), ("8", "8"), ("=", "="), ("<<", "<<"),
    (".inf", ".inf"),
])  # fmt: skip
def test_a_text_stays_as_it_was_written(written, kept):
    text = f"{HEAD}variables: {{A: {written}}}\nprobe: off\n"
    job = from_object(from_text(text, "job.yaml"))
    assert job.variables == {"A": kept} and job.probe is False


def test_numbers_of_json_stay_as_they_were_written():
    text = '{"name": "a", "command": ["a", 3.10, 1e5], "deadline": "2h", "price": 3.10}'
    job = from_object(from_text(text, "job.json", is_json=True))
    assert job.command == ["a", "3.10", "1e5"] and job.price == "3.1"


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "job.yaml").write_bytes(b"\xef\xbb\xbf" + HEAD.encode())
    (tmp_path / "job.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(HEAD_JOB).encode())
    for name in ("job.yaml", "job.json"):
        assert from_object(from_file(tmp_path / name)) == from_object(HEAD_JOB)


def test_no_kind_of_fault_comes_through_in_the_words_of_the_library():
    kinds = core_schema.ErrorType.__args__
    assert len(kinds) > 90
    for kind in kinds:
        for value in (None, True, 5, 1.5, "x", "5m", [], {}, {"a": 1}):
            for path in (
                ("gpus",),
                ("checkpoint", "folder"),
                ("results", 0),
                ("variables", "A"),
                ("queue", "cells", 0),
            ):
                fault = job_errors.Fault((kind,), path, value, {"gt": 0, "expected": "'a' or 'b'"})
                words = job_errors.line_of(fault)
                assert "; " in words and not INTERNAL.search(words), (kind, words)


@pytest.mark.parametrize("path", [path for path in job_errors.fields_of(Job) if path])
def test_each_field_has_an_example_to_write(path):
    assert job_errors.example(path) is not None or path == "timings"


EXAMPLE = {name: value for name, value in job_errors.examples_by_part()["Job"].items()}
# Fields of the example that exclude one another.
EXCLUDED = ("queue", "environment", "save_signal")
VALID = {name: value for name, value in EXAMPLE.items() if name not in EXCLUDED}
ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8),
    st.sampled_from(["-1", "30s", "no", "~", "2026-01-01", "a: b", "\ud800", "\0", "[", "*"]),
    st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=3), st.none(), max_size=2),
)  # fmt: skip


def test_the_job_that_is_mutated_is_valid():
    assert from_object(VALID)


def _places(value, path=()):
    yield path
    parts = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, part in parts:
        yield from _places(part, (*path, key))


PLACES = [path for path in _places(VALID) if path]


@pytest.mark.parametrize("name", ["a\nb", "\x1e", "\x85", "\u2028"])
def test_a_name_that_breaks_lines_stays_on_one(name):
    job = {**VALID, "retries": {name: [0]}}
    with pytest.raises(JobError) as error:
        from_object(from_text(yaml.safe_dump(job), "job.yaml", is_json=False))
    lines = str(error.value).splitlines()
    assert lines and all("; " in line for line in lines), lines


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_mutated_job_gets_words_and_never_a_traceback(data):
    job = json.loads(json.dumps(VALID))
    for path in data.draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=3)):
        holder = job
        for part in path[:-1]:
            is_there = (
                part in holder
                if isinstance(holder, dict)
                else isinstance(holder, list) and part in range(len(holder))
            )
            if not is_there:
                break
            holder = holder[part]
        else:
            key = path[-1]
            change = data.draw(st.sampled_from(["value", "drop", "rename", "wrap"]))
            if isinstance(holder, list) and key in range(len(holder)):
                holder[key] = [holder[key]] if change == "wrap" else data.draw(ODD)
            elif isinstance(holder, dict) and key in holder:
                old = holder.pop(key)
                name = data.draw(st.text(max_size=6)) if change == "rename" else key
                if change != "drop":
                    holder[name] = (
                        data.draw(ODD) if change == "value" else [old] if change == "wrap" else old
                    )
    ways = [lambda: from_object(job)]
    text = json.dumps(job)
    ways.append(lambda: from_object(from_text(text, "job.json", is_json=True)))
    ways.append(lambda: from_object(from_text(yaml.safe_dump(job), "job.yaml", is_json=False)))
    for way in ways:
        try:
            way()
        except JobError as error:
            for line in str(error).splitlines():
                found = INTERNAL.search(re.sub(r"'[^']*'", "", line))
                assert not found or found.group() in text, line  # a name of the job's own
                assert "; " in line or line.endswith("mend these first"), line


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_text_with_other_characters_gets_words_and_never_a_traceback(data):
    is_json = data.draw(st.booleans())
    text = json.dumps(VALID, indent=1) if is_json else yaml.safe_dump(VALID)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        size = data.draw(st.sampled_from([0, 1, 1, 5]))
        put = data.draw(
            st.one_of(
                st.text(max_size=3),
                st.sampled_from(
                    list("[]{}:,'\"\\\t\n*&!|>%@`#-?~")
                    + ["\n- ", ": ", "<<: ", "---\n", "&a ", "*a ", '"\\U']
                ),
            )
        )
        text = text[:at] + put + text[at + size :]
    try:
        from_object(from_text(text, "job", is_json))
    except JobError as error:
        for line in str(error).splitlines():
            assert "; " in line, line
            assert all(found[0] in text for found in INTERNAL.finditer(line)), line
