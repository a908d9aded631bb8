"""The agent on the batch host, and what follows a failure."""
