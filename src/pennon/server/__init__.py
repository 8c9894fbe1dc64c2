"""The servers: an Iceberg REST catalog under `/iceberg`; see docs/guides/serve.md."""
