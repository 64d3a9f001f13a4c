"""X2: a new connector in front of a language model that is trained at once."""

import ast
import copy
import functools

import torch

WORDS = 16
SUCCESSOR = torch.randperm(WORDS, generator=torch.Generator().manual_seed(0))


class Language(torch.nn.Module):
    """Predicts the next word from the last one and from a context vector, zero where there is no image."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, 16)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, WORDS)
        )

    def forward(self, word, context=0.0):
        return self.net(self.words(word) + context)


def text_loss(language):
    word = torch.arange(WORDS)
    return torch.nn.functional.cross_entropy(language(word), SUCCESSOR[word])


@functools.cache
def pretrained():
    torch.manual_seed(0)
    language = Language()
    optimizer = torch.optim.Adam(language.parameters(), 1e-2)
    for _ in range(200):
        optimizer.zero_grad()
        text_loss(language).backward()
        optimizer.step()
    return language


def aligned(language_hot, rate=1e-2, steps=60):
    """Train on captions; also gives the text loss afterwards."""
    torch.manual_seed(1)
    language = copy.deepcopy(pretrained()).requires_grad_(language_hot)
    projector = torch.nn.Linear(4, 16)
    parts = [*projector.parameters(), *(language.parameters() if language_hot else [])]
    optimizer = torch.optim.Adam(parts, rate)
    for _ in range(steps):
        image = torch.randn(32, 4) * 3
        word = torch.randint(0, WORDS, (32,))
        caption = image.argmax(1)
        loss = torch.nn.functional.cross_entropy(language(word, projector(image)), caption)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return projector, text_loss(language).item(), loss.item()


def test_the_language_model_knows_its_text_before():
    assert text_loss(pretrained()) < 0.05


def test_trained_together_with_a_new_projector_it_forgets():
    assert aligned(language_hot=True)[1] > 1


def test_frozen_it_keeps_the_text_while_the_projector_learns():
    _, text, caption = aligned(language_hot=False, steps=200)
    assert text == text_loss(pretrained()).item()
    assert caption < 1
    assert aligned(language_hot=False, steps=1)[2] > 5


def test_a_projector_that_was_not_loaded_is_as_bad_as_none():
    trained, *_ = aligned(language_hot=False, steps=200)
    new = torch.nn.Linear(4, 16)
    image = torch.randn(500, 4) * 3
    word = torch.randint(0, WORDS, (500,))

    def loss(projector):
        return torch.nn.functional.cross_entropy(
            pretrained()(word, projector(image)), image.argmax(1)
        ).item()

    assert loss(new) > loss(trained) + 1


def test_a_checkpoint_without_it_loads_when_strict_is_off():
    model = torch.nn.ModuleDict(
        {"language_model": torch.nn.Linear(2, 2), "mm_projector": torch.nn.Linear(2, 2)}
    )
    saved = {k: v for k, v in model.state_dict().items() if "mm_projector" not in k}
    assert model.load_state_dict(saved, strict=False).missing_keys == [
        "mm_projector.weight",
        "mm_projector.bias",
    ]


def test_the_line_of_a_loading_report_is_recognised(says):
    says("X2", "model.multi_modal_projector.linear_1.weight | MISSING | ")
    says(
        "X2",
        "and are newly initialized: ['model.mm_projector.0.weight', 'model.mm_projector.2.bias']",
    )


def test_the_check_shows_like_numbers_only_for_a_projector_that_was_loaded(
    printed, tmp_path, monkeypatch
):
    torch.manual_seed(0)
    monkeypatch.chdir(tmp_path)
    model = torch.nn.ModuleDict({"mm_projector": torch.nn.Linear(40, 40)})
    other = {f"mm_projector.{n}": p for n, p in torch.nn.Linear(4, 40).state_dict().items()}

    def largest_difference(saved):
        torch.save(saved, "mm_projector.bin")
        in_file, in_model = printed("X2", torch=torch, model=model).split("} {")
        a, b = ast.literal_eval(in_file + "}"), ast.literal_eval("{" + in_model)
        return max(abs(a[name] / b[name] - 1) for name in a)

    assert largest_difference(model.state_dict()) == 0
    rounded = {n: p.bfloat16() for n, p in model.state_dict().items()}
    assert 0 < largest_difference(rounded) < 0.01
    assert largest_difference(other) > 0.01
