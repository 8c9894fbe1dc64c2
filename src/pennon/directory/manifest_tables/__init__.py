"""Manifest tables in hashed directories: the row of the manifest decides whether they exist."""
