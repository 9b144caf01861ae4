"""Nodes as User Mode Linux processes on this machine."""
