"""Parts of evals/train.py: the texts to learn from, the models, and how their votes add up."""
