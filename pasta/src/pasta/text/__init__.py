"""Plain text: its words, its sentences and paragraphs, its list items, and what two texts have in common."""
