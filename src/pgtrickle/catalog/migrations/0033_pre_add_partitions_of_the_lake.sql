-- 0033 · pre · add partitions of the lake
--
-- Why:   the copy of a stream table may be partitioned, and each delivery must know by what.
-- Reads: versions before this one neither read nor write the column; their copies have none.
-- Locks: ACCESS EXCLUSIVE on pgt_ducklake_sinks, briefly; no row is rewritten.
-- Undo:  ALTER TABLE pgtrickle.pgt_ducklake_sinks DROP COLUMN partition_by;

ALTER TABLE pgtrickle.pgt_ducklake_sinks ADD COLUMN partition_by text;

COMMENT ON COLUMN pgtrickle.pgt_ducklake_sinks.partition_by IS
    'The partition keys of the lake table as the user listed them; NULL: it has none.';
