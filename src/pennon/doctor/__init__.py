"""Checks of a whole catalog: the store, what is in the root, servers. What is provably safe can be repaired."""
