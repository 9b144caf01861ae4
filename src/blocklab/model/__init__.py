"""The nouns that every other floor speaks."""
