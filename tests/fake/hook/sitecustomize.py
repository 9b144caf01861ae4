"""Registers the fake site in each process that Python starts with this folder in its path."""

import blocklab.sites

blocklab.sites.SITES["fake"] = ("tests.fake.far_site", "open_site")
