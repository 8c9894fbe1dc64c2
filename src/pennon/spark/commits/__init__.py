"""Making what executors wrote a version of one table, or of several at once; a job does so once."""
