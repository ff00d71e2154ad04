DROP FUNCTION search_snippet(text, text, text, text);
DROP FUNCTION search_documents(text);
DROP FUNCTION store_text(uuid, text);
DROP TABLE document_texts;
DROP TABLE usage_outbox;
DROP TABLE upload_sessions;
