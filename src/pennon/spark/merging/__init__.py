"""Changing rows: merges, updates and deletes, each by one Spark job and one commit."""
