"""What a version may use, and the secrets that it may open."""
