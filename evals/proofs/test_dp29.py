"""DP29: a dataset without a length needs a number of steps."""

import pytest
import torch
from check_code import shown, span

transformers = pytest.importorskip("transformers")


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        yield from ({"x": torch.ones(1), "labels": torch.ones(1)} for _ in range(10))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, x, labels):
        return {"loss": (self.layer(x) - labels).square().mean()}


@pytest.fixture
def trainer(tmp_path):
    def make(**options):
        arguments = transformers.TrainingArguments(
            str(tmp_path),
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            per_device_train_batch_size=2,
            **options,
        )
        return transformers.Trainer(Net(), arguments, train_dataset=Stream())

    return make


def told(train_dataset) -> str:
    return shown(span("DP29", "hasattr("), train_dataset=train_dataset)


def test_trainer_refuses_a_stream_without_a_number_of_steps(trainer, says):
    assert told(Stream()) == "False"
    with pytest.raises(ValueError) as error:
        trainer()
    says("DP29", str(error.value))


def test_the_length_of_a_stream_and_of_its_loader_is_refused(says):
    class MyIterableDataset(Stream):
        pass

    for it in (MyIterableDataset(), torch.utils.data.DataLoader(MyIterableDataset())):
        with pytest.raises(TypeError) as error:
            len(it)
        says("DP29", f"TypeError: {error.value}")


def test_with_steps_the_stream_begins_again_until_they_are_done(trainer):
    done = trainer(max_steps=12).train()
    assert done.global_step == 12  # ten samples are five steps


def test_a_dataset_with_a_length_is_told_as_healthy():
    assert told(torch.utils.data.TensorDataset(torch.ones(2))) == "True"
