-- 0020 · self-monitoring
--
-- Why:   stream tables over the history of refreshes are on record, so that they leave themselves out.
-- Reads: nothing that exists.
-- Locks: SHARE ROW EXCLUSIVE on pgt_stream_tables, for a moment: the new table refers to it.
-- Undo:  CALL pgtrickle.teardown_self_monitoring(); DROP TABLE pgtrickle.pgt_self_monitoring; DROP
--        FUNCTION pgtrickle.self_monitoring_status(); DROP PROCEDURE
--        pgtrickle.setup_self_monitoring(text, jsonb), pgtrickle.teardown_self_monitoring(jsonb);
--        then migrate() of the version before.

CREATE TABLE pgtrickle.pgt_self_monitoring (
    pgt_id bigint PRIMARY KEY REFERENCES pgtrickle.pgt_stream_tables (pgt_id) ON DELETE CASCADE,
    part   text   NOT NULL UNIQUE
);

COMMENT ON TABLE pgtrickle.pgt_self_monitoring IS
    'The stream tables over the history of refreshes, which leave out what they do themselves.';
