"""A model that a server runs: HTTP on one side, the session and the figures of the chat on the other."""
