"""Pipelines: sources, SQL steps, checks, and targets that are published together (docs/guides/pipelines.md)."""

from pennon.spark.pipeline.pipeline import Pipeline
from pennon.spark.pipeline.problems import InvalidPipelineError
from pennon.spark.pipeline.report import AuditReport, RunReport

__all__ = ["AuditReport", "InvalidPipelineError", "Pipeline", "RunReport"]
