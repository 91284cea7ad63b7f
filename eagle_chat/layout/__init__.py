"""Pictures of a round as rows of text: pure functions of a record and a size. No Textual, no colours."""
