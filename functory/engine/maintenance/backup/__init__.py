"""Backup: saves and restores the whole database; a backup runs while everything else runs."""
