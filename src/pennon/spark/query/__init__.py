"""Queries over the tables of a lake: planned here, evaluated by Spark. docs/architecture.md follows one."""
