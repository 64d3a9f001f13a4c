"""What `rgt dev docs` writes: generated documents, parts of others, programs for a box."""
