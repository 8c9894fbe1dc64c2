"""Operation of the server: health, metrics, logs, traces and limits."""
