"""Finding, listing, describing and opening tables."""
