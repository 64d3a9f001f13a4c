"""Ask the look-up for each text of a JSON list, and print the matches as one line of JSON.

It needs the package on PYTHONPATH, Python 3.10 and NumPy, and nothing else that pip installs.
"""

import json
import sys

from remote_gpu_trainer.lookup.answer import answer_for


def main():
    """Print, for each text, its matches as [id, confidence], best first."""
    with open(sys.argv[1], encoding="utf-8") as file:
        texts = json.load(file)
    answers = [answer_for(text=text) for text in texts]
    print(
        json.dumps(
            [[[match["id"], match["confidence"]] for match in found.matches] for found in answers]
        )
    )


if __name__ == "__main__":
    main()
