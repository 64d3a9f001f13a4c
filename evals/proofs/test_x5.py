"""X5: answers from the wording alone."""

import functools
from types import SimpleNamespace

import torch
from check_code import shown, span

QUESTIONS, ANSWERS = 8, 4


def data(count, prior, seed):
    """Each question has a usual answer, right in `prior` of the cases; the image always tells the answer."""
    g = torch.Generator().manual_seed(seed)
    question = torch.randint(0, QUESTIONS, (count,), generator=g)
    other = torch.randint(0, ANSWERS, (count,), generator=g)
    answer = torch.where(torch.rand(count, generator=g) < prior, question % ANSWERS, other)
    image = torch.nn.functional.one_hot(answer, ANSWERS) + 0.5 * torch.randn(
        count, ANSWERS, generator=g
    )
    return question, image, answer


class Model(torch.nn.Module):
    def __init__(self, reach):
        super().__init__()
        self.reach = (
            reach  # how strongly the image arrives, 0.01 as through a projector that hardly learned
        )
        self.question, self.image = (
            torch.nn.Embedding(QUESTIONS, ANSWERS),
            torch.nn.Linear(ANSWERS, ANSWERS),
        )

    def forward(self, question, image):
        return self.question(question) + self.reach * self.image(image)


@functools.cache
def trained(prior, reach):
    torch.manual_seed(0)
    model = Model(reach)
    optimizer = torch.optim.Adam(model.parameters(), 2e-2)
    question, image, answer = data(2000, prior, 1)
    for _ in range(200):
        loss = torch.nn.functional.cross_entropy(model(question, image), answer)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model, loss.item()


def scores(model, prior):
    """Accuracy with the own images, and with those of other examples."""
    question, image, answer = data(2000, prior, 2)
    with torch.no_grad():
        own = (model(question, image).argmax(1) == answer).double().mean().item()
        swapped = (model(question, image.roll(1, 0)).argmax(1) == answer).double().mean().item()
    return own, swapped


def test_a_model_that_hardly_sees_scores_well_on_predictable_questions():
    model, loss = trained(0.9, 0.01)
    own, _ = scores(model, 0.9)
    assert own > 0.85 and loss < 0.6


def test_swapping_the_images_changes_nothing_for_it():
    own, swapped = scores(trained(0.9, 0.01)[0], 0.9)
    assert own - swapped < 0.02


def test_for_a_model_that_looks_it_does():
    own, swapped = scores(trained(0.0, 1.0)[0], 0.0)
    assert own > 0.75 and own - swapped > 0.4


def test_balanced_answers_show_the_blindness_that_usual_ones_hide():
    blind, _ = trained(0.9, 0.01)
    assert scores(blind, 0.0)[0] < 0.4
    assert scores(blind, 0.9)[0] > 0.85


def test_balanced_training_data_makes_the_same_network_look_harder():
    usual, balanced = trained(0.97, 1.0)[0], trained(0.0, 1.0)[0]
    assert scores(balanced, 0.0)[0] > scores(usual, 0.0)[0] + 0.1


def test_the_check_is_exactly_0_only_where_pixels_do_not_arrive():
    question, image, _ = data(8, 0.9, 3)

    def largest(reach):
        torch.manual_seed(0)
        model = Model(reach)

        def f(x, pixels):
            return SimpleNamespace(logits=model(x, pixels))

        names = {"f": f, "x": question, "image1": image, "image2": image.roll(1, 0)}
        return float(
            shown(span("X5", "(f(x, image1)"), **names).split("(")[1].split(",")[0].rstrip(")")
        )

    assert largest(0.0) == 0 and largest(0.01) > 0
