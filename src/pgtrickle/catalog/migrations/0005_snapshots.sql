-- 0005 · snapshots
--
-- Why:   snapshots of stream tables, from which they can be restored (docs/snapshots.md).
-- Reads: pgt_stream_tables, for a foreign key.
-- Locks: CREATE only; pgt_stream_tables against writes for the foreign key, for a moment.
-- Undo:  DROP TABLE pgtrickle.pgt_snapshot_gaps, pgtrickle.pgt_snapshots; the tables of snapshots and
--        the tables pgtrickle_state.snapshot_* stay.

CREATE TABLE pgtrickle.pgt_snapshots (
    snapshot_id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pgt_id           bigint      NOT NULL
                                 REFERENCES pgtrickle.pgt_stream_tables (pgt_id) ON DELETE CASCADE,
    snapshot_relid   oid         NOT NULL,
    snapshot_schema  text        NOT NULL,
    snapshot_table   text        NOT NULL,
    snapshot_version integer,
    defining_query   text        NOT NULL,
    frontier         jsonb       NOT NULL,
    data_timestamp   timestamptz NOT NULL,
    plan             jsonb,
    needs_reinit     boolean     NOT NULL,
    row_count        bigint      NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT pgt_snapshots_row_count_is_not_negative CHECK (row_count >= 0)
);

CREATE INDEX pgt_snapshots_by_stream_table ON pgtrickle.pgt_snapshots (pgt_id);

COMMENT ON TABLE pgtrickle.pgt_snapshots IS
    'Copies of the contents and the state of stream tables, each at one frontier.';
COMMENT ON COLUMN pgtrickle.pgt_snapshots.snapshot_relid IS
    'The table that holds the rows; in another database its name counts.';
COMMENT ON COLUMN pgtrickle.pgt_snapshots.snapshot_version IS
    'The form in which rows and state were kept; NULL or another one cannot be restored.';
COMMENT ON COLUMN pgtrickle.pgt_snapshots.defining_query IS
    'The query at that time; follows renames of what it reads.';
COMMENT ON COLUMN pgtrickle.pgt_snapshots.plan IS
    'The files and the checksums of the sources with which a later refresh compares them.';
COMMENT ON COLUMN pgtrickle.pgt_snapshots.needs_reinit IS
    'Whether it holds no state, so that the refresh after a restore reinitializes.';

CREATE TABLE pgtrickle.pgt_snapshot_gaps (
    snapshot_id  bigint NOT NULL
                        REFERENCES pgtrickle.pgt_snapshots (snapshot_id) ON DELETE CASCADE,
    source_relid oid    NOT NULL,
    reason       text   NOT NULL,

    PRIMARY KEY (snapshot_id, source_relid, reason)
);

COMMENT ON TABLE pgtrickle.pgt_snapshot_gaps IS
    'Sources with changes after the frontier of a snapshot that no buffer holds any more, and why.';
