-- 0002 · pre · create change tracking
--
-- Why:   a source is captured once for all its stream tables, so its buffer has its own record.
-- Reads: nothing before this version reads or writes the new table.
-- Locks: CREATE TABLE only.
-- Undo:  DROP TABLE pgtrickle.pgt_change_tracking;

CREATE TABLE pgtrickle.pgt_change_tracking (
    source_relid     oid         PRIMARY KEY,
    source_schema    text        NOT NULL,
    source_name      text        NOT NULL,
    buffer_name      text        NOT NULL,
    captured_columns text[]      NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT now()
);

COMMENT ON TABLE pgtrickle.pgt_change_tracking IS
    'Source tables whose changes are captured, and where they are kept.';
