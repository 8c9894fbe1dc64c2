"""Streams from and to tables: changes of a table, and epochs that are written once (docs/guides/streaming.md)."""

from pennon.spark.streaming.batch_merge import merge_batches

__all__ = ["merge_batches"]
