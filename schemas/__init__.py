"""Contracts between the steps: tables, names, the flow and reply schemas. Imports neither Spark nor Airflow."""
