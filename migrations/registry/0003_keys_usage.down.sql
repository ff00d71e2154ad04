DROP TABLE usage_totals;
DROP TABLE usage_deltas;
DROP TABLE signing_keys;
