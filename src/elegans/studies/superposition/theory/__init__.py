"""Closed forms, bounds and constructions of this work; also available as ``elegans.theory``."""
