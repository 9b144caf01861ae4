"""fio: its JSON of all versions, its text, and its logs."""
