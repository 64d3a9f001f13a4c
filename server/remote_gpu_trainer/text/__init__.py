"""Text that is safe to show, files that are written whole, errors that every command shows."""
