"""Propensity: how likely a user examines each rank."""
