"""The Lance tables of a directory, served as an Iceberg REST catalog."""
