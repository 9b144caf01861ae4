"""The only package that touches machines."""
