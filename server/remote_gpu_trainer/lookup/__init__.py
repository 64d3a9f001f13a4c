"""From ranked entries to the answer that an agent or a person reads."""
