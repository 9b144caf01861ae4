"""Run folders and study folders: the truth on the disk."""
