"""blocklab: what a block-storage layout costs a database, measured on real kernels."""

__version__ = "0.1.0"
