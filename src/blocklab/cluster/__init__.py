"""A study on many machines: Dask's scheduler and workers, each of which measures whole repeats.

``far`` is what runs in a worker; ``scheduler`` connects to one, or starts it; ``control`` hands out the repeats,
and takes their runs back (``calls``). Only this folder imports ``distributed``, which is an extra.
"""
