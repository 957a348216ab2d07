"""Closed forms of this work; also available as ``elegans.theory``."""
