"""The documentation: the site is built and looked at, every block of code runs, and tables agree with the code."""
