"""The versions of the schema, one revision a file."""
