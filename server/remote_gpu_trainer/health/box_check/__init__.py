"""The parts of scripts/gpu_health.py, the check that runs on a box.

A box gets one file, a person edits these. `rgt dev docs --write` puts the modules and the tables of
data/ together. They need Python 3.8 and the standard library, and import nothing from outside this
folder.

From bottom to top:

- text (cells, places and failures), tables (cards, fields, Xids and findings);
- commands and gather: ask the box;
- kernel_log, smi_outputs and box: what came back, as one box;
- judge_gpu, judge_box, judge_host, judge_log, judge_torch, judge_amd and expectations: values in,
  findings out;
- stress, watch and report: what the command line offers.
"""

from pathlib import Path


def data_text(name):
    """The text of a file in data/. The one file has the text itself in place of this call."""
    return (Path(__file__).parent / "data" / name).read_text(encoding="utf-8")
