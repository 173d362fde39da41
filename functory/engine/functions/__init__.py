"""Functions, their immutable versions, and everything that is decided when one is saved."""
