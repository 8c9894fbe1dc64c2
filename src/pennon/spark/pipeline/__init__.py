"""Pipelines: sources, SQL steps, checks, and targets that are published together (docs/guides/pipelines.md)."""

from pennon.pipeline_runs.report import AuditReport, RunReport
from pennon.spark.pipeline.pipeline import Pipeline
from pennon.spark.pipeline.problems import InvalidPipelineError

__all__ = ["AuditReport", "InvalidPipelineError", "Pipeline", "RunReport"]
