"""Searches for a capacity: the highest rate at which objectives hold."""
