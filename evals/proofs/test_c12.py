"""C12: the counter that was saved and never used."""

import torch
from torch import nn

EPOCHS, STEPS = 4, 5


def build():
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return (
        model,
        optimizer,
        torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 4)),
    )


def train(
    path, start_epoch: int, state=None, dies_after: int | None = None, saves_next: bool = True
) -> list[int]:
    """Returns the epochs that this start trained; saves after each one."""
    model, optimizer, scheduler = build()
    if state:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
    trained = []
    for epoch in range(start_epoch, EPOCHS):
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(torch.ones(1, 2)).square().sum().backward()
            optimizer.step()
            scheduler.step()
        trained.append(epoch)
        torch.save(
            {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
                "next_epoch": epoch + 1 if saves_next else epoch,
            },
            path,
        )
        if epoch == dies_after:
            break
    return trained


def test_a_loop_that_starts_at_0_trains_the_finished_epochs_again(tmp_path):
    path = tmp_path / "latest.pt"
    first = train(path, 0, dies_after=1)
    second = train(path, 0, torch.load(path))
    assert first + second == [0, 1, 0, 1, 2, 3]
    assert (
        torch.load(path)["scheduler"]["last_epoch"] == 6 * STEPS
    )  # the check: more ticks than the plan has


def test_a_loop_that_starts_at_the_saved_epoch_trains_each_once(tmp_path):
    path = tmp_path / "latest.pt"
    first = train(path, 0, dies_after=1)
    state = torch.load(path)
    second = train(path, state["next_epoch"], state)
    assert first + second == [0, 1, 2, 3]
    assert torch.load(path)["scheduler"]["last_epoch"] == EPOCHS * STEPS


def test_saving_the_epoch_that_just_ended_repeats_one(tmp_path):
    path = tmp_path / "latest.pt"
    first = train(path, 0, dies_after=1, saves_next=False)
    state = torch.load(path)
    assert first + train(path, state["next_epoch"], state) == [0, 1, 1, 2, 3]


def test_the_check_shows_a_count_that_starts_at_0_beside_a_schedule_that_does_not(
    tmp_path, printed
):
    path = tmp_path / "latest.pt"
    train(path, 0, dies_after=1)
    state = torch.load(path)
    *_, scheduler = build()
    scheduler.load_state_dict(state["scheduler"])
    assert printed("C12", start=0, step=0, scheduler=scheduler) == f"0 0 {2 * STEPS}"
    done = {"start": state["next_epoch"], "step": state["next_epoch"] * STEPS}
    assert printed("C12", scheduler=scheduler, **done) == f"2 {2 * STEPS} {2 * STEPS}"
    *_, by_epoch = build()
    for _ in range(2):
        by_epoch.step()
    assert printed("C12", scheduler=by_epoch, **done) == f"2 {2 * STEPS} 2"
