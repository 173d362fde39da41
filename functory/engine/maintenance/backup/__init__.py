"""Backup and restore of the whole database while everything runs."""
