"""Which tables are there? Each is a value that rendering.py writes in every form."""
