"""What evals/train.py is made of: the texts to learn from, the models, and the tuning of how their votes add up."""
