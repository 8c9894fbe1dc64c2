"""Changes of several tables in one commit of the manifest."""
