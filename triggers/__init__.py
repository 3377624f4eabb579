"""Triggers that wait in Airflow's triggerer, which imports installed packages only; they know no step of ours."""
