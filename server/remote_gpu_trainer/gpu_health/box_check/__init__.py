"""The parts of scripts/gpu_health.py, the check that runs on a box.

A box gets one file, a person edits these. `rgt dev docs --write` puts the modules and the tables of
data/ together. They need Python 3.8 and the standard library, and import nothing but the reader of
kernel logs, which is put into the file with them.

From bottom to top:

- text (cells) and failures (of calls); names, cards, fields and findings, with what is in data/;
  files (of a recording);
- commands and gather: ask the box;
- smi_outputs and box: what came back, as one box;
- judge_gpu, judge_box, judge_host, judge_log, judge_torch, judge_amd and expectations: values in,
  findings out;
- report (the findings as one answer), recording, stress and watch;
- main: the command line.
"""

from pathlib import Path


def data_text(name):
    """The text of a file in data/. The one file has the text itself in place of this call."""
    return (Path(__file__).parent / "data" / name).read_text(encoding="utf-8")
