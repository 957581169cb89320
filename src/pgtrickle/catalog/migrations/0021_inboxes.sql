-- 0021 · inboxes
--
-- Why:   an inbox receives messages once, with stream tables for what waits, what failed and figures
--        (docs/inbox.md).
-- Reads: nothing that exists.
-- Locks: SHARE ROW EXCLUSIVE on pgt_stream_tables, for a moment: a new table refers to it.
-- Undo:  SELECT pgtrickle.drop_inbox(...) for each; DROP TABLE pgtrickle.pgt_inbox_parts,
--        pgtrickle.pgt_inboxes CASCADE; then migrate() of the version before.

CREATE TABLE pgtrickle.pgt_inboxes (
    inbox_id          bigint           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    relid             regclass         NOT NULL UNIQUE,
    schema_name       text             NOT NULL,
    inbox_name        text             NOT NULL,
    max_retries       integer          NOT NULL,
    schedule_seconds  integer          NOT NULL,
    retention_hours   double precision NOT NULL,
    aggregate_column  text,
    sequence_column   text,
    skip_dead_letters boolean          NOT NULL DEFAULT false,
    priority_column   text,
    urgent_from       double precision,
    urgent_seconds    integer,
    created_at        timestamptz      NOT NULL DEFAULT pg_catalog.clock_timestamp(),

    CONSTRAINT pgt_inboxes_retries CHECK (max_retries BETWEEN 0 AND 1000),
    CONSTRAINT pgt_inboxes_retention CHECK (retention_hours >= 0)
);

COMMENT ON TABLE pgtrickle.pgt_inboxes IS 'Tables that receive messages once.';
COMMENT ON COLUMN pgtrickle.pgt_inboxes.schema_name IS
    'As the table was called at its creation, to name it when it is gone.';
COMMENT ON COLUMN pgtrickle.pgt_inboxes.aggregate_column IS
    'Messages with the same value are dealt with in the order of sequence_column; NULL: no order.';

CREATE TABLE pgtrickle.pgt_inbox_parts (
    inbox_id bigint NOT NULL REFERENCES pgtrickle.pgt_inboxes (inbox_id) ON DELETE CASCADE,
    part     text   NOT NULL,
    pgt_id   bigint NOT NULL UNIQUE
                    REFERENCES pgtrickle.pgt_stream_tables (pgt_id) ON DELETE CASCADE,

    PRIMARY KEY (inbox_id, part)
);

COMMENT ON TABLE pgtrickle.pgt_inbox_parts IS
    'The stream tables of inboxes: pending, dead_letters, stats, next, urgent.';

ALTER TABLE pgtrickle.pgt_inboxes ENABLE ROW LEVEL SECURITY;
ALTER TABLE pgtrickle.pgt_inbox_parts ENABLE ROW LEVEL SECURITY;
