"""Thin Textual widgets: each paints rows that `eagle_chat.layout` made."""
