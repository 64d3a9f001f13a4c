"""T5: every epoch starts new workers and hands each the whole dataset; workers that stay are started once."""

import os
import time

import torch
from check_code import block, shown
from torch.utils.data import DataLoader, Dataset

LENGTH, WORKERS = 8, 2


class Who(Dataset):
    """A sample is the process that loaded it and the epoch that its copy of the dataset knows."""

    epoch = 0

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        return torch.tensor([os.getpid(), self.epoch])


def loader(dataset=None, **settings):
    return DataLoader(
        dataset or Who(),
        batch_size=2,
        num_workers=WORKERS,
        multiprocessing_context="fork",
        **settings,
    )


def processes(batches):
    return {int(row[0]) for batch in batches for row in batch}


def test_workers_are_new_in_each_epoch():
    data = loader()
    assert not processes(data) & processes(data)


def test_persistent_workers_are_the_same_ones():
    data = loader(persistent_workers=True)
    first = processes(data)
    assert len(first) == WORKERS and processes(data) == first


def test_a_loader_made_anew_in_each_epoch_has_new_workers_all_the_same():
    assert not processes(loader(persistent_workers=True)) & processes(
        loader(persistent_workers=True)
    )


def test_workers_that_stay_never_hear_of_a_change_of_the_dataset():
    for stay, heard in ((False, 1), (True, 0)):
        dataset = Who()
        data = loader(dataset, persistent_workers=stay)
        list(data)
        dataset.epoch = 1
        assert {int(row[1]) for batch in data for row in batch} == {heard}


def test_nothing_of_the_next_epoch_is_loaded_before_it_begins():
    loaded = torch.zeros(1, dtype=torch.int64).share_memory_()

    class Counting(Who):
        def __getitem__(self, index):
            loaded.add_(1)
            return super().__getitem__(index)

    data = DataLoader(
        Counting(),
        batch_size=2,
        num_workers=1,
        multiprocessing_context="fork",
        persistent_workers=True,
    )
    list(data)
    time.sleep(0.3)  # long enough to load all of it
    assert loaded.item() == LENGTH
    list(data)
    assert loaded.item() == 2 * LENGTH


PARENT = """
import torch
from torch.utils.data import DataLoader
from data import Big

if __name__ == "__main__":
    for stay in (False, True):
        Big.sent = 0
        loader = DataLoader(Big(), num_workers=1, multiprocessing_context="spawn", persistent_workers=stay)
        for _ in range(2):
            list(loader)
        print(stay, Big.sent)
"""

DATA = """
class Big:
    sent = 0

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return index

    def __getstate__(self):
        Big.sent += 1
        return {"records": bytes(10**6)}
"""


def test_with_spawn_the_dataset_is_pickled_for_each_worker_of_each_epoch(tmp_path, run_apart):
    (tmp_path / "data.py").write_text(DATA)
    (tmp_path / "parent.py").write_text(PARENT)
    result = run_apart("import runpy; runpy.run_path('parent.py', run_name='__main__')")
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["False", "2", "True", "1"]


def test_the_trainer_keeps_the_evaluation_loader_only_with_persistent_workers(tmp_path):
    from transformers import Trainer, TrainingArguments

    for stay in (False, True):
        arguments = TrainingArguments(
            output_dir=tmp_path,
            report_to=[],
            dataloader_num_workers=1,
            dataloader_persistent_workers=stay,
            use_cpu=True,
        )
        trainer = Trainer(model=torch.nn.Linear(1, 1), args=arguments, eval_dataset=Who())
        trainer.get_eval_dataloader()
        assert hasattr(trainer, "_eval_dataloaders") is stay


def slow_start(number):
    time.sleep(0.3)


def test_the_lines_of_the_check_show_a_start_in_each_epoch_or_in_the_first_one_alone():
    def first_batches(**settings):
        data = loader(worker_init_fn=slow_start, **settings)
        return [
            float(line.split()[0])
            for line in shown(block("T5"), time=time, loader=data).splitlines()
        ]

    assert min(first_batches()) >= 0.3
    first, *others = first_batches(persistent_workers=True)
    assert first >= 0.3 > 0.2 > max(others) and len(others) == 2
