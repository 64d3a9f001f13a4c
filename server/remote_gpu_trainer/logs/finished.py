"""Does a log end with the words by which a trainer tells that it is done? Python 3.8."""

from __future__ import annotations

import re

from .lines import Line

LAST = 25  # lines of a log in which they may stand
# Above each form, one real line.
_ENDS = re.compile(
    r"""(?:
        # Training completed. Do not forget to share your model on huggingface.co/models =)
        Training\ completed\.\ Do\ not\ forget\ to\ share
        # {'train_runtime': 6033.5, 'train_samples_per_second': 16.6, 'epoch': 3.0}
        | .{0,40}'train_runtime':
        # `Trainer.fit` stopped: `max_epochs=10` reached.
        | .{0,80}`Trainer\.fit`\ stopped:\ `max_(?:epochs|steps)=\d+`\ reached
        # 300 epochs completed in 4.213 hours.
        | \d{1,6}\ epochs\ completed\ in\ \d
        # Script done on 2026-11-20 10:00:00+00:00 [COMMAND_EXIT_CODE="0"]
        | Script\ done.{0,60}COMMAND_EXIT_CODE="0"
        # [wandb_run.py:_atexit_cleanup():2469] got exitcode: 0
        | .{0,120}_atexit_cleanup\(\):\d{1,6}\]\ got\ exitcode:\ 0$
        # Training time 3:21:11
        | Training\ time:?\ \d+:\d\d:\d\d$
        # Training complete in 24m 3s      Training finished!       Finished training
        # 2026-11-25 12:55:56,081 INFO train: training finished, best accuracy 0.5764
        | (?:\W*|.{0,60}[\]|]\W*|.{0,60}INFO\W{1,5}(?:[\w.]{1,40}:\ )?)
          (?:(?:Model\ )?Training\ (?:is\ )?(?:complete|completed|finished|done)|Finished\ Training)
          (?:$|[.!:,]|\ (?:in|after|at)\ )
        # [2026-11-02 10:30:00,000] [INFO] [launch.py:350:main] Process 4711 exits successfully.
        | .{0,80}\bProcess\ \d{1,9}\ exits\ successfully\.$
        # 训练完成
        | .{0,60}训练(?:完成|结束|完毕)
    )""",
    re.X | re.I,
)


def came_to_end(lines: list[Line]) -> int:
    """Return the number of the line at the end of a log that tells that training is over, or 0."""
    return max((line.number for line in lines[-LAST:] if tells_end(line)), default=0)


def tells_end(line: Line) -> bool:
    """Return whether a line tells that training is over."""
    return bool(_ENDS.match(line.text.strip()))
