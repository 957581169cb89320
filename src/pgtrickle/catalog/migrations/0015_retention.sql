-- 0015 · retention
--
-- Why:   deliveries to lakes and their provenance are deleted after a time; what a sink has delivered
--        in all is kept with the sink.
-- Reads: all rows of pgt_ducklake_sink_delivery and pgt_ducklake_provenance, for their new indexes.
-- Locks: ACCESS EXCLUSIVE on pgt_ducklake_sinks, for a moment; SHARE on pgt_ducklake_sink_delivery
--        and pgt_ducklake_provenance while their indexes are made.
-- Undo:  ALTER TABLE pgtrickle.pgt_ducklake_sinks DROP COLUMN forgotten_deliveries, DROP COLUMN
--        forgotten_rows_written, DROP COLUMN forgotten_rows_deleted, DROP COLUMN
--        forgotten_bytes_written; DROP INDEX pgtrickle.pgt_ducklake_sink_delivery_by_age,
--        pgtrickle.pgt_ducklake_provenance_by_age; DROP FUNCTION pgtrickle.disk_usage(); then
--        migrate() of the version before.

ALTER TABLE pgtrickle.pgt_ducklake_sinks
    ADD COLUMN forgotten_deliveries    bigint NOT NULL DEFAULT 0,
    ADD COLUMN forgotten_rows_written  bigint NOT NULL DEFAULT 0,
    ADD COLUMN forgotten_rows_deleted  bigint NOT NULL DEFAULT 0,
    ADD COLUMN forgotten_bytes_written bigint NOT NULL DEFAULT 0;

COMMENT ON COLUMN pgtrickle.pgt_ducklake_sinks.forgotten_deliveries IS
    'How many deliveries the retention has deleted; the next columns have their rows and bytes.';

CREATE INDEX pgt_ducklake_sink_delivery_by_age
    ON pgtrickle.pgt_ducklake_sink_delivery (finished_at) WHERE status = 'DELIVERED';

CREATE INDEX pgt_ducklake_provenance_by_age ON pgtrickle.pgt_ducklake_provenance (written_at);
