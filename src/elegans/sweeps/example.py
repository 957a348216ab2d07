"""An example sweep, printed before anything else is loaded."""

from pathlib import Path

EXAMPLE_TOML = Path(__file__).with_name("example.toml").read_text(encoding="utf-8")
"""A commented sweep file that runs in seconds."""
