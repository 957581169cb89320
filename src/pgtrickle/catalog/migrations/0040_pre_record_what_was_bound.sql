-- 0040 · pre · record what was bound
--
-- Why:   a query means what it meant when it was created; so what its names meant is on record.
-- Reads: versions before this one bind the text of the user again; they leave the column alone.
-- Locks: ACCESS EXCLUSIVE on pgt_stream_tables, briefly; no row is rewritten.
-- Undo:  ALTER TABLE pgtrickle.pgt_stream_tables DROP COLUMN bound.

ALTER TABLE pgtrickle.pgt_stream_tables ADD COLUMN bound jsonb;

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.bound IS
    'The relations, functions, operators, types and collations that defining_query names, with their'
    ' owners; NULL until it is compiled for the first time by a version that keeps this.';
