"""The Lance REST namespace protocol, under `/v1`."""
