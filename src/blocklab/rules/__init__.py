"""What decides while a study runs, and later again: stopping rules, and whether the layers agree. Pure."""
