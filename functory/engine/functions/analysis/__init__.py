"""Static findings about a version's source: advice for its author, not a boundary."""
