"""What stored runs say: figures with intervals, ratios, verdicts and findings. Pure, but for reading the folder."""
