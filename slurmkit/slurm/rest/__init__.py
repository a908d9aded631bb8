"""Slurm through slurmrestd: `client.Rest` is the client, `server.Server` says where to find it.

httpx2, of the extra `rest`, is imported with the first request.
"""
