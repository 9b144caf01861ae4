"""What stored runs say: values with intervals, ratios, verdicts, findings. Pure, but for reading the folder."""
