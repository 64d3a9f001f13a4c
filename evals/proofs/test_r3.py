"""R3: scales of rewards, advantages and observations."""

import pytest
import torch
from check_code import shown, span

torch.manual_seed(0)
X, ACTIONS = torch.randn(64, 4), torch.randint(0, 3, (64,))
RETURNS = torch.randn(64)


def gradient(advantages, inputs=X):
    model = torch.nn.Linear(4, 3)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    chosen = model(inputs).log_softmax(-1)[torch.arange(len(inputs)), ACTIONS]
    (-(chosen * advantages).mean()).backward()
    return model.weight.grad


def normalised(values):
    return (values - values.mean()) / (values.std() + 1e-8)


def test_raw_advantages_hand_the_scale_of_the_reward_to_the_gradient():
    assert gradient(1000 * RETURNS).norm() > 999 * gradient(RETURNS).norm()


def test_normalised_ones_do_not():
    assert torch.allclose(
        gradient(normalised(1000 * RETURNS + 50)), gradient(normalised(RETURNS)), atol=1e-4
    )


def test_a_value_loss_grows_with_the_square_of_the_reward_and_is_not_normalised():
    def value_loss(scale):
        return (torch.zeros(64) - scale * RETURNS).pow(2).mean()

    assert value_loss(100.0) / value_loss(1.0) == pytest.approx(1e4, rel=1e-3)


def test_an_observation_of_large_units_drowns_the_others():
    mixed = X * torch.tensor([1000.0, 1.0, 1.0, 1.0])
    g = gradient(normalised(RETURNS), mixed)
    assert g[:, 0].norm() > 50 * g[:, 1:].norm()
    running = (mixed - mixed.mean(0)) / (mixed.var(0) + 1e-8).sqrt()
    g = gradient(normalised(RETURNS), running.clamp(-10, 10))
    assert g[:, 0].norm() < 5 * g[:, 1:].norm()


@pytest.mark.filterwarnings("ignore:std")
def test_one_sample_has_no_deviation():
    assert normalised(torch.tensor([3.0])).isnan().all()


def test_a_group_of_almost_equal_rewards_is_blown_up_to_full_size():
    rewards = torch.tensor([0.700, 0.701, 0.700, 0.700])
    scaled = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
    assert scaled.max() > 1.2
    assert (rewards - rewards.mean()).abs().max() < 0.001


def test_a_policy_that_overflowed_fails_with_the_signature(says):
    torch.distributions.Distribution.set_default_validate_args(
        True
    )  # torch's default, which some libraries switch off
    with pytest.raises(ValueError) as error:
        torch.distributions.Normal(torch.full((2,), float("nan")), torch.ones(2))
    says("R3", str(error.value))
    with pytest.raises(ValueError) as error:
        torch.distributions.Categorical(logits=torch.full((2, 3), float("nan")))
    says("R3", str(error.value))


def test_the_check_names_the_weights_that_broke_and_none_for_a_bad_observation():
    policy = torch.nn.Linear(2, 2)
    assert shown(span("R3", "[n for n, p"), policy=policy) == "[]"
    with torch.no_grad():
        policy.bias[0] = float("nan")
    assert shown(span("R3", "[n for n, p"), policy=policy) == "['bias']"
