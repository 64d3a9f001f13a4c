"""R7: clipping takes gradients away and bounds nothing."""

import torch
from check_code import shown, span

ACTIONS = torch.arange(6).repeat(40)
ADVANTAGES = torch.tensor([3.0, -1, 0.5, -2, 1, -1]).repeat(40)


def update(epochs, rate, target_kl=None, temperature=1.0):
    """The numbers of the check, (approx_kl, largest ratio), before each step of one PPO update."""
    logits = torch.zeros(6)
    logits[2] = 0.5
    stored = (logits / temperature).log_softmax(0)[ACTIONS]
    logits.requires_grad_(True)
    momentum, course = torch.zeros(6), []
    for _ in range(epochs):
        log_ratio = logits.log_softmax(0)[ACTIONS] - stored
        ratio = log_ratio.exp()
        told = shown(span("R7", "log_ratio).mean()"), ratio=ratio, log_ratio=log_ratio)
        course.append(tuple(map(float, told.split())))
        if target_kl and course[-1][0] > 1.5 * target_kl:
            break
        gains = torch.minimum(ratio * ADVANTAGES, ratio.clamp(0.8, 1.2) * ADVANTAGES)
        momentum = 0.9 * momentum + torch.autograd.grad(gains.mean(), logits)[0]
        logits.data += rate * momentum
    return course


def test_the_first_minibatch_fits_and_later_ones_leave_the_range_although_it_is_clipped():
    course = update(epochs=10, rate=0.3)
    assert abs(course[0][0]) < 1e-6 and abs(course[0][1] - 1) < 1e-6
    assert course[-1][0] > 0.1 and course[-1][1] > 1.2 * 1.2


def test_each_further_epoch_adds_to_it_also_where_no_gradient_is_left():
    course = update(epochs=10, rate=0.3)
    assert course[4][0] > course[2][0] > course[1][0]


def test_a_small_rate_or_a_stop_by_kl_keeps_the_numbers_small():
    assert max(kl for kl, _ in update(epochs=4, rate=0.01)) < 0.01
    stopped, free = update(epochs=10, rate=0.1, target_kl=0.02), update(epochs=10, rate=0.1)
    assert len(stopped) < 10 and stopped[-1][0] < free[-1][0] / 2


def test_log_probabilities_of_another_policy_show_in_the_first_minibatch():
    kl, largest = update(epochs=1, rate=0.1, temperature=0.5)[0]
    assert kl > 0.005 and largest > 1.1
