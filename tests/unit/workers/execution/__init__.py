"""Tests of the pure parts of execution."""
