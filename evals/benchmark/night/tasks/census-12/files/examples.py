"""The examples: token ids, and which of them belong to the reply."""
import random

import datasets

SUBJECTS = "sales costs orders stock prices".split()
REGIONS = "north south east west".split()
CHANGES = "rose fell stayed".split()
NUMBERS = "one two three four five six seven eight nine".split()


def examples(tokenizer, number):
    rng, rows = random.Random(5), []
    for _ in range(number):
        subject, region = rng.choice(SUBJECTS), rng.choice(REGIONS)
        change, by = rng.choice(CHANGES), rng.choice(NUMBERS)
        prompt = f"the report : {subject} in the {region} {change} by {by} percent . what does it say about {subject} ?"
        reply = f"{subject} {change} by {by} percent in the {region} ."
        asked = tokenizer(prompt, add_special_tokens=False)["input_ids"]
        said = tokenizer(reply, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
        rows.append({"input_ids": [1, *asked, *said], "completion_mask": [0] * (len(asked) + 1) + [1] * len(said)})
    return datasets.Dataset.from_list(rows)
