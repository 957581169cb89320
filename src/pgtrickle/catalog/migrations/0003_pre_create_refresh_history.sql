-- 0003 · pre · create the refresh history
--
-- Why:   the history says what every refresh really did, why, and what it read.
-- Reads: nothing before this version reads or writes the new table.
-- Locks: CREATE TABLE; the foreign key takes SHARE ROW EXCLUSIVE on pgt_stream_tables, briefly.
-- Undo:  DROP TABLE pgtrickle.pgt_refresh_history;

CREATE TABLE pgtrickle.pgt_refresh_history (
    refresh_id      bigint           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pgt_id          bigint           NOT NULL
                                     REFERENCES pgtrickle.pgt_stream_tables (pgt_id)
                                     ON DELETE CASCADE,
    data_timestamp  timestamptz,
    start_time      timestamptz      NOT NULL,
    end_time        timestamptz,
    action          text,
    status          text             NOT NULL,
    reason          text             NOT NULL,
    rows_inserted   bigint           NOT NULL,
    rows_deleted    bigint           NOT NULL,
    delta_row_count bigint           NOT NULL,
    reads           jsonb            NOT NULL,
    timings         jsonb            NOT NULL,
    predicted_ms    double precision,
    initiated_by    text             NOT NULL,
    error_code      text,
    error_message   text,

    -- No action yet: the refresh still runs, or failed before it could decide.
    CONSTRAINT pgt_refresh_history_action_known
        CHECK (action IN ('NO_DATA', 'DIFFERENTIAL', 'FULL', 'REINITIALIZE', 'SKIPPED')),
    CONSTRAINT pgt_refresh_history_status_known
        CHECK (status IN ('RUNNING', 'COMPLETED', 'FAILED', 'SKIPPED')),
    CONSTRAINT pgt_refresh_history_initiator_known
        CHECK (initiated_by IN ('MANUAL', 'INITIAL', 'SCHEDULER')),
    CONSTRAINT pgt_refresh_history_completed_has_action
        CHECK (status <> 'COMPLETED' OR action IS NOT NULL),
    CONSTRAINT pgt_refresh_history_ends_unless_running
        CHECK ((end_time IS NULL) = (status = 'RUNNING')),
    CONSTRAINT pgt_refresh_history_ends_after_start CHECK (end_time >= start_time),
    CONSTRAINT pgt_refresh_history_counts_not_negative
        CHECK (rows_inserted >= 0 AND rows_deleted >= 0 AND delta_row_count >= 0)
);

CREATE INDEX pgt_refresh_history_by_start ON pgtrickle.pgt_refresh_history (start_time);
CREATE INDEX pgt_refresh_history_by_stream_table
    ON pgtrickle.pgt_refresh_history (pgt_id, start_time DESC);

COMMENT ON TABLE pgtrickle.pgt_refresh_history IS 'What every refresh did, why, and at what cost.';
