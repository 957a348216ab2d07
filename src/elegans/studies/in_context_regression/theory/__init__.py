"""Closed forms of in-context linear regression: the best answers, how the loss falls, and how many tasks it needs."""
