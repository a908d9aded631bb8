"""The job file: its model, its loading, its units."""
