"""SQL as named paragraphs, written once for both databases."""
