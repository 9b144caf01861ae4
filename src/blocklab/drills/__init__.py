"""Checks: verdicts from histories alone. Pure, so they can be run again offline."""
