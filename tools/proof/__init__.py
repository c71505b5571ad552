"""`make proof`: every claim of claims.toml run in full, resumable, with a table at the end."""
