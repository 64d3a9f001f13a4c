"""R2: the divergence from the reference."""

import copy

import torch
from check_code import block, shown

torch.manual_seed(0)
END = 0


def estimates(policy, reference, allowed=None, count=20_000):
    """Mean of log p - log q, and of the estimator that is never negative, over sampled tokens."""
    p, q = policy.log_softmax(0), reference.log_softmax(0)
    drawn = p.exp() if allowed is None else p.exp() * allowed
    tokens = torch.multinomial(
        drawn, count, replacement=True, generator=torch.Generator().manual_seed(0)
    )
    gap = (p - q)[tokens]
    return gap.mean().item(), ((-gap).exp() - 1 + gap).mean().item()


def test_the_estimate_is_about_right_when_tokens_are_drawn_from_the_policy_itself():
    policy, reference = torch.randn(20), torch.randn(20)
    true = (policy.softmax(0) * (policy.log_softmax(0) - reference.log_softmax(0))).sum().item()
    plain, safe = estimates(policy, reference)
    assert abs(plain - true) < 0.05 and abs(safe - true) < 0.1


def test_it_turns_negative_when_the_end_token_is_forbidden_while_sampling():
    policy, reference = torch.zeros(20), torch.zeros(20)
    policy[END] = 4.0  # the policy has learned to stop early
    allowed = torch.ones(20)
    allowed[END] = 0  # min_length, or an end token that generate doesn't know
    plain, safe = estimates(policy, reference, allowed)
    assert plain < -1
    assert safe > 0


def test_a_penalty_on_that_number_pays_for_drifting_further():
    allowed = torch.ones(20)
    allowed[END] = 0
    reference, paid = torch.zeros(20), []
    for drift in (1.0, 3.0, 5.0):
        policy = torch.zeros(20)
        policy[END] = drift
        paid.append(-0.1 * estimates(policy, reference, allowed)[0])
    assert 0 < paid[0] < paid[1] < paid[2]


def steps(reference_of):
    model = torch.nn.Linear(4, 5)
    reference = reference_of(model)
    x = torch.randn(8, 4)
    for _ in range(20):
        loss = -model(x).log_softmax(-1)[:, 1].mean()
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= p.grad
    p, q = model(x).log_softmax(-1), reference(x).log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1).mean().item()


def test_a_reference_that_is_the_same_object_shows_no_divergence_at_all():
    assert steps(lambda model: model) == 0


def test_a_deep_copy_shows_how_far_the_policy_has_gone():
    assert steps(lambda model: copy.deepcopy(model).requires_grad_(False)) > 0.5


def test_the_clip_limits_one_update_and_not_the_sum_of_many():
    p = torch.tensor(0.01)
    for _ in range(20):
        p = p * 1.2  # the largest ratio that a clip range of 0.2 rewards
    assert p > 0.3


class Scored(torch.nn.Linear):
    """A policy that answers as a language model does."""

    def forward(self, x):
        return (super().forward(x),)


def told(reference_of, rate=1.0):
    """The two numbers of the check before the first update and after 20 steps."""
    model, batch = Scored(4, 5), {"x": torch.randn(8, 4)}
    names = {"torch": torch, "batch": batch, "model": model, "ref": reference_of(model)}
    seen = [shown(block("R2"), **names)]
    for _ in range(20):
        loss = -model(**batch)[0].log_softmax(-1)[:, 1].mean()
        for p, g in zip(model.parameters(), torch.autograd.grad(loss, model.parameters())):
            p.data -= rate * g
    seen.append(shown(block("R2"), **names))
    return [tuple(map(float, line.split())) for line in seen]


def test_the_check_tells_a_copy_from_the_same_object_another_model_and_one_that_does_not_train():
    (start, before), (later, after) = told(copy.deepcopy)
    assert start < 1e-3 < later and before == after
    (start, before), (later, after) = told(lambda model: model)
    assert start == later == 0 and before != after
    assert told(lambda model: Scored(4, 5))[0][0] > 1e-3
    stuck = told(copy.deepcopy, rate=0.0)
    assert stuck[0] == stuck[1]
