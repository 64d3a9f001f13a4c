"""O35: a model with room to spare learns a small set by heart; the best weights are earlier ones."""

import copy

import torch
from check_code import shown, span


def evaluate(model, batches) -> float:
    with torch.no_grad():
        losses = [torch.nn.functional.cross_entropy(model(x), y).item() for x, y in batches]
    return round(sum(losses) / len(losses), 2)


def batches(count: int, noise: float):
    """Two classes apart along the first of 20 features, with labels that lie in `noise` of all cases."""
    x = torch.randn(count, 20)
    y = (x[:, 0] > 0).long()
    wrong = torch.rand(count) < noise
    return [(x, torch.where(wrong, 1 - y, y))]


def told(model, train_loader, val_loader) -> list[float]:
    """What the line of the check prints."""
    names = {"train_loader": train_loader, "val_loader": val_loader, "evaluate": evaluate}
    return [float(x) for x in shown(span("O35", "evaluate("), model=model, **names).split()]


def trained(count: int, noise: float):
    torch.manual_seed(0)
    train, validation = batches(count, noise), batches(2000, noise)
    model = torch.nn.Sequential(torch.nn.Linear(20, 128), torch.nn.ReLU(), torch.nn.Linear(128, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    course, best = [], None
    for _ in range(150):
        [(x, y)] = train
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        course.append(told(model, train, validation))
        if course[-1][1] == min(loss for _, loss in course):
            best = copy.deepcopy(model)
    return course, told(best, train, validation)


def test_a_small_set_is_learned_by_heart_and_the_best_weights_were_earlier():
    course, best = trained(40, 0.2)
    train, validation = zip(*course)
    assert train[-1] < 0.1 and validation[-1] > 1.3 * min(validation)
    assert 0 < validation.index(min(validation)) < 100  # the lowest point lies before the end
    assert best[1] == min(validation)


def test_with_a_hundred_times_the_data_both_stay_together():
    course, _ = trained(4000, 0.0)
    train, validation = course[-1]
    assert abs(validation - train) < 0.1
