"""C10: what Accelerate's save_state and load_state cover. Needs accelerate."""

import pytest
import torch
from check_code import shown, span

accelerate = pytest.importorskip("accelerate")
from accelerate.state import AcceleratorState, GradientState
from accelerate.utils import DataLoaderConfiguration, ProjectConfiguration

pytestmark = pytest.mark.filterwarnings("ignore")


class Run:
    """One start of the script. The rate halves with each step, from 0.1."""

    def __init__(self, schedule="prepared", seedable=False, project=None):
        AcceleratorState._reset_state(True)
        GradientState._reset_state()
        torch.manual_seed(1)
        loader = DataLoaderConfiguration(use_seedable_sampler=seedable)
        self.accelerator = accelerate.Accelerator(
            cpu=True, dataloader_config=loader, project_config=project
        )
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
        data = torch.utils.data.DataLoader(list(range(10)), batch_size=2, shuffle=True)
        self.model, self.optimizer, self.data = self.accelerator.prepare(model, optimizer, data)
        if schedule == "prepared":
            self.scheduler = self.accelerator.prepare(self.scheduler)
        elif schedule == "registered":
            self.accelerator.register_for_checkpointing(self.scheduler)

    def step(self, batch):
        self.optimizer.zero_grad()
        self.accelerator.backward(self.model(batch.float().view(-1, 1)).mean())
        self.optimizer.step()
        self.scheduler.step()

    @property
    def rate(self):
        return self.optimizer.param_groups[0]["lr"]


def resumed(schedule, folder):
    """A run that goes on from the state that another one saved after three steps."""
    run = Run(schedule)
    for batch in list(run.data)[:3]:
        run.step(batch)
    run.accelerator.save_state(folder)
    run = Run(schedule)
    run.accelerator.load_state(folder)
    return run


@pytest.mark.parametrize("schedule", ["prepared", "registered"])
def test_a_scheduler_that_was_prepared_or_registered_continues(tmp_path, schedule):
    run = resumed(schedule, tmp_path)
    run.step(torch.ones(2))
    assert run.rate == pytest.approx(0.1 * 0.5**4)


def test_one_that_was_neither_starts_over_one_step_after_the_resume(tmp_path):
    run = Run("neither")
    for batch in list(run.data)[:3]:
        run.step(batch)
    run.accelerator.save_state(tmp_path)
    run = Run("neither")
    run.accelerator.load_state(tmp_path)
    assert run.rate == pytest.approx(0.1 * 0.5**3)  # still right: it came with the optimizer
    run.step(torch.ones(2))
    assert run.rate == pytest.approx(0.1 * 0.5)


def test_loading_before_prepare_restores_nothing_and_says_nothing(tmp_path):
    run = Run("neither")
    run.accelerator.save_state(tmp_path)
    AcceleratorState._reset_state(True)
    model = torch.nn.Linear(1, 1)
    before = model.weight.clone()
    accelerate.Accelerator(cpu=True).load_state(tmp_path)
    assert torch.equal(model.weight, before)


def test_another_set_of_registered_objects_stops_with_the_signature(tmp_path, says):
    Run("registered").accelerator.save_state(tmp_path)
    with pytest.raises(RuntimeError) as error:
        Run("neither").accelerator.load_state(tmp_path)
    says("C10", str(error.value))


def second_epoch(folder, seedable: bool, set_epoch: bool):
    """Stop after two batches of the second epoch: (what was left, what comes after the resume)."""
    run = Run(seedable=seedable)
    for _ in run.data:
        pass
    batches = iter(run.data)
    next(batches), next(batches)
    run.accelerator.save_state(folder)
    left = [batch.tolist() for batch in batches]
    run = Run(seedable=seedable)
    run.accelerator.load_state(folder)
    if set_epoch:
        run.data.set_epoch(1)
    rest = run.accelerator.skip_first_batches(run.data, 2)
    if set_epoch:
        rest.set_epoch(1)
    return left, [batch.tolist() for batch in rest]


def test_skipping_batches_of_a_new_shuffle_repeats_some_samples_and_misses_others(tmp_path):
    left, came = second_epoch(tmp_path, seedable=False, set_epoch=True)
    assert len(came) == len(left)
    assert {sample for batch in came for sample in batch} != {
        sample for batch in left for sample in batch
    }


def test_a_seedable_sampler_without_set_epoch_skips_in_the_first_epochs_order(tmp_path):
    left, came = second_epoch(tmp_path, seedable=True, set_epoch=False)
    assert came != left


def test_a_seedable_sampler_with_set_epoch_on_both_loaders_gives_exactly_what_was_left(tmp_path):
    left, came = second_epoch(tmp_path, seedable=True, set_epoch=True)
    assert came == left


def project(folder, limit=None):
    return ProjectConfiguration(
        project_dir=str(folder), automatic_checkpoint_naming=True, total_limit=limit
    )


def names(folder):
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def test_after_a_resume_the_numbering_begins_at_0_again_and_stops_with_the_signature(
    tmp_path, says
):
    Run(project=project(tmp_path)).accelerator.save_state()
    run = Run(project=project(tmp_path))
    run.accelerator.load_state()
    with pytest.raises(ValueError) as error:
        run.accelerator.save_state()
    says("C10", str(error.value))


def test_with_a_limit_the_new_checkpoint_counts_as_the_oldest_and_the_next_resume_takes_the_old_one(
    tmp_path,
):
    first = Run(project=project(tmp_path, limit=2))
    for _ in range(3):
        first.accelerator.save_state()
    assert names(tmp_path) == ["checkpoint_1", "checkpoint_2"]
    second = Run(project=project(tmp_path, limit=2))
    second.accelerator.load_state()
    for expected in (["checkpoint_0", "checkpoint_2"], ["checkpoint_1", "checkpoint_2"]):
        second.accelerator.save_state()
        assert (
            names(tmp_path) == expected
        )  # checkpoint_2 is still the first run's, and load_state() takes the highest


def test_setting_the_counter_after_the_load_keeps_the_newest(tmp_path):
    first = Run(project=project(tmp_path, limit=2))
    for _ in range(3):
        first.accelerator.save_state()
    second = Run(project=project(tmp_path, limit=2))
    second.accelerator.load_state()
    second.accelerator.project_configuration.iteration = 3
    second.accelerator.save_state()
    assert names(tmp_path) == ["checkpoint_2", "checkpoint_3"]


@pytest.mark.parametrize("schedule", ["prepared", "neither"])
def test_the_check_shows_one_rate_twice_only_where_the_schedule_came_back(tmp_path, schedule):
    run = resumed(schedule, tmp_path)
    told = shown(span("C10", "get_last_lr"), optimizer=run.optimizer, scheduler=run.scheduler)
    assert told == ("0.0125 [0.0125]" if schedule == "prepared" else "0.0125 [0.1]")
    assert (tmp_path / "scheduler.bin").exists() == (schedule == "prepared")
