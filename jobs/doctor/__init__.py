"""What is wrong with this machine or set-up. machine.py and jars.py are also what `make setup` runs, before any package
is there: standard library only.
"""
