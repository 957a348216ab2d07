"""My first: the title of the work that this study is about, which `elegans list` shows.

What it says, in a sentence or two. Every file of this folder may define an experiment as ``EXPERIMENT``, tasks, models,
probes and other parts; ``theory`` has the calculators.

Source: authors, venue and year, https://example.org.
"""
