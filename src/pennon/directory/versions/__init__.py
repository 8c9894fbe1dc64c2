"""Versions of tables: in their own directories, or as rows of the manifest, which then decides about them."""
