"""What every step shares: settings, windows, keys, storage, Spark and the command line's conventions."""
