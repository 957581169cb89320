-- 0007 · pre · create refresh progress
--
-- Why:   a large refresh takes a while, and everyone may want to know how far it is.
-- Reads: nothing before this version reads or writes the new table.
-- Locks: CREATE TABLE; the foreign key takes SHARE ROW EXCLUSIVE on pgt_stream_tables, briefly.
-- Undo:  DROP TABLE pgtrickle.pgt_refresh_progress;

CREATE TABLE pgtrickle.pgt_refresh_progress (
    pgt_id      bigint      PRIMARY KEY
                            REFERENCES pgtrickle.pgt_stream_tables (pgt_id) ON DELETE CASCADE,
    stage       text        NOT NULL,
    rows_read   bigint      NOT NULL,
    rows_staged bigint      NOT NULL,
    started_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL
);

COMMENT ON TABLE pgtrickle.pgt_refresh_progress IS
    'How far the large refreshes are that run now; a row that is no longer updated was left by a'
    ' process that died.';
