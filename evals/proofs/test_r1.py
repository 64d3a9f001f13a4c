"""R1: a policy that games its reward."""

import ast
from types import SimpleNamespace

import torch
from check_code import block, shown

TRUE = torch.tensor([0.0, 0.2, 0.5, 1.0, 0.6, -0.5])  # what people want of six answers
MODEL = torch.tensor(
    [0.0, 0.2, 0.5, 0.9, 0.6, 2.0]
)  # what the reward model gives: the last one fools it
REFERENCE = torch.tensor([1.0, 1.0, 1.5, 2.0, 1.0, -1.0])


def trained(beta, steps=600, rate=2.0):
    logits = REFERENCE.clone().requires_grad_(True)
    reference = REFERENCE.log_softmax(0)
    course = []
    for _ in range(steps):
        policy = logits.log_softmax(0)
        gain = (policy.exp() * (MODEL - beta * (policy - reference))).sum()
        (gradient,) = torch.autograd.grad(gain, logits)
        with torch.no_grad():
            logits += rate * gradient
            p = logits.softmax(0)
            kl = (p * (logits.log_softmax(0) - reference)).sum()
            entropy = -(p * logits.log_softmax(0)).sum()
            course.append((float(p @ MODEL), float(p @ TRUE), float(kl), float(entropy)))
    return course


def test_without_a_penalty_the_scored_reward_rises_while_the_wanted_one_falls_below_the_start():
    course = trained(beta=0.0)
    assert course[-1][0] > 1.9 > 3 * course[0][0]
    assert course[-1][1] < -0.4 and course[0][1] > 0.6


def test_all_answers_become_the_same():
    course = trained(beta=0.0)
    assert course[-1][3] < 0.1 < course[0][3] / 5


def test_the_jump_of_reward_comes_with_a_jump_of_divergence():
    course = trained(beta=0.0)
    assert course[-1][2] > 3.5 > 10 * course[0][2]


def test_a_penalty_keeps_what_was_wanted_and_the_policy_near():
    course = trained(beta=1.0)
    assert course[-1][1] > course[0][1] - 0.02
    assert course[-1][2] < 0.2


def test_a_length_in_the_reward_beats_the_content():
    rewards = torch.tensor([1.0, 0.0, 0.0])  # right and short, wrong and long, wrong and very long
    lengths = torch.tensor([20.0, 400.0, 800.0])
    assert (rewards + 0.005 * lengths).argmax() == 2
    assert (rewards - 0.0005 * lengths).argmax() == 0


def told(beta):
    """What the lines of the check print of a log as TRL writes it, with the wanted reward as the judge."""
    names = ("rewards/paid/mean", "rewards/judge/mean", "kl", "entropy")
    course = trained(beta)
    history = [dict(zip(names, course[i])) | {"step": i} for i in (0, 50, len(course) - 1)]
    state = SimpleNamespace(log_history=history)
    lines = shown(block("R1"), trainer=SimpleNamespace(state=state)).splitlines()
    return [ast.literal_eval(line) for line in lines]


def test_the_check_shows_the_judge_fall_under_a_rising_reward_and_not_with_a_penalty():
    paid, judge = "rewards/paid/mean", "rewards/judge/mean"
    first, *_, last = told(beta=0.0)
    assert last[paid] > first[paid] and last[judge] < first[judge]
    assert last["kl"] > first["kl"] and last["entropy"] < 0.1
    first, *_, last = told(beta=1.0)
    assert last[paid] > first[paid] and last[judge] > first[judge] - 0.02
    assert last["kl"] < 0.2 and last["entropy"] > 0.5
