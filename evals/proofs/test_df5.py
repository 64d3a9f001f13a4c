"""DF5: guidance needs a trained empty condition."""

import functools

import torch

NULL = 2  # the row of the embedding that stands for "no condition"


class Denoiser(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.condition = torch.nn.Embedding(3, 8)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(9, 64), torch.nn.SiLU(), torch.nn.Linear(64, 1)
        )

    def forward(self, x, c):
        return self.net(torch.cat([x[:, None], self.condition(c)], 1))[:, 0]


@functools.cache
def trained(dropout, labels_tell=True):
    """Guesses the clean value of data at -2 (class 0) and 2 (class 1) under noise of deviation 1."""
    torch.manual_seed(0)
    model = Denoiser()
    start = model.condition.weight[NULL].clone()
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(400):
        c = torch.randint(0, 2, (256,))
        clean = c * 4.0 - 2
        shown = c if labels_tell else torch.randint(0, 2, (256,))
        shown = torch.where(torch.rand(256) < dropout, NULL, shown)
        loss = (model(clean + torch.randn(256), shown) - clean).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model, start


X = torch.linspace(-4, 4, 81)


def answer(model, c):
    with torch.no_grad():
        return model(X, torch.full((81,), c))


def error_of_the_empty_condition(model):
    """Against the best guess for somebody who isn't told the class."""
    return (answer(model, NULL) - 2 * torch.tanh(2 * X)).abs().mean().item()


def test_without_dropout_the_empty_condition_is_never_trained():
    model, start = trained(0.0)
    assert torch.equal(model.condition.weight[NULL], start)
    assert error_of_the_empty_condition(model) > 1.2


def test_with_a_tenth_dropped_it_becomes_the_unconditional_model():
    model, start = trained(0.1)
    assert not torch.equal(model.condition.weight[NULL], start)
    assert error_of_the_empty_condition(model) < 0.8


def test_guidance_then_pushes_away_from_the_other_class():
    model, _ = trained(0.1)
    middle = 40  # x = 0, where nobody can tell
    push = (answer(model, 1) - answer(model, NULL))[middle]
    assert push > 1


def test_a_condition_that_says_nothing_leaves_guidance_without_effect():
    model, _ = trained(0.1, labels_tell=False)
    guided = answer(model, NULL) + 7.5 * (answer(model, 1) - answer(model, NULL))
    told, _ = trained(0.1)
    strong = answer(told, NULL) + 7.5 * (answer(told, 1) - answer(told, NULL))
    assert (guided - answer(model, NULL)).abs().max() < 0.3 * (
        strong - answer(told, NULL)
    ).abs().max()


def test_dropping_everything_or_scale_one_leaves_no_guidance_either():
    model, _ = trained(0.1)
    c, empty = answer(model, 1), answer(model, NULL)
    assert torch.allclose(empty + 1.0 * (c - empty), c, atol=1e-5)


def test_dropping_two_text_encoders_independently_drops_both_only_in_one_percent():
    drops = torch.rand(100_000, 2, generator=torch.Generator().manual_seed(0)) < 0.1
    assert 0.008 < drops.all(1).float().mean() < 0.012


def test_the_check_is_about_0_where_the_condition_does_not_arrive(value_of):
    torch.manual_seed(0)
    x, (model, _) = torch.randn(64), trained(0.1)
    c, empty = torch.ones(64, dtype=torch.long), torch.full((64,), NULL)

    def shown(f):
        with torch.no_grad():
            return value_of("DF5", "(f(x, c)", f=f, x=x, c=c, empty=empty)

    assert shown(model) > 0.1
    assert shown(lambda x, c: model(x, torch.full_like(c, NULL))) == 0
