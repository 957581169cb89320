-- 0009 · service levels
--
-- Why:   a stream table can have a service level, the age that its contents must not exceed;
--        sla_summary() returns more columns.
-- Reads: nothing that exists.
-- Locks: SHARE ROW EXCLUSIVE on pgt_stream_tables, for a moment: the new table refers to it.
-- Undo:  DROP TABLE pgtrickle.pgt_service_levels; DROP FUNCTION
--        pgtrickle.sla_summary(double precision); then migrate() of the version before.

CREATE TABLE pgtrickle.pgt_service_levels (
    pgt_id           bigint           PRIMARY KEY
                                      REFERENCES pgtrickle.pgt_stream_tables (pgt_id)
                                      ON DELETE CASCADE,
    deadline_seconds double precision NOT NULL,
    set_at           timestamptz      NOT NULL DEFAULT pg_catalog.now(),
    spent_told       integer          NOT NULL DEFAULT 0,
    predicted_at     timestamptz,

    CONSTRAINT pgt_service_levels_deadline_positive
        CHECK (deadline_seconds >= 1 AND deadline_seconds <= 314496000),
    CONSTRAINT pgt_service_levels_spent_told_known CHECK (spent_told IN (0, 50, 100))
);

COMMENT ON TABLE pgtrickle.pgt_service_levels IS
    'The stream tables with a service level: the age that their contents must not exceed.';
COMMENT ON COLUMN pgtrickle.pgt_service_levels.spent_told IS
    'Which percentage of the error budget the last alert said was spent; 0: none, or not any more.';
COMMENT ON COLUMN pgtrickle.pgt_service_levels.predicted_at IS
    'When the last alert predicted that the service level will be missed; NULL: never.';

DROP FUNCTION IF EXISTS pgtrickle.sla_summary(double precision);
