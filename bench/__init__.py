"""Speed, measured by hand (``just bench``), never in the tests: every value beside the machine's own floor."""
