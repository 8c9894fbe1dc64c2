"""Merges, updates and deletes, each in one commit."""
