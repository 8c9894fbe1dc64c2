"""Tables in hashed directories: the row of the manifest decides."""
