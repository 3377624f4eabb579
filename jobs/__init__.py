"""Hindcast: grades search result pages with what past users did."""

__version__ = "0.1.0"
