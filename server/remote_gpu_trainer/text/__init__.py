"""Masking secrets, writing files whole, and the errors that every command shows."""
