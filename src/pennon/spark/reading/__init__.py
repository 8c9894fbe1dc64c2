"""Reading tables: a version that is pinned, what of it is read, and how it is cut into tasks."""
