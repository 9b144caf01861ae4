"""What cells that were not measured would do, by a model that the measured ones are fitted to, with intervals.

``curve`` is the model and its fit, ``design`` chooses which cells to measure, ``cells`` applies both to a study.
"""
