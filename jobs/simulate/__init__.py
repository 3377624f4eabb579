"""A simulated music search service with everything planted that Hindcast must find: its logs, pages, labels and
truth.
"""
