"""Resumable uploads, encrypted storage, documents, search, downloads."""
