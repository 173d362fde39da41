"""Reads a function's source: parses it, reads its decorator."""
