"""Watches one run: deadlines, requests, spans, resource usage."""
