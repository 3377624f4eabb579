"""Hindcast: grades search result pages with what past users did."""
