"""What tools print: one reader a tool, text in, a typed table with units and times out."""
