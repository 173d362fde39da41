"""Finds out what the kernel can enforce, and proves it by attacks before any function runs."""
