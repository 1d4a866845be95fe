"""The harness of the SDK suite: starts server, proxy, workers and client, and runs the script of a scenario."""
