"""Pipelines: sources, SQL steps, checks and targets that become visible together (docs/guides/pipelines.md)."""
