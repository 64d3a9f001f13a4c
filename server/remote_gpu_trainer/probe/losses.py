"""What enters a loss function, and what comes out."""

import collections
import math

from .facts import brief, fact, share
from .loss_graphs import GRAPH_STEPS, LossGraphs
from .table import finding
from .values import made_by, median
from .watching import Observer


class Losses(Observer):
    """Looks at calls of cross entropy and its relatives in training, and at losses."""

    name = "losses"

    def __init__(self, watch):
        super().__init__(watch)
        self.calls = self.probabilities = 0
        self.by = ""
        self.sigmoids, self.binary = 0, 0
        self.nll, self.bad_nll, self.sums = 0, 0, []
        self.first = None  # (loss, classes)
        self.counted = []  # (labels that count, labels) of each call of cross entropy
        self.labels = collections.Counter()
        self.padded = []  # (labels that count, real tokens, rows) of each batch with a mask
        self.unmasked = []  # (padding value, share) of batches without a mask
        self.values = []  # (step, loss)
        self.unfinished = None  # the first step with a loss that isn't finite
        self.graphs = LossGraphs(watch)

    def training(self, scores):
        """Whether a call belongs to training."""
        import torch

        return (
            isinstance(scores, torch.Tensor)
            and scores.requires_grad
            and not self.watch.in_backward
            and scores.numel() > 0
        )

    def argument(self, args, kwargs, place, name, usual):
        """One argument of a loss function."""
        return args[place] if len(args) > place else kwargs.get(name, usual)

    def after_cross_entropy(self, token, result, args, kwargs):
        """F.cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction)."""
        scores, target = (
            self.argument(args, kwargs, i, n, None) for i, n in enumerate(("input", "target"))
        )
        if not self.training(scores) or scores.dim() < 2:
            return
        self.calls += 1
        self.graphs.remember(result)
        rows = scores.detach()[:64].float()
        classes = scores.shape[1]
        even = classes >= 2 and bool(((rows.sum(1) - 1).abs() < 1e-3).all())
        if even and float(rows.min()) >= 0:
            self.probabilities += 1
            self.by = made_by(scores)
        ignored = self.argument(args, kwargs, 4, "ignore_index", -100)
        reduction = self.argument(args, kwargs, 6, "reduction", "mean")
        smoothing = kwargs.get("label_smoothing", 0.0)
        if self.first is None:
            plain = reduction == "mean" and not smoothing and not self.probabilities
            self.first = (float(result.detach()) if plain else None, classes)
        if target.is_floating_point():
            return
        self.counted.append((int((target != ignored).sum()), target.numel()))
        if target.dim() == 1 and scores.dim() == 2 and target.numel() == scores.shape[0]:
            self.labels.update(target[:2048].tolist())
        if reduction in ("mean", "sum"):
            self.count_padding(target, ignored)

    def count_padding(self, target, ignored):
        """Compare the labels that count with the batch's attention mask."""
        batches = self.watch.parts["batches"]
        if "batches" in self.watch.failed or not batches.last_tokens:
            return
        counted = int((target != ignored).sum())
        rows, length, real, padding, share = batches.last_tokens
        if target.numel() not in (rows * length, rows * (length - 1)):
            return
        if real is not None:
            self.padded.append((counted, real, rows))
        elif padding is not None and padding != ignored and counted == target.numel():
            self.unmasked.append((padding, share))

    def after_binary(self, token, result, args, kwargs):
        """F.binary_cross_entropy_with_logits(input, target)."""
        scores = self.argument(args, kwargs, 0, "input", None)
        if self.training(scores):
            self.graphs.remember(result)
            self.binary += 1
            self.sigmoids += made_by(scores) == "SigmoidBackward0"

    def after_nll(self, token, result, args, kwargs):
        """F.nll_loss(input, target)."""
        scores = self.argument(args, kwargs, 0, "input", None)
        if self.training(scores) and scores.dim() >= 2 and scores.shape[1] >= 2:
            self.graphs.remember(result)
            self.nll += 1
            sums = scores.detach()[:64].float().exp().sum(1)
            if bool(((sums - 1).abs() > 0.1).any()):
                self.bad_nll += 1
                self.sums.append(float(sums.reshape(-1)[0]))

    def after_regression(self, token, result, args, kwargs):
        """F.mse_loss(input, target) and its relatives."""
        if not self.watch.in_backward:
            self.graphs.remember(result)
        self.graphs.regression(*(args[:2] if len(args) > 1 else [*args, *kwargs.values()][:2]))

    def after_log_probability(self, token, result, args, kwargs):
        """Distribution.log_prob(value)."""
        known = self.graphs.log_probabilities
        if result.grad_fn is not None and len(known) < 64 and self.watch.step < GRAPH_STEPS:
            known.append(result.grad_fn)

    def before_backward(self, args, kwargs):
        """The loss itself."""
        loss = args[0]
        self.graphs.look(loss)
        if loss.numel() != 1:
            return
        value = float(loss.detach())
        step = self.watch.step + 1
        # A scaler skips a step that overflows.
        scaled = math.isinf(value) and self.watch.parts["gradients"].scaled
        if not math.isfinite(value) and self.unfinished is None and not scaled:
            layer = self.watch.parts["activations"].unfinished
            self.unfinished = (step, str(value), layer)
        self.values.append((step, value))

    def unseen(self):
        """Why nothing can be said, if so."""
        return "" if self.values or self.calls else "no loss was seen"

    def facts(self):
        """The course of the loss, beside what a guess without the inputs would give."""
        values, found = [value for _, value in self.values if math.isfinite(value)], []
        if values:
            last = sum(values[-3:]) / len(values[-3:])
            text = f"{brief(values[0])} at first, {brief(last)} in the last of {len(values)}"
            loss, classes = self.first or (None, 0)
            usual = ""
            if loss is not None and classes >= 2:
                text += f"; {classes} classes alike give {brief(math.log(classes))}"
                if loss > 1 + 1.5 * math.log(classes):
                    usual = "at most near that"
            total = sum(self.labels.values())
            if total >= 200 and len(self.labels) >= 2:
                guess = -sum(n / total * math.log(n / total) for n in self.labels.values())
                text += f", the labels' own shares {brief(guess)}"
            found.append(fact("loss/course", text, usual, first=values[0], last=last))
        labels = sum(whole for _, whole in self.counted)
        if labels and any(counted < whole for counted, whole in self.counted):
            part = sum(counted for counted, _ in self.counted) / labels
            least = min(counted / whole for counted, whole in self.counted)
            text = f"{share(part)} of the labels count, {share(least)} in the least batch"
            found.append(fact("loss/labels that count", text, share=part))
        return found

    def findings(self):
        """What the losses showed."""
        step = self.watch.step
        return self.each(
            (self.of_scores, step),
            (self.of_padding, step),
            (self.graphs.findings, step),
            (self.of_values, step),
        )

    def of_scores(self, step):
        """What the loss functions got, and losses that aren't finite."""
        found = []
        if self.probabilities >= 3 and self.probabilities == self.calls:
            proved = self.by == "SoftmaxBackward0"
            found.append(
                finding(
                    "softmax twice",
                    step,
                    "cross_entropy got rows between 0 and 1 that add up to 1 in all of "
                    f"{self.calls} calls" + (", made by softmax" if proved else ""),
                    level=None if proved else "hint",
                    calls=self.calls,
                )
            )
        if self.sigmoids >= 3 and self.sigmoids == self.binary:
            found.append(
                finding(
                    "softmax twice",
                    step,
                    "binary_cross_entropy_with_logits got the output of a sigmoid in all of "
                    f"{self.binary} calls",
                    calls=self.binary,
                )
            )
        if self.bad_nll >= 3 and self.bad_nll == self.nll:
            found.append(
                finding(
                    "not log-probabilities",
                    step,
                    f"in all of {self.nll} calls exp(input) doesn't add up to 1 in a row; "
                    f"{self.sums[0]:.4g} in the first",
                    sum=str(self.sums[0]),
                )
            )
        if self.unfinished:
            when, value, layer = self.unfinished
            found.append(
                finding(
                    "loss isn't finite",
                    when,
                    "the loss is {} in step {}{}".format(
                        value,
                        when,
                        "; the first layer with such an output is " + layer if layer else "",
                    ),
                    layer=layer,
                )
            )
        return found

    def of_padding(self, step):
        """Labels that count though they are padding."""
        found = []
        # One label more in each row may be the end of the text, put behind it on purpose.
        over = [(counted, real) for counted, real, rows in self.padded if counted > real + rows]
        models = [getattr(model, "config", None) for model in self.watch.models()]
        both = any(getattr(config, "is_encoder_decoder", False) for config in models)
        if len(over) >= 3 and len(over) >= 0.5 * len(self.padded) and not both:
            found.append(
                finding(
                    "padding counts",
                    step,
                    f"{over[0][0]} labels count in a batch with {over[0][1]} real tokens by its "
                    f"attention mask; so in {len(over)} of {len(self.padded)} batches",
                    counted=over[0][0],
                    real=over[0][1],
                )
            )
        if len(self.unmasked) >= 3 and len({value for value, _ in self.unmasked}) == 1:
            share = sum(share for _, share in self.unmasked) / len(self.unmasked)
            if share > 0.15:
                found.append(
                    finding(
                        "padding seems to count",
                        step,
                        "rows of labels end in runs of one value of many lengths, "
                        f"{share:.0%} of all labels, and each counts in the loss",
                        share=round(share, 3),
                    )
                )
        return found

    def of_values(self, step):
        """The course of the loss, and the labels."""
        found = []
        loss, classes = self.first or (None, 0)
        loss = loss if loss is not None and math.isfinite(loss) else 0.0
        if classes >= 2 and self.values and loss > 3 * math.log(classes) + 2:
            found.append(
                finding(
                    "first loss too high",
                    1,
                    f"the first loss is {loss:.4g}; ln({classes}) is {math.log(classes):.3g}",
                    loss=loss,
                    classes=classes,
                )
            )
        values = [value for _, value in self.values if math.isfinite(value)]
        if len(values) >= 12 and max(values) - min(values) <= 2e-4 * abs(values[0]):
            found.append(
                finding(
                    "loss stands still",
                    step,
                    f"{len(values)} losses lie between {min(values):.6g} and {max(values):.6g}",
                    lowest=min(values),
                    highest=max(values),
                )
            )
        found += self.of_jumps(step)
        total = sum(self.labels.values())
        if total >= 200 and self.labels:
            share = self.labels.most_common(1)[0][1] / total
            if share > 0.95:
                found.append(
                    finding(
                        "one class dominates",
                        step,
                        f"{share:.1%} of {total} labels are one class of {classes}",
                        share=round(share, 4),
                        labels=total,
                    )
                )
        return found

    def of_jumps(self, step):
        """A loss that rises far above what was there before, and doesn't come back."""
        values = [value for _, value in self.values]
        if len(values) > step + 1 or len(values) < 20 or min(values) <= 0:
            return []  # several losses a step, or one that may be negative
        if not all(math.isfinite(value) for value in values):
            return []
        middles = [median(values[i : i + 6]) for i in range(len(values) - 5)]
        for place in range(8, len(values) - 6):
            before, lowest = median(values[:place]), min(middles[: place - 5])
            if values[place] > 10 * before and middles[-1] > 2 * lowest:
                return [
                    finding(
                        "loss jumps",
                        place + 1,
                        f"the loss was {values[place]:.3g} in step {place + 1}, with a median of "
                        f"{before:.3g} before; the last six have one of {middles[-1]:.3g}, the "
                        f"best six had {lowest:.3g}",
                        loss=values[place],
                        before=before,
                        after=middles[-1],
                    )
                ]
        return []
