"""R5: losses of reinforcement learning are no measure of progress."""

import torch
from check_code import shown, span

torch.manual_seed(0)


def test_the_value_loss_grows_while_the_policy_gets_better():
    value, loss, reward = torch.zeros(()), [], []
    for step in range(200):
        returns = (
            0.05 * step * (1 + 0.3 * torch.randn(256))
        )  # better and better, and noisier in proportion
        loss.append((value - returns).pow(2).mean().item())
        reward.append(returns.mean().item())
        value = value + 0.2 * (returns.mean() - value)
    assert reward[-1] > 50 * max(reward[1], 0.01)
    assert loss[-1] > 100 * loss[5]


def explained(predicted, returns):
    return (1 - (returns - predicted).var() / returns.var()).item()


def test_the_explained_variance_tells_a_good_critic_from_a_useless_one_at_any_scale():
    returns = 100 * torch.randn(1000)
    good, useless, worse = returns + 20 * torch.randn(1000), torch.zeros(1000), -returns
    assert (returns - good).pow(2).mean() > 300  # a large loss
    assert explained(good, returns) > 0.9
    assert abs(explained(useless, returns)) < 1e-3
    assert explained(worse, returns) < -1


def grouped_policy_loss():
    logits = torch.zeros(6, requires_grad=True)
    tokens = torch.tensor([0, 1, 2, 3])
    rewards = torch.tensor([1.0, 0.0, 0.0, 0.0])
    advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
    log_p = logits.log_softmax(0)[tokens]
    ratio = (log_p - log_p.detach()).exp()  # 1 on the first pass over fresh samples
    return -(ratio * advantages).mean(), logits


def test_a_loss_of_zero_still_has_a_gradient():
    loss, logits = grouped_policy_loss()
    loss.backward()
    assert abs(loss.item()) < 1e-6
    assert logits.grad[0] < -0.1 < logits.grad[1]


def test_where_tokens_count_instead_of_answers_the_loss_is_not_zero():
    advantages, lengths = torch.tensor([1.5, -0.5, -0.5, -0.5]), torch.tensor([3.0, 9.0, 5.0, 7.0])
    ratio = 1.0  # the first pass over fresh samples
    assert abs((ratio * advantages).mean()) < 1e-6
    assert (ratio * advantages * lengths).sum() / lengths.sum() < -0.2


def test_equal_rewards_in_a_group_have_none():
    rewards = torch.full((4,), 0.7)
    advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
    assert advantages.abs().max() < 1e-3


def test_the_check_is_near_1_for_a_good_critic_and_0_for_a_useless_one():
    torch.manual_seed(0)
    returns = torch.randn(1000) * 200

    def number(values):
        return float(shown(span("R5", "1 - (returns"), returns=returns, values=values)[7:-1])

    good, useless = returns + torch.randn(1000) * 20, torch.zeros(1000)
    assert number(good) > 0.9
    assert abs(number(useless)) < 1e-3
