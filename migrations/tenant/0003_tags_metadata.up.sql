-- Tags, and metadata fields of five types with a value per document.

CREATE TABLE tags (
    id         uuid PRIMARY KEY DEFAULT uuidv7(),
    name       text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),

    CONSTRAINT tags_name_form CHECK (is_name(name))
);
CREATE UNIQUE INDEX tags_name_any_case ON tags (lower(name));

CREATE TABLE document_tags (
    document_id uuid NOT NULL,
    tag_id      uuid NOT NULL,

    CONSTRAINT document_tags_pkey PRIMARY KEY (document_id, tag_id),
    CONSTRAINT document_tags_document_fkey FOREIGN KEY (document_id) REFERENCES documents (id) ON DELETE CASCADE,
    CONSTRAINT document_tags_tag_fkey FOREIGN KEY (tag_id) REFERENCES tags (id) ON DELETE CASCADE
);
CREATE INDEX document_tags_by_tag ON document_tags (tag_id, document_id);

CREATE TABLE metadata_fields (
    id         uuid PRIMARY KEY DEFAULT uuidv7(),
    name       text NOT NULL,
    type       text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),

    CONSTRAINT metadata_fields_name_form CHECK (is_name(name)),
    CONSTRAINT metadata_fields_type_known CHECK (type IN ('text', 'number', 'date', 'bool', 'select')),
    CONSTRAINT metadata_fields_typed_key UNIQUE (id, type)
);
CREATE UNIQUE INDEX metadata_fields_name_any_case ON metadata_fields (lower(name));

CREATE TABLE metadata_options (
    field_id   uuid NOT NULL,
    field_type text NOT NULL DEFAULT 'select',
    value      text NOT NULL,
    position   integer NOT NULL DEFAULT 0,

    CONSTRAINT metadata_options_pkey PRIMARY KEY (field_id, value),
    CONSTRAINT metadata_options_field_fkey FOREIGN KEY (field_id, field_type)
        REFERENCES metadata_fields (id, type) ON DELETE CASCADE,
    CONSTRAINT metadata_options_only_select CHECK (field_type = 'select'),
    CONSTRAINT metadata_options_value_form CHECK (is_name(value))
);
COMMENT ON TABLE metadata_options IS 'What a select field offers; an option in use cannot be removed.';

CREATE TABLE document_metadata_values (
    document_id  uuid NOT NULL,
    field_id     uuid NOT NULL,
    field_type   text NOT NULL,
    value_text   text,
    value_number numeric,
    value_date   date,
    value_bool   boolean,
    value_select text,

    CONSTRAINT document_metadata_values_pkey PRIMARY KEY (document_id, field_id),
    CONSTRAINT document_metadata_values_document_fkey FOREIGN KEY (document_id)
        REFERENCES documents (id) ON DELETE CASCADE,
    -- A field keeps its type as long as it has values: the pair is the key.
    CONSTRAINT document_metadata_values_field_fkey FOREIGN KEY (field_id, field_type)
        REFERENCES metadata_fields (id, type),
    CONSTRAINT document_metadata_values_option_fkey FOREIGN KEY (field_id, value_select)
        REFERENCES metadata_options (field_id, value),
    CONSTRAINT document_metadata_values_one_value CHECK (
        num_nonnulls(value_text, value_number, value_date, value_bool, value_select) = 1
    ),
    CONSTRAINT document_metadata_values_of_its_type CHECK (
        CASE field_type
            WHEN 'text' THEN value_text IS NOT NULL
            WHEN 'number' THEN value_number IS NOT NULL
            WHEN 'date' THEN value_date IS NOT NULL
            WHEN 'bool' THEN value_bool IS NOT NULL
            WHEN 'select' THEN value_select IS NOT NULL
            ELSE false
        END
    ),
    CONSTRAINT document_metadata_values_text_length CHECK (char_length(value_text) BETWEEN 1 AND 10000),
    CONSTRAINT document_metadata_values_number_finite CHECK (
        value_number NOT IN ('NaN', 'Infinity', '-Infinity')
    ),
    CONSTRAINT document_metadata_values_date_finite CHECK (isfinite(value_date))
);
CREATE INDEX document_metadata_values_by_field ON document_metadata_values (field_id);
