"""Secrets in the forms that logs hold them, and what only looks like one."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remote_gpu_trainer.logs.reading import from_text
from remote_gpu_trainer.text.masking import HINTS, hints_in, mask, shown, shown_lines
from remote_gpu_trainer.text.secrets import holds_secret, is_secret

HEX = "0123456789abcdef0123456789abcdef"


SECRETS = [
    ("export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY", "wJalr"),
    ("secret_key=minioadminminioadmin", "minioadmin"),
    (f"KAGGLE_KEY={HEX}", HEX),
    ("AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq==", "Eby8"),
    ("train.py --password hunter2hunter2", "hunter2"),
    ("train.py --hf_token abcdef1234567890XYZ --lr 1", "abcdef"),
    ("train.py --wandb-key abcdef1234567890XYZ", "abcdef"),
    (f"wandb: ERROR api key: {HEX} invalid", HEX),
    (f"vast api_key {HEX}", HEX),
    ("vast api_key deadbeefdeadbeefdeadbeefdeadbeef", "deadbeef"),
    (f"Authorization: Token {HEX}", HEX),
    (f"authorization: bearer {HEX}", HEX),
    ("nvapi-AbCdEfGh1234567890AbCdEfGh", "AbCdEf"),
    ("pk: gsk_abcdefghijklmnop1234567890", "abcdef"),
    ("r8_abcdefghijklmnop1234567890abcdefghi", "abcdef"),
    ("npm_AbCdEf0123456789AbCdEf0123456789abcd", "AbCdEf"),
    ("dckr_pat_abcdefgh12345678", "abcdef"),
    ("https://x-access-token:ghs_AbCdEf0123456789AbCdEf@github.com/a/b", "AbCdEf"),
    (
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
        "eyJzdWIi",
    ),
    ("https://acct.blob.core.windows.net/c/x?sv=2022&sig=abcDEF123456%2Bxyz%3D", "abcDEF"),
    (
        "https://b.s3.amazonaws.com/x?X-Amz-Algorithm=AWS4&X-Amz-Signature=deadbeefdeadbeef",
        "deadbeef",
    ),
    ("hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX", "T0000"),
    (r'"private_key": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC"', "MIIE"),
]


@pytest.mark.parametrize("text, hidden", SECRETS)
def test_a_secret_is_masked_where_a_log_is_read_and_where_it_is_shown(text, hidden):
    [line] = from_text("RuntimeError: call failed: " + text).lines
    assert hidden not in line.text and "***" in line.text
    assert hidden not in shown(text) and "***" in shown(text)


HARMLESS = [
    "key: 5",
    "token: 128",
    "num_token: 1048576",
    "throughput 41000 tokens/s",
    "train.py --max_new_tokens 512 --tokenizer meta-llama/Llama-3.1-8B",
    "train.py --pad_token <|endoftext|> --eos_token <|im_end|>",
    "train.py --hf_token $HF_TOKEN --max-token 1000000",
    "eos_token='<|im_end|>'",
    "KeyError: 'attention_mask'",
    'Missing key(s) in state_dict: "model.layers.0.weight", "lm_head.weight".',
    "Unexpected key: model.layers.31.mlp.down_proj.weight",
    "cache_key=tokenizer_fingerprint_v2 sort_key: created_at_timestamp",
    "missing api key in the environment of this process",
    'curl -H "Authorization: Bearer $RUNPOD_API_KEY" https://rest.runpod.io/v1/pods',
    "npm_config_registry=https://registry.npmmirror.com",
    "signature=(Tensor, Tensor) -> Tensor",
    "wandb: ERROR api_key not configured (no-tty). call wandb.login(key=[your_api_key])",
    "secretary problem, keyboard interrupt, passwordless login",
]


def test_a_dump_of_the_environment_shows_no_password():
    assert mask("environ({'DB_PASS': 'abc7', 'N': '1'})") == "environ({'DB_PASS': '***', 'N': '1'})"
    assert mask("epoch_pass: 3 TWO_PASSES=12") == "epoch_pass: 3 TWO_PASSES=12"


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays_readable(text):
    assert shown(text) == text
    assert "***" not in "".join(line.text for line in from_text(text).lines)


@pytest.mark.parametrize(
    "piece",
    [
        "eyJaaaaaaaa-",
        "eyJ.",
        "--a",
        "--token ",
        "api key a-",
        "A_KEY=-",
        "authorization: ",
        "-----BEGIN A",
        "&key=",
        "hooks.slack.com/services/",
    ],
)
@pytest.mark.alone
def test_no_form_takes_quadratic_time(piece):
    text = (
        piece * (100_000 // len(piece))
        + " token key= --key hook/ eyJ authorization bearer passw secret"
    )
    started = time.process_time()
    mask(text)
    assert time.process_time() - started < 0.5


def test_a_line_that_is_longer_than_what_is_shown_gives_no_piece_of_its_secret():
    for said in ("Authorization: Bearer " + "a1B2" * 400, "password=" + "c3D4" * 400):
        for text in (said, f"a line before\n{said}", f"{said}\nlast line"):
            told = "\n".join(shown_lines(text, 1, 160))
            assert "a1B2" not in told and "c3D4" not in told, told
    assert shown_lines("one\ntwo\n" * 5000, 2, 80) == ["one", "two"]


@given(
    st.lists(st.sampled_from([*HINTS, "_", "x", "hf", "pat", " ", "\n", "Ä"]), max_size=12).map(
        "".join
    )
)
def test_no_hint_of_a_secret_is_overlooked(text):
    low = text.lower()
    assert {hint for hint in HINTS if hint in low} <= set(hints_in(low))


@pytest.mark.parametrize("text, hidden", [*SECRETS, (f"wandb login --relogin {HEX}01234567", HEX)])
def test_what_is_masked_is_no_text_for_a_script_either(text, hidden):
    assert holds_secret(text)
    assert hidden not in mask(text)


@pytest.mark.parametrize(
    "text",
    [
        *HARMLESS,
        "train.py --backend hf_transformers --image registry/sk-training-v2:latest",
        "train.py --text_key sentence1 --bos_token reserved_special_token_0 --password prompt",
        "train.py --password=$DB_PASSWORD --token=${HF_TOKEN} --api-key=~/.config/key",
        "python -c \"login(token=os.environ['HF_TOKEN'])\"",
        "git clone https://oauth2:$GITLAB_TOKEN@gitlab.com/group/project",
    ],
)
def test_a_name_or_a_place_of_a_secret_may_stand_in_a_script(text):
    assert not holds_secret(text)


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("WANDB_API_KEY", "any words", True),
        ("ENCRYPTION_KEY", "any words", True),
        ("KAGGLE_KEY", HEX, True),
        ("MODAL_TOKEN", "ak1234567890abcdef", True),
        ("ANY", "postgres://me:hunter2hunter2@db/runs", True),
        ("HF_TOKEN", "", False),
        ("SORT_KEY", "created_at_timestamp", False),
        ("PAD_TOKEN", "reserved_special_token_0", False),
    ],
)
def test_a_variable_is_a_secret_by_its_name_or_by_how_it_looks(name, value, secret):
    assert is_secret(name, value) is secret
