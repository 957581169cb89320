-- 0024 · trace ids
--
-- Why:   the history says under which id a refresh was told to collectors of traces and lineage.
-- Reads: nothing; the new column is NULL in the rows that exist.
-- Locks: ACCESS EXCLUSIVE on pgt_refresh_history, for a moment: nothing is rewritten.
-- Undo:  ALTER TABLE pgtrickle.pgt_refresh_history DROP COLUMN trace_id; DROP FUNCTION
--        pgtrickle.get_refresh_history(text, integer, name[]); then migrate() of the version before.

ALTER TABLE pgtrickle.pgt_refresh_history ADD COLUMN trace_id text;

COMMENT ON COLUMN pgtrickle.pgt_refresh_history.trace_id IS
    'Under which it was told to others, in OpenTelemetry''s form; NULL: nobody was told.';

DROP FUNCTION IF EXISTS pgtrickle.get_refresh_history(text, integer, name[]);
