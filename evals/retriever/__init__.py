"""The retriever over entries that is measured against the shipped ranking."""
