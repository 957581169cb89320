-- 0014 · pauses by the setting
--
-- Why:   while the setting cdc_paused is on, the capture of every source is paused; when it goes
--        off, exactly those pauses end, and not those that somebody asked for.
-- Reads: nothing that exists.
-- Locks: CREATE only.
-- Undo:  DROP TABLE pgtrickle.pgt_switched_pauses;

CREATE TABLE pgtrickle.pgt_switched_pauses (
    source_relid oid         PRIMARY KEY,
    paused_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

COMMENT ON TABLE pgtrickle.pgt_switched_pauses IS
    'Sources whose capture is paused because the setting cdc_paused is on.';
