"""Reads what the user typed: values, function fields, flow control."""
