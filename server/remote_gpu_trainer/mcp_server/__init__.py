"""The same answers over the Model Context Protocol."""
