"""What every test shares."""

from hypothesis import settings

# The same examples on every machine and in every run, and no deadline: a busy machine is no failure.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None, print_blob=True)
settings.load_profile("fixed")
