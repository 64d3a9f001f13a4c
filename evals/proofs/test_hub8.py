"""HUB8: folders that from_pretrained can't take, and what makes each of them load. Needs transformers and peft."""

import json
import shutil
import subprocess

import pytest
from check_code import span

hub = pytest.importorskip("huggingface_hub")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
from tokenizers import Tokenizer, models, pre_tokenizers

SMALL = transformers.BertConfig(
    vocab_size=8,
    hidden_size=4,
    num_hidden_layers=1,
    num_attention_heads=1,
    intermediate_size=4,
    max_position_embeddings=4,
)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """An empty working directory, and no network: a name that is no folder is looked up in an empty cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))


def error(call, *args) -> str:
    with pytest.raises((OSError, ValueError)) as caught:
        call(*args)
    return f"{type(caught.value).__name__}: {caught.value}"


def model(folder):
    transformers.BertModel(SMALL).save_pretrained(folder)


def tokenizer(folder):
    words = Tokenizer(models.WordLevel({"a": 0, "b": 1, "[UNK]": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]").save_pretrained(
        folder
    )


@pytest.mark.parametrize(
    "path", ["/data/models/mine", "./out/checkpoint-5", "saves/lora/mine", "~/mine"]
)
def test_a_path_that_is_not_there_is_refused_as_a_name(says, path):
    for load in (transformers.AutoConfig, transformers.AutoTokenizer, transformers.AutoModel):
        says("HUB8", error(load.from_pretrained, path))


def test_a_name_that_is_not_there_is_looked_up_on_the_hub(says):
    says("HUB4", error(transformers.AutoConfig.from_pretrained, "org/mine"))


def test_a_folder_of_the_same_name_hides_the_hubs(tmp_path, says):
    (tmp_path / "org" / "tiny").mkdir(parents=True)
    for load in (
        transformers.AutoConfig,
        transformers.AutoTokenizer,
        transformers.AutoModel,
        transformers.BertModel,
    ):
        says("HUB8", error(load.from_pretrained, "org/tiny"))
    shutil.rmtree("org")
    says("HUB4", error(transformers.AutoConfig.from_pretrained, "org/tiny"))  # now the Hub is asked


def test_the_output_folder_is_not_the_checkpoint(says):
    model("out/checkpoint-5")
    says("HUB8", error(transformers.AutoModel.from_pretrained, "out"))
    says("HUB8", error(transformers.BertModel.from_pretrained, "out"))
    assert transformers.AutoModel.from_pretrained("out/checkpoint-5").config.hidden_size == 4


def test_a_config_alone_has_no_weights(says):
    SMALL.save_pretrained("mine")
    says("HUB8", error(transformers.AutoModel.from_pretrained, "mine"))
    model("mine")
    assert transformers.AutoModel.from_pretrained("mine").config.hidden_size == 4


def test_an_adapter_alone_is_not_a_model(says):
    model("base")
    base = transformers.AutoModel.from_pretrained("base")
    peft.get_peft_model(base, peft.LoraConfig(target_modules=["query"])).save_pretrained("adapter")
    says("HUB8", error(transformers.AutoConfig.from_pretrained, "adapter"))
    says("HUB8", error(peft.PeftModel.from_pretrained, base, "base"))  # and the other way round
    again = transformers.AutoModel.from_pretrained("base")
    assert peft.PeftModel.from_pretrained(again, "adapter").peft_config["default"].r == 8


def test_weights_without_tokenizer_files(says):
    model("mine")
    shutil.copytree("mine", "bare")
    (settings := json.loads(open("bare/config.json").read())).pop("model_type")
    open("bare/config.json", "w").write(json.dumps(settings))
    says("HUB8", error(transformers.AutoTokenizer.from_pretrained, "bare"))
    tokenizer("bare")
    assert transformers.AutoTokenizer.from_pretrained("bare")("a b")["input_ids"] == [0, 1]


def test_transformers_5_makes_up_a_tokenizer_without_files():
    if int(transformers.__version__.split(".")[0]) < 5:
        pytest.skip("transformers 4 stops")
    model("mine")
    assert (
        len(transformers.AutoTokenizer.from_pretrained("mine")) == 5
    )  # its special tokens, nothing else
    (made_up := transformers.BertTokenizer.from_pretrained("mine"))("some words")
    assert len(made_up) == 5


def lists(folder) -> set[str]:
    """The names that the Check prints for this folder."""
    code = span("HUB8", "ls -la").replace("X", folder)
    said = subprocess.run(["bash", "-c", code], capture_output=True, text=True).stdout
    return {line.split()[-1] for line in said.splitlines()[1:]}


def whole(names: set[str]) -> bool:
    """What the entry calls right."""
    weights = {n for n in names if n.endswith(".safetensors") or n.startswith("pytorch_model")}
    words = names & {"tokenizer.json", "tokenizer.model", "vocab.txt", "vocab.json"}
    return bool("config.json" in names and weights and words)


def test_the_check_lists_less_than_a_model_for_each_folder_that_is_refused():
    model("out/checkpoint-5")
    SMALL.save_pretrained("config")
    model("bare")
    base = transformers.AutoModel.from_pretrained("bare")
    peft.get_peft_model(base, peft.LoraConfig(target_modules=["query"])).save_pretrained("adapter")
    model("mine")
    tokenizer("mine")
    for folder in ("out", "config", "bare", "adapter", "nowhere"):
        assert not whole(lists(folder)), folder
    assert "adapter_config.json" in lists("adapter") and not lists("nowhere")
    assert whole(lists("mine"))
    assert transformers.AutoTokenizer.from_pretrained("mine")("a b")["input_ids"] == [0, 1]
