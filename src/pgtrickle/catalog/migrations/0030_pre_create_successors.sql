-- 0030 · pre · create successors
--
-- Why:   a new query is loaded beside the old one; what a dead process left of that must be found.
-- Reads: nothing before this version reads the new table.
-- Locks: ACCESS EXCLUSIVE on pgt_stream_tables, briefly.
-- Undo:  DROP TABLE pgtrickle.pgt_successors;
--        ALTER TABLE pgtrickle.pgt_stream_tables DROP COLUMN measured_since;

CREATE TABLE pgtrickle.pgt_successors (
    pgt_id      bigint      PRIMARY KEY
                            REFERENCES pgtrickle.pgt_stream_tables (pgt_id) ON DELETE CASCADE,
    alive_until timestamptz NOT NULL
);

COMMENT ON TABLE pgtrickle.pgt_successors IS
    'Stream tables that are to replace the contents of another, and until when their maker is alive.';

ALTER TABLE pgtrickle.pgt_stream_tables ADD COLUMN measured_since bigint NOT NULL DEFAULT 0;

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.measured_since IS
    'The last refresh of an earlier query: nothing is learned from it or those before.';
