"""SQL statements as named paragraphs, written once for both databases, and the migrations."""
