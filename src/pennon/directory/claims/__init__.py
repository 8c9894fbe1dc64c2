"""Markers of root tables, and the claims that are taken by writing them."""
