"""Changing rows: merges, updates and deletes, each in one commit."""
