-- 0012 · pre · add capture from the write-ahead log
--
-- Why:   how a source is captured, and how far the log has been read, must survive a crash.
-- Reads: nothing before this version reads or writes the new table and columns.
-- Locks: ACCESS EXCLUSIVE on both tables, briefly: no row is rewritten.
-- Undo:  DROP TABLE pgtrickle.pgt_wal_slots; DROP the new columns; the checks go with them.

CREATE TABLE pgtrickle.pgt_wal_slots (
    slot_name        text        PRIMARY KEY,
    publication_name text        NOT NULL,
    position         pg_lsn      NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now()
);

-- One slot serves all sources of a database.
CREATE UNIQUE INDEX pgt_wal_slots_only_one ON pgtrickle.pgt_wal_slots ((true));

COMMENT ON TABLE pgtrickle.pgt_wal_slots IS
    'The logical slot of this database, and up to where its changes are in the buffers.';
COMMENT ON COLUMN pgtrickle.pgt_wal_slots.position IS
    'Every transaction whose commit record starts before it has been written to the buffers.';

ALTER TABLE pgtrickle.pgt_change_tracking
    ADD COLUMN cdc_mode                text NOT NULL DEFAULT 'TRIGGER',
    ADD COLUMN wal_from                pg_lsn,
    ADD COLUMN publication_member      oid,
    ADD COLUMN former_replica_identity text,
    ADD COLUMN cdc_note                text,
    ADD COLUMN wal_lost_at             timestamptz,
    ADD CONSTRAINT pgt_change_tracking_cdc_mode_known CHECK (cdc_mode IN ('TRIGGER', 'WAL')),
    ADD CONSTRAINT pgt_change_tracking_wal_starts_somewhere
        CHECK ((cdc_mode = 'WAL') = (wal_from IS NOT NULL));

COMMENT ON COLUMN pgtrickle.pgt_change_tracking.cdc_mode IS
    'Who writes the buffer now: triggers, or the reader of the write-ahead log.';
COMMENT ON COLUMN pgtrickle.pgt_change_tracking.wal_from IS
    'Transactions that committed before it were captured by triggers.';
COMMENT ON COLUMN pgtrickle.pgt_change_tracking.publication_member IS
    'The row of pg_publication_rel: another one means that the table was not published for a time.';
COMMENT ON COLUMN pgtrickle.pgt_change_tracking.former_replica_identity IS
    'What to set again when the log is no longer read; NULL: nothing was changed.';
COMMENT ON COLUMN pgtrickle.pgt_change_tracking.cdc_note IS
    'Why the source is captured in another way than was asked for.';
COMMENT ON COLUMN pgtrickle.pgt_change_tracking.wal_lost_at IS
    'When the log last failed to tell the changes of the source; NULL: never.';

ALTER TABLE pgtrickle.pgt_stream_tables
    ADD COLUMN requested_cdc_mode text,
    ADD CONSTRAINT pgt_stream_tables_requested_cdc_mode_known
        CHECK (requested_cdc_mode IN ('TRIGGER', 'WAL', 'AUTO'));

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.requested_cdc_mode IS
    'How its sources are to be captured; NULL: the setting cdc_mode decides.';
