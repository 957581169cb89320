-- 0004 · immediate pauses
--
-- Why:   a pause of capture holds for stream tables that writers maintain, too (docs/capture-control.md).
-- Reads: nothing.
-- Locks: CREATE only.
-- Undo:  DROP TABLE pgtrickle.pgt_immediate_pauses;

CREATE TABLE pgtrickle.pgt_immediate_pauses (
    source_relid oid         PRIMARY KEY,
    paused_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

COMMENT ON TABLE pgtrickle.pgt_immediate_pauses IS
    'Sources whose writers do not follow their changes in stream tables with refresh_mode IMMEDIATE.';
