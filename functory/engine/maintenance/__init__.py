"""Maintenance: services that keep the database sound while everything else runs."""
