"""Learning rates as they are used, and the schedulers behind them."""

import os
import weakref

from .facts import brief, count_of, fact
from .table import finding
from .values import bare
from .watching import Observer

PLANS = ("total_steps", "T_max", "total_iters")  # where schedulers keep their length


class Rates(Observer):
    """Follows each scheduler from step to step."""

    name = "rates"

    def __init__(self, watch):
        super().__init__(watch)
        self.schedulers = []  # {ref, optimizer, marks: [last_epoch at each step]}

    def after_scheduler(self, token, result, args, kwargs):
        """A scheduler was made."""
        scheduler = args[0]
        optimizer = args[1] if len(args) > 1 else kwargs.get("optimizer")
        optimizer = bare(optimizer)
        if any(held["ref"]() is scheduler for held in self.schedulers):
            return
        self.schedulers.append(
            {
                "ref": weakref.ref(scheduler),
                "optimizer": weakref.ref(optimizer),
                "marks": [],
                "made": self.watch.step,
            }
        )

    def after_step(self, optimizer):
        """Note where each scheduler stands."""
        for held in self.schedulers:
            scheduler = held["ref"]()
            if scheduler is not None and held["optimizer"]() is optimizer:
                held["marks"].append(scheduler.last_epoch)

    def facts(self):
        """Each optimizer with its rate by step, and the schedulers behind it."""
        found = []
        for key, held in list(self.watch.parts["parameters"].optimizers.items())[:3]:
            rates = held["rates"]
            if not rates:
                continue
            chosen = [rates[i] for i in sorted({0, len(rates) // 2, len(rates) - 1})]
            shown = " to ".join(dict.fromkeys(map(brief, chosen)))
            text = "{}: rate {} over {}, weight decay {:g}".format(
                held["type"], shown, count_of(len(rates), "step"), held["decay"]
            )
            usual = ""
            for one in self.schedulers:
                scheduler, optimizer = one["ref"](), one["optimizer"]()
                if scheduler is None or optimizer is None or id(optimizer) != key:
                    continue
                marks = one["marks"]
                ticks = scheduler.last_epoch - max(0, marks[0] if marks else 0)
                length = next(
                    (n for n in map(scheduler.__dict__.get, PLANS) if isinstance(n, int)), 0
                )
                text += f"; {type(scheduler).__name__} took {count_of(ticks, 'tick')}"
                text += f" of {length:,}" if length else ""
                planned = self.watch.parts["settings"].planned()
                each_step = abs(ticks - len(marks)) <= 2
                if length and planned and each_step and not 0.5 <= length / planned <= 2:
                    usual = f"as many as the run has steps, about {planned:,}"
            found.append(
                fact(
                    "in force/{}".format(held["type"]),
                    text,
                    usual,
                    first=rates[0],
                    last=rates[-1],
                    decay=held["decay"],
                )
            )
        return found

    def unseen(self):
        """Why nothing can be said, if so."""
        optimizers = self.watch.parts["parameters"].optimizers.values()
        return (
            "" if any(held["rates"] for held in optimizers) else "no optimizer has a rate to read"
        )

    def findings(self):
        """What the rates showed."""
        step, found = self.watch.step, []
        optimizers = self.watch.parts["parameters"].optimizers
        for held in optimizers.values():
            rates = held["rates"]
            if len(rates) >= 10 and not any(rates):
                others = any(any(other["rates"]) for other in optimizers.values())
                found.append(
                    finding(
                        "rate is zero",
                        len(rates),
                        f"the rate was 0 in each of {len(rates)} steps",
                        level="hint" if others else None,
                        steps=len(rates),
                    )
                )
            elif len(rates) >= 10 and rates[0] > 0 and not any(rates[-5:]):
                at = len(rates) - next(i for i, rate in enumerate(reversed(rates)) if rate)
                found.append(
                    finding(
                        "rate fell to zero",
                        at + 1,
                        f"the rate was {rates[0]:g} at first and 0 in the last "
                        f"{len(rates) - at} steps",
                        first=rates[0],
                    )
                )
        epochs = self.watch.parts["batches"].most_epochs()
        ranks = int(os.environ.get("WORLD_SIZE") or 1)
        for held in self.schedulers:
            marks, scheduler = held["marks"], held["ref"]()
            if scheduler is None:
                continue
            name = type(scheduler).__name__
            optimizer = held["optimizer"]()
            ticks = scheduler.last_epoch - max(0, marks[0] if marks else 0)
            stepped = optimizers.get(id(optimizer), {"steps": 0})["steps"]
            if len(marks) >= 8 and ticks > 1.5 * len(marks) and abs(ticks - ranks * len(marks)) > 2:
                found.append(
                    finding(
                        "scheduler too fast",
                        step,
                        f"{name} took {ticks} steps in {len(marks)} steps of its optimizer",
                        scheduler=ticks,
                        optimizer=len(marks),
                    )
                )
            if not stepped and step >= 5 and optimizer is not None and scheduler.last_epoch > 0:
                found.append(
                    finding(
                        "scheduler of another optimizer",
                        step,
                        f"{name} took {scheduler.last_epoch} steps; its optimizer took none in "
                        f"{step} steps of another",
                        scheduler=scheduler.last_epoch,
                    )
                )
            if len(marks) >= 8 and ticks == 0 and epochs >= 3 and not held["made"]:
                found.append(
                    finding(
                        "scheduler never steps",
                        step,
                        f"{name} stands at {scheduler.last_epoch} after {len(marks)} steps and "
                        f"{epochs} epochs",
                        epochs=epochs,
                    )
                )
        return found
