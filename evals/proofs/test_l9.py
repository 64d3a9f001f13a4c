"""L9: what the numbers of a DPO run say."""

import math

import pytest
import torch
from torch.nn.functional import logsigmoid

VOCABULARY, BETA = 20, 0.1
CHOSEN, REJECTED = (
    torch.tensor([1, 2, 3, 4]),
    torch.tensor([1, 2, 3, 5]),
)  # they differ in one token


def log_prob(policy, tokens):
    return policy.log_softmax(-1)[torch.arange(len(tokens)), tokens].sum()


class Run:
    """A policy of independent positions, trained with DPO. `follow`: the reference is the policy itself."""

    def __init__(self, beta=BETA, lr=0.5, follow=False, chosen=CHOSEN, rejected=REJECTED):
        torch.manual_seed(0)
        self.policy = torch.randn(4, VOCABULARY).requires_grad_()
        self.reference = self.policy if follow else self.policy.detach().clone()
        self.optimizer = torch.optim.SGD([self.policy], lr)
        self.beta, self.chosen, self.rejected = beta, chosen, rejected

    def step(self):
        self.optimizer.zero_grad()
        rewards = [
            log_prob(self.policy, side) - log_prob(self.reference, side).detach()
            for side in (self.chosen, self.rejected)
        ]
        loss = -logsigmoid(self.beta * (rewards[0] - rewards[1]))
        loss.backward()
        self.optimizer.step()
        chosen, rejected = (self.beta * r.item() for r in rewards)
        return {
            "loss": loss.item(),
            "margins": chosen - rejected,
            "accuracies": float(chosen > rejected),
        }

    def train(self, steps=50):
        return [self.step() for _ in range(steps)]


def test_the_first_step_reads_ln_2_margin_0_and_accuracy_0_in_every_sound_run():
    first = Run().train(1)[0]
    assert first["loss"] == pytest.approx(math.log(2))
    assert (first["margins"], first["accuracies"]) == (0, 0)


def test_a_reference_with_other_weights_shows_in_the_first_step():
    run = Run()
    run.reference = run.reference + torch.randn(4, VOCABULARY)
    assert abs(run.train(1)[0]["loss"] - math.log(2)) > 0.01


def test_a_sound_run_leaves_ln_2():
    last = Run().train()[-1]
    assert last["loss"] < 0.6 and last["margins"] > 0.2 and last["accuracies"] == 1


def test_a_reference_that_is_the_policy_itself_keeps_ln_2_for_ever_while_the_weights_move():
    run = Run(follow=True)
    before = run.policy.detach().clone()
    log = run.train()
    assert all(line["loss"] == pytest.approx(math.log(2)) and line["margins"] == 0 for line in log)
    assert (run.policy - before).abs().max() > 0.5


def test_equal_answers_teach_nothing():
    run = Run(rejected=CHOSEN)
    assert run.train()[-1]["loss"] == pytest.approx(math.log(2))
    assert run.policy.grad.abs().max() == 0


def test_a_rate_a_thousand_times_too_small_shows_no_margin_either():
    assert Run(lr=5e-4).train()[-1]["margins"] < 0.001


def shared(steps, sft=0.0):
    """Both answers run over one output layer, as in a language model: log-probabilities before and after."""
    torch.manual_seed(0)
    features = torch.tensor([[1.0, 0.0], [1.0, 0.05]])  # nearly the same context
    weight = torch.tensor(
        [[1.0, 0.0], [1.0, 0.0], [3.0, 0.0]]
    ).requires_grad_()  # the third token is the likely one
    score = lambda: (features @ weight.T).log_softmax(-1)[torch.arange(2), torch.tensor([0, 1])]
    start = score().detach()
    optimizer = torch.optim.SGD([weight], 1.0)
    for _ in range(steps):
        optimizer.zero_grad()
        now = score()
        (-logsigmoid(BETA * ((now - start)[0] - (now - start)[1])) - sft * now[0]).backward()
        optimizer.step()
    return start, score().detach()


def test_the_margin_can_grow_while_the_rejected_answer_pays_for_it():
    start, end = shared(150)
    assert (end - start)[0] - (end - start)[1] > 2
    assert end[1] < start[1] - 2


def test_an_added_likelihood_term_lifts_the_chosen_answer():
    assert shared(150, sft=0.1)[1][0] > shared(150)[1][0]


def test_the_check_by_the_gradient_tells_equal_answers_from_a_rate_that_is_too_small():
    equal, slow = Run(rejected=CHOSEN), Run(lr=5e-4)
    for run in (equal, slow):
        assert run.train()[-1]["loss"] == pytest.approx(math.log(2), abs=1e-3)
    assert equal.policy.grad.norm() < 1e-6 < slow.policy.grad.norm()
