-- 0016 · pre · add tiers
--
-- Why:   not every stream table matters as much: a tier makes its schedule longer, or rests it.
-- Reads: nothing before this version reads or writes the new column, whose default changes nothing.
-- Locks: ACCESS EXCLUSIVE on pgt_stream_tables, briefly: no row is rewritten.
-- Undo:  ALTER TABLE pgtrickle.pgt_stream_tables DROP COLUMN tier;

ALTER TABLE pgtrickle.pgt_stream_tables
    ADD COLUMN tier text NOT NULL DEFAULT 'hot',
    ADD CONSTRAINT pgt_stream_tables_tier_is_known
        CHECK (tier IN ('hot', 'warm', 'cold', 'frozen'));

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.tier IS
    'A factor on the schedule: hot 1, warm 2, cold 10; frozen is refreshed by hand alone.';
