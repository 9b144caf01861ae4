"""Programs that run on hosts, each a file of its own that needs nothing but Python's library (3.9 or newer).

The runner puts them on a host once after each boot (``blocklab.model.node_programs``). None imports another
one, or blocklab.
"""
