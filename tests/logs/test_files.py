"""Files that are no plain text: compressed, in two bytes a letter, binary."""

import gzip
import io
import random
import sys
import time

import pytest
from remote_gpu_trainer.logs import files as logfiles
from remote_gpu_trainer.logs.files import Unreadable
from remote_gpu_trainer.logs.reading import from_path, from_stream

FAULT = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\nRuntimeError: boom\n'
STEPS = "step 1 loss 0.5 卡\n"


def first(data: bytes) -> str:
    return from_stream(io.BytesIO(data)).first.text


def test_a_log_that_gzip_compressed_is_read_to_its_end(tmp_path):
    (tmp_path / "a.log.gz").write_bytes(gzip.compress((STEPS * 100_000 + FAULT).encode()))
    found = from_path(str(tmp_path / "a.log.gz"))
    assert (found.first.text, found.first.number) == ("RuntimeError: boom", 100_003)


def test_compressed_logs_that_were_put_together_and_one_that_is_cut_are_read():
    assert (
        first(gzip.compress(STEPS.encode()) + gzip.compress(FAULT.encode())) == "RuntimeError: boom"
    )
    noise = "".join(random.Random(1).choices("abcdefghij\n", k=400_000))
    assert first(gzip.compress((FAULT + noise).encode())[:-40_000]) == "RuntimeError: boom"


def test_two_hundred_thousand_compressed_pieces_take_seconds():
    began = time.process_time()
    assert first(gzip.compress(STEPS.encode()) * 200_000 + gzip.compress(FAULT.encode()))
    assert time.process_time() - began < 10


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
@pytest.mark.parametrize("folder", ["/proc", "/sys/class", "/dev"])
def test_what_the_kernel_shows_is_no_folder_of_logs(folder):
    with pytest.raises(Unreadable, match="holds no logs; pass a folder of logs$"):
        from_path(folder)


def test_what_a_compressed_log_may_hold_has_a_bound(monkeypatch):
    monkeypatch.setattr(logfiles, "MOST_UNPACKED", 3 << 20)
    with pytest.raises(
        Unreadable, match="^more than 3 MB compressed in stdin; run gzip -dc .*, and pass that$"
    ):
        first(gzip.compress(STEPS.encode() * 1_000_000))


@pytest.mark.parametrize(
    "data, told",
    [
        (b"\x28\xb5\x2f\xfd" + b"abc" * 30, "compressed by zstd"),
        (b"\xfd7zXZ\x00" + b"abc" * 30, "compressed by xz"),
        (b"BZh91AY&SY" + b"abc" * 30, "compressed by bzip2"),
        (b"PK\x03\x04" + b"abc" * 30, "zip archive"),
        (b"\x1f\x8b\x08\x00" + b"\xff" * 90, "damaged gzip"),
        (random.Random(2).randbytes(50_000), "control characters"),
    ],
)
def test_what_is_packed_or_binary_is_refused_with_what_to_do(data, told):
    with pytest.raises(Unreadable, match=told) as refused:
        from_stream(io.BytesIO(data))
    assert " pass " in str(refused.value)


def test_a_chinese_log_in_gbk_and_the_controls_of_a_terminal_are_read():
    assert (
        first(("训练卡住不动,显存不足。\n" * 50).encode("gbk") + FAULT.encode())
        == "RuntimeError: boom"
    )
    assert (
        first(b"\x1b[2K\x08\x08\x08 5/100 \x07\r" * 100 + b"\n" + FAULT.encode())
        == "RuntimeError: boom"
    )


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_the_end_of_a_large_log_in_two_bytes_a_letter_is_read(encoding, monkeypatch):
    monkeypatch.setattr(logfiles, "BLOCK", 1001)  # so that blocks end within letters

    class Log(io.BytesIO):
        def read(self, most=-1):
            assert 0 < most <= 1001  # never whole in memory
            return super().read(most)

    data = ("\ufeff" + STEPS * 3000 + FAULT).encode(encoding)
    found = from_stream(Log(data))
    assert (found.first.text, found.first.number) == ("RuntimeError: boom", 3003)
    assert found.lines[0].text.endswith("卡")


def test_what_is_larger_than_was_ever_read_at_once_is_read_to_its_end():
    size = 72 << 20

    class Long(io.RawIOBase):
        at = 0

        def read(self, most=-1):
            if self.at >= size:
                return b""
            head, self.at = "\ufeff" if not self.at else "", self.at + (1 << 20)
            return (head + "step 1 ok\n" * 52_428 + (FAULT if self.at >= size else "")).encode(
                "utf-16-le"
            )

    assert from_stream(Long()).first.text == "RuntimeError: boom"


def test_a_small_reader_gets_what_a_large_one_gets():
    class Slow(io.BytesIO):
        def read(self, most=-1):
            return super().read(1)

    for data in (gzip.compress(FAULT.encode()), FAULT.encode("utf-16")):
        assert [line.text for line in from_stream(Slow(data)).lines] == [
            line.text for line in from_stream(io.BytesIO(data)).lines
        ]


@pytest.mark.parametrize("name", ["id_ed25519", ".netrc", "credentials", "server.pem"])
def test_what_a_link_calls_a_log_is_judged_by_the_name_behind_it(name, tmp_path):
    (tmp_path / name).write_text("machine example.org password hunter2222\n")
    (tmp_path / "train.log").symlink_to(tmp_path / name)
    with pytest.raises(Unreadable, match="looks like a key or a secret"):
        from_path(str(tmp_path / "train.log"))


def test_a_read_error_is_told_and_is_no_crash():
    class Dying(io.RawIOBase):
        def read(self, size=-1):
            raise OSError(5, "Input/output error")

    with pytest.raises(
        Unreadable, match=r"^a read error after 0 bytes \(Input/output error\); pass a log"
    ):
        from_stream(Dying())
