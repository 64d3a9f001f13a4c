"""DP19: a data folder that is empty, elsewhere or one folder off is refused; the absolute path of the right one is not."""

import os
import subprocess

import pytest

datasets = pytest.importorskip("torchvision.datasets")


@pytest.fixture
def images(tmp_path):
    """A folder with two classes and a picture in each. Nobody opens the pictures, so they may be empty."""
    for name in ("cat", "dog"):
        (tmp_path / "data" / "train" / name).mkdir(parents=True)
        (tmp_path / "data" / "train" / name / "1.jpg").touch()
    return tmp_path / "data" / "train"


def refused(says, path, kind=FileNotFoundError):
    with pytest.raises(kind) as error:
        datasets.ImageFolder(path)
    says("DP19", str(error.value))


def test_a_relative_path_begins_where_the_process_was_started(images, says, tmp_path, monkeypatch):
    (tmp_path / "home" / "data" / "train").mkdir(
        parents=True
    )  # what a volume leaves that isn't mounted
    monkeypatch.chdir(tmp_path / "home")
    refused(says, "data/train")
    assert len(datasets.ImageFolder(str(images))) == 2
    monkeypatch.chdir(tmp_path)
    assert len(datasets.ImageFolder("data/train")) == 2


def test_one_folder_too_deep(images, says):
    refused(says, str(images / "cat"))


def test_links_that_lead_nowhere(says, tmp_path):
    (tmp_path / "cat").symlink_to("/mnt/old-box/cat")
    refused(says, str(tmp_path))
    found = subprocess.run(
        ["find", str(tmp_path), "-xtype", "l"], capture_output=True, text=True, check=True
    ).stdout
    assert found.split() == [str(tmp_path / "cat")]


@pytest.fixture
def looked_at(tmp_path, shell_of):
    """looked_at(folder): where the check leads from there, and what it lists below the mount."""

    def look(folder):
        code = shell_of("DP19", "findmnt")
        assert code.startswith("P=data/train; ")
        told = subprocess.run(
            ["bash", "-c", code], cwd=tmp_path / folder, capture_output=True, text=True
        ).stdout.splitlines()
        mount = [line for line in told[1:3] if line.startswith(("TARGET", "/"))]
        return os.path.relpath(told[0], tmp_path), sorted(told[1 + len(mount) :])

    return look


def test_the_line_of_the_check_shows_what_the_folder_holds_or_that_it_is_empty_or_elsewhere(
    images, looked_at, tmp_path
):
    pictures = [f"data/train{x}" for x in ("/cat", "/cat/1.jpg", "/dog", "/dog/1.jpg")]
    assert looked_at(".") == ("data/train", pictures)
    (tmp_path / "home").mkdir()
    assert looked_at("home") == ("home/data/train", [])
    (tmp_path / "home/data/train").mkdir(parents=True)
    assert looked_at("home") == ("home/data/train", [])
    (tmp_path / "home/data/train/cat").symlink_to("/mnt/old-box/cat")
    assert looked_at("home") == ("home/data/train", 2 * ["data/train/cat"]), "listed and dead"


def test_a_folder_that_a_notebook_left_is_taken_for_a_class(images, says):
    (images / ".ipynb_checkpoints").mkdir()
    refused(says, str(images))
    assert len(datasets.ImageFolder(str(images), allow_empty=True)) == 2


@pytest.mark.parametrize(
    "make", [datasets.CIFAR10, datasets.MNIST, datasets.ImageNet, datasets.VOCDetection]
)
def test_sets_that_torchvision_knows(make, says, tmp_path):
    with pytest.raises(RuntimeError) as error:
        make(str(tmp_path))
    says("DP19", str(error.value))


def test_the_tilde_is_the_shells_and_letter_case_counts(images, monkeypatch):
    monkeypatch.setenv("HOME", str(images.parent))
    assert not os.path.exists("~/train")
    assert os.path.exists(os.path.expanduser("~/train"))
    assert not os.path.exists(images.parent / "Train")


@pytest.mark.parametrize(
    "text",
    [  # datasets 5.2.0, run by hand
        "datasets.data_files.EmptyDatasetError: The directory at /mnt/empty doesn't contain any data files",
        "FileNotFoundError: Couldn't find any data file at /nope/data.",
        "FileNotFoundError: Unable to find '/mnt/~/a.jsonl'",
        "ConnectionError: Couldn't reach './nope' on the Hub (OfflineModeIsEnabled)",
        "ConnectionError: Couldn't reach 'data/a.jsonl' on the Hub (LocalEntryNotFoundError)",
        "ValueError: At least one valid data file must be specified, all the data_files are invalid: {'train': []}",
        "FileNotFoundError: Directory empty is neither a `Dataset` directory nor a `DatasetDict` directory.",
        '    raise FileNotFoundError(f"Directory {dataset_path} not found")\nFileNotFoundError: Directory nope not found',
        "ConnectionError: Couldn't reach 'data/train' on the Hub (OfflineModeIsEnabled)",
        # older ones
        "FileNotFoundError: Couldn't find a dataset script at /mnt/person1/person1.py or any data file in the same directory.",
        "FileNotFoundError: Unable to find '/home/user/axolotl/corpus' at /home/user/axolotl",
        "FileNotFoundError: Unable to resolve any data file that matches '['**train*']' at /data/glue with any supported extension ['csv']",
        "RuntimeError: Found 0 files in subfolders of: /data/imagenet/train",
        # other libraries
        "Dataset '/content/x/data.yaml' images not found ⚠️, missing path '/content/datasets/x/valid/images'",
        "Note dataset download directory is '/content/datasets'. You can update this in '/root/.config/Ultralytics/settings.json'",
        "FileNotFoundError: \nDataset '/home/me/set/data.yaml' images not found ⚠️, missing path '/home/me/set/valid/images'",
        "FileNotFoundError: No images found in /mnt/set or its subdirectories.",
        "ValueError: Instance /mnt/dog images root doesn't exists.",
        "Exception: Dataset not found ❌",
        "ValueError: Cannot open data/dataset_info.json due to [Errno 2] No such file or directory: 'data/dataset_info.json'.",
        "FileNotFoundError: CocoDataset: [Errno 2] No such file or directory: 'data/coco/annotations/instances_train2017.json'",
        "FileNotFoundError: [Errno 2] No such file or directory: '../data/finetune_sample/train.txt'",
        "FileNotFoundError: Dataset not found: train (data-bin/wmt16)",
        "AssertionError: One or both of the .idx and .bin files cannot be found at the path prefix /data/my-gpt2_text_document",
    ],
)
def test_texts_of_other_libraries(text, says):
    says("DP19", text)


@pytest.mark.parametrize(
    "text",
    [
        "ConnectionError: Couldn't reach 'squad' on the Hub (ConnectTimeout)",
        "FileNotFoundError: Couldn't find a dataset script at /mnt/tsv/tsv.py or any data file in the same directory. "
        "Couldn't find 'tsv' on the Hugging Face Hub either: FileNotFoundError: Dataset 'tsv' doesn't exist on the Hub",
        "WARNING ⚠️ Dataset 'coco8.yaml' images not found, missing path '/root/datasets/coco8/images/val'",
        "WARNING ⚠️ Dataset '/mnt/coco8.yaml' images not found, missing path '/root/datasets/coco8/images/val'",
        "Dataset 'ultralytics/cfg/datasets/VOC.yaml' images not found ⚠️, missing path '/root/datasets/VOC/images/val'",
        "ValueError: At least one valid data file must be specified, all the data_files are invalid: {'train': ['/mnt/bad.parquet']}",
        "ValueError: Undefined dataset mllm_demo in dataset_info.json.",  # DP27
        "RuntimeError: Dataset metadata file not found or corrupted. You can use download=True to download it",
        "ValueError: Cannot open data/dataset_info.json due to Expecting ',' delimiter: line 3 column 5 (char 40).",
        "FileNotFoundError: [Errno 2] No such file or directory: './work_dirs/llava/checkpoint-1000/trainer_state.json'",
    ],
)
def test_texts_of_other_causes(text, says):
    with pytest.raises(AssertionError):
        says("DP19", text)
