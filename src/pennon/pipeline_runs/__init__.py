"""Runs of pipelines as their root records them. Programs without Spark can read them."""
