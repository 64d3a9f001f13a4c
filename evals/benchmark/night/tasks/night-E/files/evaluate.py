"""Has final.pt judged and writes report.json.  python evaluate.py [--continue]

Each answer is added to answers.jsonl as it comes. Without --continue answers.jsonl is begun anew.
"""
import argparse
import hashlib
import json
import os

from work import ask

QUESTIONS = 12


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--continue", dest="go_on", action="store_true")
    args = ap.parse_args()
    with open("final.pt", "rb") as f:
        model = hashlib.sha256(f.read()).hexdigest()
    answers = {}
    if args.go_on and os.path.exists("answers.jsonl"):
        with open("answers.jsonl") as f:
            answers = dict(json.loads(line) for line in f)
    with open("answers.jsonl", "a" if args.go_on else "w") as f:
        for question in range(1, QUESTIONS + 1):
            if question not in answers:
                answers[question] = ask(question)
                f.write(json.dumps([question, answers[question]]) + "\n")
                f.flush()
                print(f"question {question}: {answers[question]}", flush=True)
    with open("report.json", "w") as f:
        json.dump({"model": model, "answers": answers, "score": sum(answers.values()) / QUESTIONS}, f, indent=1)
    print("evaluated", flush=True)


if __name__ == "__main__":
    main()
