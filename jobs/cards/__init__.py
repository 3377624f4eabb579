"""Cards: for each item of a page, the historical queries that say most about it, and proof that none of them leaks."""
