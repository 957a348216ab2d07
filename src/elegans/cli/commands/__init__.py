"""The commands, grouped by subject."""
