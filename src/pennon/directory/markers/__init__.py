"""Files beside table directories: markers of root tables, claims on them, and reservations of declared tables."""
