"""The catalog pages: what people see of a served catalog in a browser."""
