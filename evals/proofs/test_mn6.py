"""MN6: the signatures find the time-out as two releases print it."""

NEEDED = "Please check that you have enough resources to run at least 12 Horovod processes. Timeout after 600 seconds."
# As 0.24 and as 0.28.1 print it: https://github.com/horovod/horovod/blob/master/horovod/runner/elastic/driver.py
TIMED_OUT = [
    f"horovod.runner.common.util.timeout.TimeoutException: Timed out waiting for {what}. {NEEDED}"
    for what in ("minimum number of slots to become available", "{activity}")
]


def test_the_text_of_the_time_out(says):
    for text in TIMED_OUT:
        says("MN6", text)
