"""Commits of what executors wrote, to one table or to several at once, at most one for each job."""
