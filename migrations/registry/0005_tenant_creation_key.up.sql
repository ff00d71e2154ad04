-- The Idempotency-Key that a tenant was created with: whoever did not hear the answer asks again and hears it.

ALTER TABLE tenants
    ADD COLUMN creation_key text,
    ADD CONSTRAINT tenants_creation_key_key UNIQUE (creation_key),
    ADD CONSTRAINT tenants_creation_key_form CHECK (creation_key ~ '^[!-~]{1,255}$');
