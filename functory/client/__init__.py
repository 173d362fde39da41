"""Functory in a program: one engine or one client of a deployment, and what it saves, reads and declares."""
