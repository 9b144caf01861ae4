"""What is done with many cells on one machine: a study's folder, from what it asks for to its runs.

``start``: what is asked for, and with which hosts. ``here``: all needs checked, then one lab, or ``labs`` in
parallel, each a process (``lab``). ``remaining``: how long it takes. ``unit`` is all of it as a program, which the
machines of a ``cluster`` start. What happens is told as ``runner.events``, to whoever listens; nothing is printed.
"""
