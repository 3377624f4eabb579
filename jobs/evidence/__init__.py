"""Evidence: debiased Query-Relevance-Impressions rows."""
