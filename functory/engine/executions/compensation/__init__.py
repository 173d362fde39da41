"""Which steps of a failed workflow are undone, in which order, and how far that has come."""
