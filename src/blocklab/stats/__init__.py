"""What stored runs say: figures with intervals, ratios, verdicts, findings. Pure, but for reading the folder."""
