DROP TABLE document_metadata_values;
DROP TABLE metadata_options;
DROP TABLE metadata_fields;
DROP TABLE document_tags;
DROP TABLE tags;
