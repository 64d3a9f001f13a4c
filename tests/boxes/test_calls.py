"""What a call of the server started ends with it, however late it was started."""

import signal
import subprocess
import threading

from remote_gpu_trainer.boxes import calls


def sleeper() -> subprocess.Popen:
    return subprocess.Popen(["sleep", "30"], start_new_session=True)


def test_what_a_call_started_ends_with_it():
    with calls.in_call() as call:
        process = call.start(sleeper)
        assert process.poll() is None
    assert process.wait(5) == -signal.SIGKILL


def test_what_is_started_after_the_end_ends_at_once():
    with calls.in_call() as call:
        pass
    assert call.start(sleeper).wait(5) == -signal.SIGKILL


def test_an_end_waits_for_a_program_that_is_being_started():
    with calls.in_call() as call:
        is_starting, may_go_on = threading.Event(), threading.Event()
        made = []

        def slowly() -> subprocess.Popen:
            made.append(sleeper())
            is_starting.set()
            assert may_go_on.wait(10)
            return made[0]

        starting = threading.Thread(target=call.start, args=(slowly,))
        starting.start()
        assert is_starting.wait(10)
        ending = threading.Thread(target=call.end)
        ending.start()
        ending.join(0.2)
        assert ending.is_alive(), "the end would miss the program"
        may_go_on.set()
        starting.join(10), ending.join(10)
        assert made[0].wait(5) == -signal.SIGKILL
