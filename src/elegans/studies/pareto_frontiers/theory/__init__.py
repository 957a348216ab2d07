"""Closed forms, bounds and constructions of this work; ``elegans.theory`` offers them all."""
