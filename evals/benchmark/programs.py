"""Run a training program under torch-audit, guardtower or torchtest2, as one would call them.

    programs.py TOOL PROGRAM

These are functions that somebody writes into a loop. Here the loop stays as it is: the first
forward pass of a model gives them model, optimizer and batch, the first `backward` the loss. Prints
a line for each finding: `bench: claim NAME` where the tool calls it a failure, `bench: lead NAME`
where it warns.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading
from typing import Any

import torch
from torch.nn import functional

LOSSES = ("cross_entropy", "mse_loss", "binary_cross_entropy_with_logits", "binary_cross_entropy",
          "nll_loss", "l1_loss", "smooth_l1_loss", "kl_div")  # fmt: skip
forward, backward = torch.nn.Module.__call__, torch.Tensor.backward


class Seen:
    """What the program has shown so far."""

    optimizer: torch.optim.Optimizer | None = None
    model: torch.nn.Module | None = None
    inputs: Any = None
    output: Any = None
    loss: tuple[Any, tuple, dict] | None = None
    done = False


def tell(findings: list[tuple[str, str]]) -> None:
    """Print findings, (name, level), each once; what is in order or mere information isn't told."""
    for name, level in dict.fromkeys(findings):
        kind = {"ERROR": "claim", "FAIL": "claim", "WARN": "lead"}.get(level)
        if kind:
            print(f"bench: {kind} {name}", flush=True)


class TorchAudit:
    """Audits the loop as it runs, by autopatch."""

    auditor = None

    def entered(self) -> None:
        """Audit from this forward pass on."""
        import torch_audit.runtime

        self.auditor = torch_audit.runtime.autopatch(
            Seen.model, optimizer=Seen.optimizer, every_n_steps=10
        )

    def left(self, loss: torch.Tensor, *args, **options) -> None:
        """Let the program go on."""
        backward(loss, *args, **options)

    def end(self) -> None:
        """Tell what was found by the end of the program."""
        if self.auditor:
            found = self.auditor.finish().findings
            tell(
                [(one.rule_id, getattr(one.severity, "value", str(one.severity))) for one in found]
            )


class Guardtower:
    """Audits one step: the program's own forward pass and loss, within its audit."""

    def entered(self) -> None:
        """Begin the audit, and wait until its hooks are on."""
        self.attached, self.ready = threading.Event(), threading.Event()
        self.worker = threading.Thread(target=self.audit, daemon=True)
        self.worker.start()
        self.attached.wait(60)

    def audit(self) -> None:
        """Audit in a thread, while the program takes its step."""
        import guardtower

        held = Seen.inputs.values() if isinstance(Seen.inputs, dict) else Seen.inputs
        tensors = [one for one in held if isinstance(one, torch.Tensor) and one.is_leaf]
        self.report = guardtower.audit(
            Seen.model, self.step, optimizer=Seen.optimizer, inputs=tensors
        )

    def step(self) -> torch.Tensor:
        """The program's loss, once there is one."""
        self.attached.set()
        self.ready.wait()
        return self.loss

    def left(self, loss: torch.Tensor, *_, **__) -> None:
        """Hand the loss to the audit, tell what it found, and end."""
        self.loss = loss
        self.ready.set()
        self.worker.join()
        tell([(one.catalog_id or one.check, one.severity.name) for one in self.report.findings])
        os._exit(0)

    def end(self) -> None:
        """Nothing was audited."""


class Torchtest2:
    """Checks the model with the program's first batch, loss and optimizer."""

    def entered(self) -> None:
        """Wait for the loss."""

    def left(self, *_, **__) -> None:
        """Check, tell what was found, and end."""
        import torchtest2

        targets, loss_fn = told_loss()
        inputs = Seen.inputs if isinstance(Seen.inputs, dict) else tuple(Seen.inputs)
        report = torchtest2.check_model(
            Seen.model, inputs, targets, loss_fn=loss_fn, optimizer=Seen.optimizer
        )
        tell([(one.name, str(one.status)) for one in report.results])
        os._exit(0)

    def end(self) -> None:
        """Nothing was audited."""


def told_loss() -> tuple[Any, Any]:
    """(targets, loss_fn) of the loss that the program called on the model's output, else Nones."""
    if not Seen.loss or not isinstance(Seen.output, torch.Tensor):
        return None, None
    function, (given, target, *rest), options = Seen.loss
    if given.numel() != Seen.output.numel():
        return None, None
    shape = given.shape[1:]
    return target, lambda out, aim: function(out.reshape(-1, *shape), aim, *rest, **options)


def watch(tool: TorchAudit | Guardtower | Torchtest2) -> None:
    """Put the hooks on torch."""
    made = torch.optim.Optimizer.__init__

    def made_too(self, *args, **options):
        made(self, *args, **options)
        Seen.optimizer = self

    def entering(self, *args, **options):
        first = (
            Seen.model is None
            and Seen.optimizer is not None
            and torch.is_grad_enabled()
            and any(one.requires_grad for one in self.parameters())
        )
        if not first:
            return forward(self, *args, **options)
        Seen.model, Seen.inputs = self, args or options
        tool.entered()
        Seen.output = forward(self, *args, **options)
        return Seen.output

    def leaving(self, *args, **options):
        if (
            Seen.model is None
            or Seen.done
            or threading.current_thread() is not threading.main_thread()
        ):
            return backward(self, *args, **options)
        Seen.done = True
        return tool.left(self, *args, **options)

    def noting(function):
        def noted(*args, **options):
            if Seen.model is not None and Seen.loss is None and len(args) > 1:
                Seen.loss = function, args, options
            return function(*args, **options)

        return noted

    torch.optim.Optimizer.__init__ = made_too
    torch.nn.Module.__call__ = entering
    torch.Tensor.backward = leaving
    for name in LOSSES:
        setattr(functional, name, noting(getattr(functional, name)))


def main() -> None:
    """Run the program under the tool."""
    tool = {"torch-audit": TorchAudit, "guardtower": Guardtower, "torchtest2": Torchtest2}[
        sys.argv[1]
    ]()
    watch(tool)
    sys.argv = sys.argv[2:]
    sys.path[0] = os.path.dirname(sys.argv[0])
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        tool.end()


if __name__ == "__main__":
    main()
