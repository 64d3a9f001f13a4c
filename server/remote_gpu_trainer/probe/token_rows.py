"""Rows of tokens beside their labels: what is padding, what is learned, and where rows end."""

import collections
import gc

from .facts import count_of, fact, share

SPECIAL = (("end", "eos_token_id"), ("begin", "bos_token_id"), ("padding", "pad_token_id"))
MOST_ROWS = 1024
IGNORED = -100


def tokenizers():
    """The tokenizers of transformers that the program holds."""
    return [
        one
        for one in gc.get_objects()
        if any(kind.__name__ == "PreTrainedTokenizerBase" for kind in type(one).__mro__)
    ]


def specials(tokenizer):
    """{name: id} of a tokenizer's marks."""
    found = {name: getattr(tokenizer, key, None) for name, key in SPECIAL}
    return {name: value for name, value in found.items() if isinstance(value, int)}


class TokenRows:
    """What rows of tokens showed. Of the tokens, only how often each stands in a row is kept."""

    def __init__(self):
        self.count = self.empty = self.full = 0
        self.elements = self.learned = self.padding = 0
        self.with_token, self.with_label = collections.Counter(), collections.Counter()
        self.twice = collections.Counter()  # id that a row begins with twice -> rows

    def add(self, tokens, labels):
        """Look at rows: whole numbers, both of one shape (rows, length)."""
        for row, learned in zip(tokens.tolist(), labels.tolist()):
            if self.count >= MOST_ROWS:
                return
            kept = {value for value in learned if value != IGNORED}
            run = len(row) - next((i for i in range(len(row), 0, -1) if row[i - 1] != row[-1]), 0)
            self.count += 1
            self.empty += not kept
            self.full += run < 2
            self.elements += len(row)
            self.learned += sum(value != IGNORED for value in learned)
            self.padding += run if run >= 2 else 0
            self.with_token.update(set(row))
            self.with_label.update(kept)
            if row[0] == row[1]:
                self.twice[row[0]] += 1

    def facts(self, name, final):
        """The facts. `final`: whether tokenizers may be looked for."""
        if self.count < 4:
            return []
        text = (
            f"{name} rows of tokens: {share(self.learned / self.elements)} of the labels count, "
            f"{share(self.padding / self.elements)} is padding, "
            f"{share(self.full / self.count)} fill the whole length"
        )
        found = [
            fact(
                f"data/{name} rows of tokens",
                text,
                learned=self.learned / self.elements,
                padding=self.padding / self.elements,
                full=self.full / self.count,
            )
        ]
        if self.empty:
            text = f"{share(self.empty / self.count)} of {count_of(self.count, name + ' row')}"
            text += " have no label that counts"
            found.append(
                fact(
                    f"data/{name} rows without labels",
                    text,
                    "each row has one",
                    share=self.empty / self.count,
                )
            )
        for marks in [specials(one) for one in tokenizers()][:1] if final else []:
            found += self.of_marks(name, marks)
        return found

    def of_marks(self, name, marks):
        """Whether the marks of a tokenizer are where they belong."""
        found, end = [], marks.get("end")
        held = self.with_token[end]
        if end is not None and held:
            learned = self.with_label[end]
            text = (
                f"the tokenizer's end token stands in {share(held / self.count)} of the {name} "
                f"rows and is a label in {share(learned / self.count)}"
            )
            text += "; it is the padding token too" if marks.get("padding") == end else ""
            usual = "a label where it ends a row" if learned < 0.5 * held else ""
            found.append(
                fact(
                    f"data/{name} end token",
                    text,
                    usual,
                    rows=held / self.count,
                    labels=learned / self.count,
                )
            )
        begin = marks.get("begin")
        if begin is not None and self.twice[begin] and begin != marks.get("padding"):
            text = f"{share(self.twice[begin] / self.count)} of the {name} rows begin with the "
            text += "tokenizer's begin token twice"
            found.append(
                fact(f"data/{name} begin token", text, "once", rows=self.twice[begin] / self.count)
            )
        return found
