"""In which phase of a run a traceback ends, by its calls.

A phase is recognized by functions and files of torch, transformers, accelerate, Lightning,
DeepSpeed and similar libraries. Other calls give no phase.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from .log_line import SomeLine


class _Call(NamedTuple):
    """One call of a traceback. `function` or `code` may be ""."""

    function: str
    file: str
    code: str


class _Phase(NamedTuple):
    """A phase of a run, and patterns of the calls that belong to it.

    The pattern `function` has to match the whole name, `file` and `code` a part. "" is no pattern.
    """

    name: str
    function: str
    file: str
    code: str

    def has(self, call: _Call) -> bool:
        """Return whether a call belongs to the phase."""
        return bool(
            (call.function and re.fullmatch(self.function, call.function))
            or (self.file and re.search(self.file, call.file))
            or re.search(self.code, call.code)
        )


_PASSES = (
    _Phase(
        "while saving",
        r"_?save\w{0,40}|state_dict|get_\w{0,20}state_dict|_?full_\w{0,10}state_dict\w{0,10}"
        r"|_consolidated_16bit_state_dict",
        r"_state_dict_utils|checkpoint/state_dict",
        r"\.save_pretrained\(|torch\.save\(",
    ),
    _Phase(
        "in the backward pass",
        r"\w{0,12}backward\w{0,10}|_engine_run_backward|unpack_hook|_reduce_grad",
        r"torch/autograd/",
        r"\.backward\(",
    ),
    _Phase(
        "in the optimizer's step",
        r"_(?:multi_tensor|single_tensor|fused)_\w{1,40}|step|_init_group|_take_model_step"
        r"|update_step|init_state|initialize_optimizer_states",
        r"torch/optim/(?!lr_scheduler|swa)|bitsandbytes/optim",
        r"\boptim\w{0,10}\.step\(",
    ),
    _Phase(
        "while loading",
        r"to|cuda|_apply|convert|from_pretrained|_ddp_init_helper",
        r"",
        r"_ddp_init_helper\(|\bDDP\(|DistributedDataParallel\(",
    ),
    _Phase(
        "in the forward pass",
        r"forward|training_step|compute_loss|_\w{0,10}call_impl",
        r"nn/modules/|nn/functional\.py",
        r"\bmodel\([^)]",
    ),
)
_LOADING = _Phase(
    "while loading",
    r"_?load\w{0,60}|dispatch_model|_?prepare\w{0,20}|set_module_tensor_to_device",
    r"",
    r"\.to\(|\.cuda\(|from_pretrained\(|\btorch\.load\(",
)
_EVALUATION = _Phase(
    "in an evaluation",
    r"(?!_maybe_log_save)\w{0,20}evaluat\w{1,20}|prediction_(?:loop|step)"
    r"|\w{0,12}validat(?:e|ion)\w{0,20}|_run_sanity_check"
    r"|(?:eval|val|test)_(?:epoch|step|loop|one_epoch)|do_eval|compute_metrics|nested_concat",
    r"evaluation_loop\.py",
    r"\bevaluate\(|\bvalidat(?:e|ion)\(",
)
_SAVING, _BACKWARD, _FORWARD = _PASSES[0], _PASSES[1], _PASSES[-1]


def run_phase(lines: Sequence[SomeLine], failed: SomeLine) -> str:
    """Return the phase of the run in which the traceback beside a line ends, "" if unknown.

    One of "while loading", "in the forward pass", "in the backward pass", "in the optimizer's
    step", "in an evaluation" and "while saving".
    """
    calls = _calls(lines, failed)
    # The innermost call decides: Lightning calls the forward pass inside the optimizer's step.
    phase = next((phase for call in reversed(calls) for phase in _PASSES if phase.has(call)), None)
    if phase is not _SAVING and any(map(_EVALUATION.has, calls)):
        return _EVALUATION.name
    # Checkpointing computes the forward pass again within the backward pass, which functions and
    # files of the calls around it show.
    if phase is _FORWARD and any(_BACKWARD.has(call._replace(code="")) for call in calls):
        return _BACKWARD.name
    if phase:
        return phase.name
    return _LOADING.name if any(map(_LOADING.has, calls)) else ""


def _calls(lines: Sequence[SomeLine], failed: SomeLine) -> list[_Call]:
    """The calls beside a line of the same rank, outermost first.

    People paste the calls above or below the line.
    """
    mine = [line for line in lines if line.rank == failed.rank]
    place = mine.index(failed)
    above = place
    while above and mine[above - 1].kind == "frame":
        above -= 1
    below = place + 1
    while below < len(mine) and mine[below].kind == "frame":
        below += 1
    calls: list[_Call] = []
    for line in (*mine[above:place], *mine[place + 1 : below]):
        frame = line.sign("frame")
        if frame:
            calls.append(_Call(frame[2] or "", frame[0], ""))
        elif calls and not calls[-1].code:
            calls[-1] = calls[-1]._replace(code=line.text.strip())
    return calls
