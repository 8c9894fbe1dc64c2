"""Reading tables: pinned versions, scans of them, and their tasks."""
