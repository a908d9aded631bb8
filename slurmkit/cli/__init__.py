"""The command line: one file per command. Each parses, calls the room that does the work, and prints."""
