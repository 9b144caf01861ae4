"""One reader a tool: text in, a typed table out. README.md says what a reader is, and how to add one.

The readers know nothing of stacks, sizing, stores or studies, and what they read is never an instruction.
"""
