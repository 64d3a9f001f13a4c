"""Learning rates as they are used, and the schedulers behind them."""

import os
import weakref

from .table import finding
from .watching import Observer


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
        if any(held["ref"]() is scheduler for held in self.schedulers):
            return
        self.schedulers.append({
            "ref": weakref.ref(scheduler), "optimizer": weakref.ref(optimizer), "marks": [],
            "made": self.watch.step,
        })  # fmt: skip

    def after_step(self, optimizer):
        """Note where each scheduler stands."""
        for held in self.schedulers:
            scheduler = held["ref"]()
            if scheduler is not None and held["optimizer"]() is optimizer:
                held["marks"].append(scheduler.last_epoch)

    def findings(self):
        """What the rates showed."""
        step, found = self.watch.step, []
        optimizers = self.watch.parts["parameters"].optimizers
        for held in optimizers.values():
            rates = held["rates"]
            if len(rates) >= 10 and not any(rates):
                found.append(finding(
                    "rate is zero", len(rates),
                    "the rate was 0 in each of {} steps".format(len(rates)), steps=len(rates)))  # fmt: skip
            elif len(rates) >= 10 and rates[0] > 0 and not any(rates[-5:]):
                at = len(rates) - next(i for i, rate in enumerate(reversed(rates)) if rate)
                found.append(finding(
                    "rate fell to zero", at + 1,
                    "the rate was {:g} at first and 0 in the last {} steps".format(
                        rates[0], len(rates) - at), first=rates[0]))  # fmt: skip
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
                found.append(finding(
                    "scheduler too fast", step,
                    "{} took {} steps in {} steps of its optimizer".format(name, ticks, len(marks)),
                    scheduler=ticks, optimizer=len(marks)))  # fmt: skip
            if not stepped and step >= 5 and optimizer is not None and scheduler.last_epoch > 0:
                found.append(finding(
                    "scheduler of another optimizer", step,
                    "{} took {} steps; its optimizer took none in {} steps of another".format(
                        name, scheduler.last_epoch, step), scheduler=scheduler.last_epoch))  # fmt: skip
            if len(marks) >= 8 and ticks == 0 and epochs >= 3 and not held["made"]:
                found.append(finding(
                    "scheduler never steps", step,
                    "{} stands at {} after {} steps and {} epochs".format(
                        name, scheduler.last_epoch, len(marks), epochs), epochs=epochs))  # fmt: skip
        return found
