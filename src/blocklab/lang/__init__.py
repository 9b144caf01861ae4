"""The program in other languages than English: which one is asked for, its catalogue, and modules in its words."""

from blocklab.lang.catalogue import LANGUAGES, chosen, language, term

__all__ = ["LANGUAGES", "chosen", "language", "term"]
