"""How fast elegans is, beside its peers and beside what was promised: ``python -m benchmarks``.

Every module with a ``run`` is one benchmark. A benchmark measures contenders side by side, in turns and in
one run, and returns a ``Result``; ``python -m benchmarks`` writes it as JSON and renders docs/performance.md.
"""
