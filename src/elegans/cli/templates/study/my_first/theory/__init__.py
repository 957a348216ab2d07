"""Calculators, which `elegans theory` lists and evaluates."""
