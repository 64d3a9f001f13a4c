"""ENV26: a package that transformers asks for by name, a version out of its range, and a process that keeps its first answer."""

import importlib.metadata
import importlib.util
import shlex

import pytest
import torchvision_operators
from check_code import span

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
torch = pytest.importorskip("torch")

OLD_ACCELERATE = f"""
import importlib.metadata as metadata
real = metadata.version
metadata.version = lambda name: "0.20.3" if name == "accelerate" else real(name)
{torchvision_operators.CODE}
import transformers
transformers.TrainingArguments(output_dir="out")
"""
KEPT = """
import importlib, pathlib, sys
from transformers.utils import is_bitsandbytes_available
print(is_bitsandbytes_available())
folder = pathlib.Path(sys.argv[1])
(folder / "bitsandbytes").mkdir()
(folder / "bitsandbytes" / "__init__.py").write_text("")
(folder / "bitsandbytes-9.0.dist-info").mkdir()
(folder / "bitsandbytes-9.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\\nName: bitsandbytes\\nVersion: 9.0\\n")
importlib.invalidate_caches()
print(importlib.util.find_spec("bitsandbytes") is not None, is_bitsandbytes_available())
"""
absent = pytest.mark.skipif(
    importlib.util.find_spec("bitsandbytes") is not None, reason="bitsandbytes is installed"
)


@pytest.fixture
def model(tmp_path, small_llama):
    transformers.AutoModelForCausalLM.from_config(small_llama).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@absent
def test_four_bits_ask_for_their_package(model, says):
    four = transformers.BitsAndBytesConfig(load_in_4bit=True)
    with pytest.raises(ImportError) as stop:
        transformers.AutoModelForCausalLM.from_pretrained(model, quantization_config=four)
    says("ENV26", str(stop.value))
    assert transformers.AutoModelForCausalLM.from_pretrained(model).config.hidden_size == 8


@pytest.mark.skipif(importlib.util.find_spec("wandb") is not None, reason="wandb is installed")
def test_a_logger_that_is_not_there_and_a_run_without_it(model, tmp_path, says):
    net = transformers.AutoModelForCausalLM.from_pretrained(model)
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), report_to="wandb", use_cpu=True
    )
    with pytest.raises(RuntimeError) as stop:
        transformers.Trainer(model=net, args=arguments)
    says("ENV26", str(stop.value))
    without = transformers.TrainingArguments(
        output_dir=str(tmp_path), report_to="none", use_cpu=True
    )
    transformers.Trainer(model=net, args=without)


def test_accelerate_below_the_floor(run_apart, says):
    result = run_apart(OLD_ACCELERATE)
    assert result.returncode == 1
    says("ENV26", result.stderr)


def test_a_version_out_of_the_range(says):
    from transformers.utils.versions import require_version

    with pytest.raises(ImportError) as stop:
        require_version("tokenizers>=0.14,<0.15")
    says("ENV26", str(stop.value))
    with pytest.raises(importlib.metadata.PackageNotFoundError) as stop:
        require_version("a_package_of_next_year>=1")
    says("ENV26", str(stop.value))


def test_a_version_that_cannot_be_read(monkeypatch, says):
    from transformers.utils.versions import require_version

    monkeypatch.setattr(importlib.metadata, "version", lambda name: None)
    with pytest.raises(ValueError, match="found=None") as stop:
        require_version("numpy>=1.17")
    says("ENV26", str(stop.value))


@absent
def test_a_config_that_reads_the_version(says):  # as BitsAndBytesConfig of transformers 4 does
    with pytest.raises(importlib.metadata.PackageNotFoundError) as stop:
        importlib.metadata.version("bitsandbytes")
    says("ENV26", str(stop.value))


@absent
def test_a_process_keeps_its_first_answer_and_a_new_one_asks_again(run_apart, tmp_path):
    assert run_apart(KEPT, tmp_path).stdout.split() == ["False", "True", "False"]
    again = run_apart("from transformers.utils import is_bitsandbytes_available as a; print(a())")
    assert again.stdout.strip() == "True", again.stderr


@absent
def test_the_check_names_a_missing_package_and_prints_the_version_of_one_that_is_there(
    run_apart, tmp_path
):
    code = shlex.split(span("ENV26", "m.version('accelerate')"))[2]
    assert run_apart(code).stdout.split()[1] == importlib.metadata.version("accelerate")
    code = code.replace("accelerate", "bitsandbytes")
    missing = run_apart(code)
    assert missing.returncode == 1 and "PackageNotFoundError" in missing.stderr
    assert run_apart(KEPT, tmp_path).returncode == 0  # it installs one
    assert run_apart(code).stdout.split()[1] == "9.0"


@pytest.mark.parametrize(
    "text",
    [
        "LlamaTokenizer requires the SentencePiece library but it was not found in your environment. Check out the",
        "T5Converter requires the protobuf library but it was not found in your environment. Check out the",
        "AutoModel requires the PyTorch library but it was not found in your environment. Check out the",
        "This modeling file requires the following packages that were not found in your environment: flash_attn. Run",
        "Cannot initialize model with low cpu memory usage because `accelerate` was not found in the environment.",
    ],
)
def test_what_other_entries_or_none_explain(text, says):
    with pytest.raises(AssertionError, match="none of the signatures"):
        says("ENV26", text)
