-- 0014 · pre · add diamonds
--
-- Why:   the user may say whether and when stream tables of a diamond are refreshed together.
-- Reads: nothing before this version reads or writes the new columns, which may be NULL.
-- Locks: ACCESS EXCLUSIVE on pgt_stream_tables, briefly: no row is rewritten.
-- Undo:  DROP the new columns; their checks go with them.

ALTER TABLE pgtrickle.pgt_stream_tables
    ADD COLUMN diamond_consistency     text,
    ADD COLUMN diamond_schedule_policy text,
    ADD CONSTRAINT pgt_stream_tables_diamond_consistency_is_known
        CHECK (diamond_consistency IN ('atomic', 'none')),
    ADD CONSTRAINT pgt_stream_tables_diamond_schedule_policy_is_known
        CHECK (diamond_schedule_policy IN ('fastest', 'slowest'));

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.diamond_consistency IS
    'Whether the paths that meet in this stream table are refreshed together; NULL: atomic.';
COMMENT ON COLUMN pgtrickle.pgt_stream_tables.diamond_schedule_policy IS
    'Whether its group is due with its first member or its last; NULL: fastest.';
