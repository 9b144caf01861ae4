"""Readers of statistics, a module for each kind of file."""
