"""Secrets in the forms that logs hold them, and what only looks like one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remote_gpu_trainer.logs.reading import from_text
from remote_gpu_trainer.text.masking import HINTS, hints_in, mask, shown, shown_lines
from remote_gpu_trainer.text.secrets import holds_secret, is_secret

from tests.engines.machine_speed import ratio

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
    'curl -u "$LAMBDA_API_KEY:" -H "Content-Type: application/json" -d \'{"ids": ["ID"]}\'',
    "npm_config_registry=https://registry.npmmirror.com",
    "signature=(Tensor, Tensor) -> Tensor",
    "wandb: ERROR api_key not configured (no-tty). call wandb.login(key=[your_api_key])",
    "secretary problem, keyboard interrupt, passwordless login",
]


def test_a_dump_of_the_environment_shows_no_password():
    assert mask("environ({'DB_PASS': 'abc7', 'N': '1'})") == "environ({'DB_PASS': '***', 'N': '1'})"
    assert mask("epoch_pass: 3 TWO_PASSES=12") == "epoch_pass: 3 TWO_PASSES=12"


@pytest.mark.parametrize(
    "item, masked",
    [
        ("'PGPASSWORD': 'p'", "'PGPASSWORD': '***'"),
        ("'DB_PASSWORD': 'Tr0ub4dor&3'", "'DB_PASSWORD': '***'"),
        ('"SMTP_PASS": "it\'s me"', '"SMTP_PASS": "***"'),
        (r"'VAULT_TOKEN': 'a \'b\' \"c\"'", "'VAULT_TOKEN': '***'"),
        ("'GITHUB_PAT': 'of mine'", "'GITHUB_PAT': '***'"),
        ("'STORE': 'mysql://root:a-b_c@db:3306/x'", "'STORE': 'mysql://root:***@db:3306/x'"),
        ("'PWD': '/home/me', 'MONKEY': '', 'PATH': '/bin'",) * 2,
    ],
)  # fmt: skip
def test_in_a_dump_of_the_environment_a_secret_is_masked_whole(item, masked):
    dump = "environ({'HOME': '/home/me', %s, 'SHLVL': '1'})"
    assert mask(dump % item) == dump % masked
    [line] = from_text("Error: " + dump % item).lines
    assert line.text == "Error: " + dump % masked


@pytest.mark.parametrize(
    "text, masked",
    [
        ("db_password: correct horse  # of the box", "db_password: ***"),
        ("- passphrase: 'a b'", "- passphrase: ***"),
        ("smtp: {password: a b, port: 25}", "smtp: {password: ***, port: 25}"),
        ("secret: |\n  a b\n\n  c d\nport: 25", "secret: |\n  ***\n\n  ***\nport: 25"),
        ("a:\n  token: >-\n    a b\n    c\n  port: 25", "a:\n  token: >-\n    ***\n    ***\n  port: 25"),
        ("password:\n  a b\nport: 25", "password:\n  ***\nport: 25"),
        ("- name: DB_PASSWORD\n  value: a b\n- name: N\n  value: 3", "- name: DB_PASSWORD\n  value: ***\n- name: N\n  value: 3"),
        ("- name: API_KEY\n  value: |-\n    a b\n  kind: x", "- name: API_KEY\n  value: |-\n    ***\n  kind: x"),
        ('{"name": "DB_PASS", "value": "a b", "n": 1}', '{"name": "DB_PASS", "value": "***", "n": 1}'),
        ("private_key: |\n  -----BEGIN PRIVATE KEY-----\n  MIIEvQIBADANBgkq\nx: 1", "private_key: |\n  ***\n  ***\nx: 1"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEF\n-----END RSA PRIVATE KEY-----\nstep 1",
         "-----BEGIN RSA PRIVATE KEY-----\n***\n***\n-----END RSA PRIVATE KEY-----\nstep 1"),
        ("secret:\n  name: of-mine\n  optional: true",) * 2,
        ("secret: null\npassword: $DB\npassword: 3",) * 2,
        ("password=a&b,c;d-e and on", "password=*** and on"),
        ("mysql://h/db?password=abcdefg&user=me", "mysql://h/db?password=***&user=me"),
        (r'"{\"password\": \"a b c\", \"n\": 1}"', r'"{\"password\": \"***\", \"n\": 1}"'),
    ],
)  # fmt: skip
def test_in_yaml_and_settings_a_secret_is_masked_whole(text, masked):
    assert mask(text) == masked
    bare = [line for line in masked.split("\n") if line]
    assert [line.text for line in from_text("step 1\n" + text).lines][1:] == bare
    assert shown_lines(text, width=80) == [line for line in bare if line]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays_readable(text):
    assert shown(text) == text and shown(f"a\t{text}\x07") == f"a {text}"
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
        "password: '",
        "password=&a",
        "{password: ",
        "'A_KEY': '",
        "name: A_KEY, value: ",
        "secret: |\n  a\n",
        "://a:@",
    ],
)
def test_no_form_takes_quadratic_time(piece):
    end = " token key= --key hook/ eyJ authorization bearer passw secret"
    texts = [piece * (size // len(piece)) + end for size in (100_000, 25_000)]
    whole, quarter = (lambda text=text: mask(text) for text in texts)
    assert ratio(whole, quarter) < 8  # 16 if it were quadratic


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


def test_what_is_shown_has_an_end_of_its_own():
    assert shown("x" * 1000) == "x" * 298 + " …"
    assert shown_lines("x" * 1000 + "\n" + "y\n" * 50) == ["y"] * 40
    assert shown_lines("y\n" + "x" * 1000) == ["y", "x" * 298 + " …"]
