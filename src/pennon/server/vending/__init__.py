"""Storage credentials for clients: limited to one table and to what the client may do, and for a short time."""
