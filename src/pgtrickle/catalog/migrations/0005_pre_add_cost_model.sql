-- 0005 · pre · add the cost model
--
-- Why:   a refresh chooses by cost, so what was predicted and what it took must be on record.
-- Reads: nothing before this version reads or writes the new columns, which may all be NULL.
-- Locks: ACCESS EXCLUSIVE on both tables, briefly: no row is rewritten, the index has no rows.
-- Undo:  DROP the new columns; the index and the check go with them.

ALTER TABLE pgtrickle.pgt_stream_tables
    ADD COLUMN max_delta_fraction double precision,
    ADD CONSTRAINT pgt_stream_tables_max_delta_fraction_is_a_fraction
        CHECK (max_delta_fraction BETWEEN 0 AND 1);

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.max_delta_fraction IS
    'Share of changed rows above which AUTO recomputes in full; NULL: the setting decides.';

ALTER TABLE pgtrickle.pgt_refresh_history
    ADD COLUMN predicted_differential_ms double precision,
    ADD COLUMN predicted_full_ms         double precision,
    ADD COLUMN actual_ms                 double precision,
    ADD COLUMN rows_read                 bigint,
    ADD COLUMN bytes_read                bigint,
    ADD COLUMN cost                      jsonb;

COMMENT ON COLUMN pgtrickle.pgt_refresh_history.actual_ms IS
    'From the snapshot to the commit; compiling the query is not part of it.';
COMMENT ON COLUMN pgtrickle.pgt_refresh_history.rows_read IS
    'By all reads together; NULL where executors read without counting.';
COMMENT ON COLUMN pgtrickle.pgt_refresh_history.cost IS
    'The work that was counted for each action, for refreshes that later predictions learn from.';

-- Refreshes without changes are the many; they have no cost and are not in the index.
CREATE INDEX pgt_refresh_history_measured
    ON pgtrickle.pgt_refresh_history (pgt_id, action, refresh_id DESC)
    WHERE cost IS NOT NULL;
