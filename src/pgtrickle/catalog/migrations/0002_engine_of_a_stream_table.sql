-- 0002 · engine of a stream table
--
-- Why:   a stream table may have an engine of its own, beside the setting.
-- Reads: rows from before have none: the setting decides, as it did.
-- Locks: ACCESS EXCLUSIVE on pgt_stream_tables, for a moment: the column has no default.
-- Undo:  ALTER TABLE pgtrickle.pgt_stream_tables DROP COLUMN engine;

ALTER TABLE pgtrickle.pgt_stream_tables
    ADD COLUMN engine text
    CONSTRAINT pgt_stream_tables_engine_is_known CHECK (engine IN ('spark', 'auto', 'postgres'));

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.engine IS
    'What computes the stages of its refreshes: spark, postgres, or auto; NULL: the setting engine.';

-- Their arguments change.
DROP PROCEDURE IF EXISTS pgtrickle.create_stream_table(
    text, text, text, text, boolean, text, double precision, text, text, text, text, text, text, jsonb);
DROP PROCEDURE IF EXISTS pgtrickle.create_stream_table_if_not_exists(
    text, text, text, text, boolean, text, double precision, text, text, text, text, text, text, jsonb);
DROP PROCEDURE IF EXISTS pgtrickle.create_or_replace_stream_table(
    text, text, text, text, boolean, text, double precision, text, text, text, text, text, text, jsonb);
DROP PROCEDURE IF EXISTS pgtrickle.alter_stream_table(
    text, text, text, text, text, text, text, text, text, bigint, double precision, text, text, text,
    text, text, text, jsonb);
