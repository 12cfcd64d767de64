"""Searches for a capacity."""
