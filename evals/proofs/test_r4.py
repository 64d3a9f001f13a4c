"""R4: what a saved policy doesn't hold."""

import copy
from types import SimpleNamespace

import torch

torch.manual_seed(0)


class Running:
    """Running mean and variance of observations, as wrappers of environments keep them."""

    def __init__(self):
        self.mean, self.var, self.count = torch.zeros(3), torch.ones(3), 1e-4

    def update(self, x):
        delta, total = x.mean(0) - self.mean, self.count + len(x)
        both = (
            self.var * self.count
            + x.var(0, unbiased=False) * len(x)
            + delta**2 * self.count * len(x) / total
        )
        self.mean, self.var, self.count = self.mean + delta * len(x) / total, both / total, total

    def __call__(self, x):
        return ((x - self.mean) / (self.var + 1e-8).sqrt()).clamp(-10, 10)


def observe(count):
    return torch.randn(count, 3) * torch.tensor([5.0, 0.01, 1.0]) + torch.tensor([100.0, 0.5, 0.0])


stats = Running()
for _ in range(50):
    stats.update(observe(64))
target = torch.tensor([[1.0], [-2.0], [0.5]])
policy = torch.nn.Linear(3, 1)
with torch.no_grad():
    policy.weight.copy_(target.T)
    policy.bias.zero_()
OBS = observe(500)
WANTED = policy(stats(OBS)).detach()


def error(normalise):
    return (policy(normalise(OBS)) - WANTED).abs().mean().item()


def test_the_same_weights_behind_fresh_statistics_act_otherwise():
    assert error(Running()) > 1
    assert error(stats) == 0


def test_without_any_normalisation_too():
    assert error(lambda x: x) > 10


def test_saved_statistics_bring_the_actions_back():
    saved = copy.deepcopy(stats.__dict__)
    fresh = Running()
    fresh.__dict__.update(saved)
    assert error(fresh) == 0


def test_fresh_statistics_only_come_near_after_many_observations():
    fresh = Running()
    fresh.update(observe(8))
    early = error(fresh)
    for _ in range(50):
        fresh.update(observe(64))
    assert early > 3 * error(fresh)


def test_statistics_that_go_on_moving_change_the_score_of_an_evaluation():
    moving = copy.deepcopy(stats)
    moving.count = 64
    moving.update(observe(64) + torch.tensor([50.0, 0.0, 0.0]))
    assert error(moving) > 0.5


def test_the_state_dict_of_the_policy_holds_none_of_this():
    assert set(policy.state_dict()) == {"weight", "bias"}


def test_updates_on_a_buffer_that_starts_empty_see_the_same_few_samples():
    def different(size, draws=256):
        return len(set(torch.randint(0, size, (draws,)).tolist()))

    assert different(10) <= 10 and different(100_000) > 240


def test_the_check_shows_lost_statistics_an_empty_buffer_and_an_agent_without_one(printed):
    def shown(rms, **model):
        words = printed(
            "R4", env=SimpleNamespace(obs_rms=rms), model=SimpleNamespace(**model)
        ).split()
        return [words[0], words[-1]]

    full, empty = (SimpleNamespace(size=lambda n=n: n) for n in (5000, 0))
    assert shown(stats, replay_buffer=full) == ["5000", str(stats.count)]
    assert shown(Running(), replay_buffer=empty) == ["0", "0.0001"]
    assert shown(stats) == ["None", str(stats.count)]


def test_a_raw_observation_hides_lost_statistics_and_a_normalised_one_shows_them():
    assert torch.equal(
        policy(OBS), policy(OBS)
    )  # the weights alone: before and after a restart alike
    assert not torch.allclose(policy(Running()(OBS)), WANTED)
    assert torch.equal(policy(stats(OBS)), WANTED)
