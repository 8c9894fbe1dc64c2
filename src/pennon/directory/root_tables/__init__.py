"""Root tables in `<name>.lance`: the marker beside the directory decides whether they exist."""
