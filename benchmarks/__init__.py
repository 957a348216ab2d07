"""The speed of elegans, compared with its peers and its targets: ``python -m benchmarks``.

Every module with a ``run`` is one benchmark. A benchmark measures contenders alternately in one run and
returns a ``Result``; ``python -m benchmarks`` writes it as JSON and renders docs/performance.md.
"""
