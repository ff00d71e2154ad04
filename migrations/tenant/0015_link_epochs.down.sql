-- Links that were revoked would be good again until they expire; the release before does not read today's links at all.
ALTER TABLE documents DROP COLUMN link_epoch;
