"""Whole screens: the chat, the comparison, the help."""
