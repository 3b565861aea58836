"""The script as text: words, statements, functions, here-documents, and what variables hold."""
