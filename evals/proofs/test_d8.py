"""D8: parameters without a gradient, in DDP."""

import pytest
import torch
from launch import run_ranks

TWO_HEADS = """
    import contextlib, dataclasses, torch, torch.distributed as dist, types
    from torch.nn.parallel import DistributedDataParallel as DDP
    from torch.utils.checkpoint import checkpoint
    dist.init_process_group("gloo")
    torch.manual_seed(0)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head, self.spare = (torch.nn.Linear(4, 4) for _ in range(3))
        def forward(self, x):
            x = {body}
            return {returns}

    @dataclasses.dataclass
    class Outputs:
        used: torch.Tensor
        unused: torch.Tensor

    net = Model()
    {before}
    model = DDP(net, {options})
    for step in range(2):
        {call}(torch.ones(2, 4))
        loss = {loss}
        loss.backward()
        print("step", step, "done")
    print("last gradient", net.head.bias.grad.tolist())
    print([name for name, p in net.named_parameters() if p.requires_grad and p.grad is None])
    dist.barrier()
    dist.destroy_process_group()
"""


def train(
    options="",
    loss="used.sum()",
    body="self.body(x)",
    before="",
    call="used, unused = model",
    returns="self.head(x), self.spare(x)",
    env=None,
):
    """The output of both ranks. A rank that fails first may end the other before it has printed its own error."""
    script = TWO_HEADS.format(
        options=options, loss=loss, body=body, before=before, call=call, returns=returns
    )
    return run_ranks(script, env=env).output


@pytest.mark.parametrize(
    "takes_part, culprits", [(False, "['aux_head.weight', 'aux_head.bias']"), (True, "[]")]
)
def test_the_check_names_the_parameters_without_a_gradient(printed, takes_part, culprits):
    model = torch.nn.ModuleDict({"head": torch.nn.Linear(4, 4), "aux_head": torch.nn.Linear(4, 4)})
    x = torch.ones(2, 4)
    loss = model["head"](x).sum() + (model["aux_head"](x).sum() if takes_part else 0)
    loss.backward()
    assert printed("D8", model=model) == culprits


def ends(output):
    return output.count("step 1 done") == 2


def test_the_first_step_passes_and_the_second_fails_with_the_signature(says):
    output = train()
    assert "step 0 done" in output and "step 1 done" not in output
    says("D8", output)


def test_debug_info_names_the_parameters_without_a_gradient():
    output = train(env={"TORCH_DISTRIBUTED_DEBUG": "INFO"})
    assert "did not receive grad for rank" in output and "spare.weight" in output


def test_find_unused_parameters_allows_an_output_of_a_tuple_or_dict_that_the_loss_leaves_out():
    assert ends(train("find_unused_parameters=True"))
    assert ends(
        train(
            "find_unused_parameters=True",
            loss="found['used'].sum()",
            call="found = model",
            returns="dict(used=self.head(x), unused=self.spare(x))",
        )
    )


@pytest.mark.parametrize("options", ["", "find_unused_parameters=True"])
def test_a_forward_past_the_wrapper_prints_no_error_and_averages_nothing(options):
    def gradients(call):
        output = train(options, loss="(used + unused).sum() * (1 + dist.get_rank())", call=call)
        assert ends(output) and "find_unused_parameters=True` is enabled" not in output
        return {line for line in output.splitlines() if line.startswith("last gradient")}

    assert len(gradients("used, unused = model")) == 1
    assert len(gradients("used, unused = model.module")) == 2


def test_the_search_is_blind_when_a_step_calls_the_wrapper_and_goes_past_it(says):
    output = train(
        "find_unused_parameters=True", call="model(torch.ones(2, 4)); used, unused = model.module"
    )
    assert "Since `find_unused_parameters=True` is enabled" in output
    says("D8", output)


def test_the_search_is_blind_to_outputs_in_an_object_of_ones_own(says):
    hidden = {
        "loss": "(found.used + found.unused).sum()",
        "call": "found = model",
        "returns": "types.SimpleNamespace(used=self.head(x), unused=self.spare(x))",
    }
    assert ends(train(**hidden))
    output = train("find_unused_parameters=True", **hidden)
    assert "step 0 done" not in output
    says("D8", output)


def test_the_search_does_not_allow_a_dataclass_whose_output_the_loss_leaves_out(says):
    left_out = {
        "loss": "found.used.sum()",
        "call": "found = model",
        "returns": "Outputs(self.head(x), self.spare(x))",
    }
    output = train("find_unused_parameters=True", **left_out)
    assert "step 0 done" in output and "step 1 done" not in output
    says("D8", output)


def test_an_output_that_counts_zero_takes_part():
    assert ends(train(loss="used.sum() + 0.0 * unused.sum()"))


def test_a_part_frozen_before_wrapping_is_not_waited_for():
    assert ends(train(before="net.spare.requires_grad_(False)"))


REENTRANT = "checkpoint(self.body, x.requires_grad_(), use_reentrant={})"
BOTH = "(used + unused).sum()"


def test_find_unused_parameters_with_reentrant_checkpointing_fails_in_another_way(says):
    output = train("find_unused_parameters=True", BOTH, REENTRANT.format(True))
    assert "step 0 done" not in output
    says("D8", output)


def test_a_static_graph_allows_both():
    assert ends(train("static_graph=True", BOTH, REENTRANT.format(True)))
    assert ends(train("static_graph=True"))


def test_checkpointing_without_reentrance_allows_the_search():
    assert ends(train("find_unused_parameters=True", BOTH, REENTRANT.format(False)))


@pytest.mark.parametrize("returns", ["Outputs", "types.SimpleNamespace"])
def test_a_static_graph_averages_nothing_when_outputs_are_hidden_in_an_object(returns):
    of_its_own = {
        "loss": "(found.used + found.unused).sum() * dist.get_rank()",
        "call": "found = model",
        "returns": f"{returns}(used=self.head(x), unused=self.spare(x))",
    }

    def gradients(options):
        return {
            line
            for line in train(options, **of_its_own).splitlines()
            if line.startswith("last gradient")
        }

    assert len(gradients("")) == 1
    assert len(gradients("static_graph=True")) == 2


def test_a_static_graph_stops_when_the_first_step_accumulates_without_sync():
    accumulates = {
        "call": "stack = contextlib.ExitStack()\n        step or stack.enter_context(model.no_sync())\n"
        "        used, unused = model",
        "loss": BOTH,
    }
    assert "expect_autograd_hooks_ INTERNAL ASSERT FAILED" in train(
        "static_graph=True", **accumulates
    )
    assert ends(train(**accumulates))
