"""Where in a run a traceback ends: while loading, in the forward pass, in the optimizer's step, in an evaluation.

Known by functions and files of torch, transformers, accelerate, Lightning, DeepSpeed and their like in the calls beside a failure. What isn't known is no moment.
"""

from __future__ import annotations

import re

from ..logs.lines import FRAME, Line

_PASSES = (
    ("while saving", r"_?save\w{0,40}|state_dict|get_\w{0,20}state_dict|_?full_\w{0,10}state_dict\w{0,10}|_consolidated_16bit_state_dict", r"_state_dict_utils|checkpoint/state_dict", r"\.save_pretrained\(|torch\.save\("),
    ("in the backward pass", r"\w{0,12}backward\w{0,10}|_engine_run_backward|unpack_hook|_reduce_grad", r"torch/autograd/", r"\.backward\("),
    ("in the optimizer's step", r"_(?:multi_tensor|single_tensor|fused)_\w{1,40}|step|_init_group|_take_model_step|update_step|init_state|initialize_optimizer_states", r"torch/optim/(?!lr_scheduler|swa)|bitsandbytes/optim", r"\boptim\w{0,10}\.step\("),
    ("while loading", r"to|cuda|_apply|convert|from_pretrained|_ddp_init_helper", r"", r"_ddp_init_helper\(|\bDDP\(|DistributedDataParallel\("),
    ("in the forward pass", r"forward|training_step|compute_loss|_\w{0,10}call_impl", r"nn/modules/|nn/functional\.py", r"\bmodel\([^)]"),
)  # fmt: skip
_LOADING = ("while loading", r"_?load\w{0,60}|dispatch_model|_?prepare\w{0,20}|set_module_tensor_to_device", r"", r"\.to\(|\.cuda\(|from_pretrained\(|\btorch\.load\(")  # fmt: skip
_EVALUATION = ("in an evaluation", r"(?!_maybe_log_save)\w{0,20}evaluat\w{1,20}|prediction_(?:loop|step)|\w{0,12}validat(?:e|ion)\w{0,20}|_run_sanity_check|(?:eval|val|test)_(?:epoch|step|loop|one_epoch)|do_eval|compute_metrics|nested_concat", r"evaluation_loop\.py", r"\bevaluate\(|\bvalidat(?:e|ion)\(")  # fmt: skip
_SAVING, _BACKWARD, _FORWARD = _PASSES[0], _PASSES[1], _PASSES[-1]


def moment(lines: list[Line], failed: Line) -> str:
    """Where the traceback beside this line ends, "" where that isn't known."""
    calls = _calls(lines, failed)
    # The innermost decides: Lightning calls the forward pass from within the optimizer's step.
    told = next((told for call in reversed(calls) for told in _PASSES if _is(told, *call)), None)
    if told is not _SAVING and any(_is(_EVALUATION, *call) for call in calls):
        return _EVALUATION[0]
    if told is _FORWARD and any(_is(_BACKWARD, function, file, "") for function, file, _ in calls):
        told = _BACKWARD  # what checkpointing computes again
    return (told or _LOADING)[0] if told or any(_is(_LOADING, *call) for call in calls) else ""


def _is(told: tuple[str, str, str, str], function: str, file: str, code: str) -> bool:
    """Whether a call is one of a kind: by its function's whole name, a part of its file's path, or its code."""
    return bool(
        (function and re.fullmatch(told[1], function))
        or (told[2] and re.search(told[2], file))
        or re.search(told[3], code)
    )


def _calls(lines: list[Line], failed: Line) -> list[tuple[str, str, str]]:
    """(function, file, code) of each call beside a line of the same rank, outermost first. People paste them above it, or below."""
    mine = [line for line in lines if line.rank == failed.rank]
    place = mine.index(failed)
    above = place
    while above and mine[above - 1].kind == "frame":
        above -= 1
    below = place + 1
    while below < len(mine) and mine[below].kind == "frame":
        below += 1
    calls: list[tuple[str, str, str]] = []
    for line in (*mine[above:place], *mine[place + 1 : below]):
        found = FRAME.match(line.text)
        if found:
            calls.append((found[3] or "", found[1], ""))
        elif calls and not calls[-1][2]:
            calls[-1] = (*calls[-1][:2], line.text.strip())
    return calls
