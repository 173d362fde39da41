"""Zygotes and the child processes that they fork: warm, spare and single-use."""
