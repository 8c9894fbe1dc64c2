"""YAML files with the line of each value: parsing, validation by pydantic models, and all problems at once."""
