"""Speed, measured by hand (``just bench``), never in the tests: every figure beside the machine's own floor."""
