"""Impressions: raw search logs in, canonical impressions and daily counts out; nothing is lost, nothing is guessed."""
