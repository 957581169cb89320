-- 0001 · baseline
--
-- Why:   everything that the catalog stores: tables, types, sequences, indexes, row security.  What
--        runs (functions, procedures, views, policies, triggers) stands in sql_api/.
-- Reads: nothing exists before this version.
-- Locks: CREATE only.
-- Undo:  DROP SCHEMA pgtrickle, pgtrickle_changes, pgtrickle_state CASCADE;

-- The schemas
--
-- migrate() has made them, or has seen that they belong to the current role.

COMMENT ON SCHEMA pgtrickle IS 'The catalog of stream tables.';
COMMENT ON SCHEMA pgtrickle_changes IS 'Captured changes of source tables.';
COMMENT ON SCHEMA pgtrickle_state IS 'Accumulators of stateful operators.';

-- Default privileges may have opened them: whoever may create in a schema of ours can put code of
-- his into it.  Levels of access come with USAGE on the schema pgtrickle and no more.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT DISTINCT n.nspname,
               CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role
          FROM pg_namespace AS n, aclexplode(n.nspacl) AS a
         WHERE n.nspname IN ('pgtrickle', 'pgtrickle_changes', 'pgtrickle_state')
           AND a.grantee <> n.nspowner
           AND (a.privilege_type = 'CREATE' OR n.nspname <> 'pgtrickle')
    LOOP
        EXECUTE format('REVOKE ALL ON SCHEMA %I FROM %s', one.nspname, one.role);
    END LOOP;
END
$$;

-- Versions

CREATE TABLE pgtrickle.pgt_schema_version (
    version     integer     PRIMARY KEY,
    applied_at  timestamptz NOT NULL DEFAULT now(),
    description text        NOT NULL,
    sha256      text        NOT NULL,

    CONSTRAINT pgt_schema_version_counts_from_one CHECK (version >= 1)
);

COMMENT ON TABLE pgtrickle.pgt_schema_version IS
    'Which migrations the catalog has had, and the hash of each as it was applied.';

CREATE TABLE pgtrickle.pgt_sql_api (
    name       text        PRIMARY KEY,
    sha256     text        NOT NULL,
    content    text        NOT NULL,
    package    text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

COMMENT ON TABLE pgtrickle.pgt_sql_api IS
    'The files that define functions, procedures, views, policies and triggers, as last applied.';
COMMENT ON COLUMN pgtrickle.pgt_sql_api.content IS
    'The text, which pgtrickle.migrate() applies again.';
COMMENT ON COLUMN pgtrickle.pgt_sql_api.package IS
    'The version of the package that applied it.';

-- Stream tables

CREATE TABLE pgtrickle.pgt_stream_tables (
    pgt_id                   bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pgt_relid                oid         NOT NULL,
    pgt_schema               text        NOT NULL,
    pgt_name                 text        NOT NULL,
    defining_query           text        NOT NULL,
    original_query           text        NOT NULL,
    query_search_path        text        NOT NULL,
    schedule                 text        NOT NULL,
    refresh_mode             text        NOT NULL,
    effective_refresh_mode   text        NOT NULL,
    downgrade_reason         text,
    status                   text        NOT NULL DEFAULT 'INITIALIZING',
    is_populated             boolean     NOT NULL DEFAULT false,
    needs_reinit             boolean     NOT NULL DEFAULT false,
    frontier                 jsonb,
    data_timestamp           timestamptz,
    last_refresh_at          timestamptz,
    consecutive_errors       integer     NOT NULL DEFAULT 0,
    last_error_message       text,
    last_error_at            timestamptz,
    plan                     jsonb,
    owner_role               text        NOT NULL DEFAULT current_user,
    created_at               timestamptz NOT NULL DEFAULT now(),
    updated_at               timestamptz NOT NULL DEFAULT now(),
    max_delta_fraction       double precision,
    function_hashes          jsonb       NOT NULL DEFAULT '{}',
    requested_cdc_mode       text,
    diamond_consistency      text,
    diamond_schedule_policy  text,
    tier                     text        NOT NULL DEFAULT 'hot',
    fuse                     text        NOT NULL DEFAULT 'off',
    fuse_ceiling             bigint,
    fuse_sensitivity         double precision,
    fuse_blown_at            timestamptz,
    fuse_reason              text,
    fuse_bridged             boolean     NOT NULL DEFAULT false,
    measured_since           bigint      NOT NULL DEFAULT 0,
    scc_id                   bigint,
    last_fixpoint_iterations integer,
    bound                    jsonb,
    errors_since             timestamptz,
    suspended_by             text,
    former_names             jsonb       NOT NULL DEFAULT '[]',

    CONSTRAINT pgt_stream_tables_one_per_relation UNIQUE (pgt_relid),
    CONSTRAINT pgt_stream_tables_one_per_name UNIQUE (pgt_schema, pgt_name),
    CONSTRAINT pgt_stream_tables_refresh_mode_known
        CHECK (refresh_mode IN ('AUTO', 'DIFFERENTIAL', 'FULL', 'IMMEDIATE')),
    CONSTRAINT pgt_stream_tables_effective_refresh_mode_known
        CHECK (effective_refresh_mode IN ('AUTO', 'DIFFERENTIAL', 'FULL', 'IMMEDIATE')),
    CONSTRAINT pgt_stream_tables_status_known
        CHECK (status IN ('INITIALIZING', 'ACTIVE', 'SUSPENDED', 'ERROR')),
    CONSTRAINT pgt_stream_tables_populated_has_frontier
        CHECK (frontier IS NOT NULL OR NOT is_populated),
    CONSTRAINT pgt_stream_tables_errors_not_negative CHECK (consecutive_errors >= 0),
    CONSTRAINT pgt_stream_tables_max_delta_fraction_is_a_fraction
        CHECK (max_delta_fraction BETWEEN 0 AND 1),
    CONSTRAINT pgt_stream_tables_requested_cdc_mode_known
        CHECK (requested_cdc_mode IN ('TRIGGER', 'WAL', 'AUTO')),
    CONSTRAINT pgt_stream_tables_diamond_consistency_is_known
        CHECK (diamond_consistency IN ('atomic', 'none')),
    CONSTRAINT pgt_stream_tables_diamond_schedule_policy_is_known
        CHECK (diamond_schedule_policy IN ('fastest', 'slowest')),
    CONSTRAINT pgt_stream_tables_tier_is_known
        CHECK (tier IN ('hot', 'warm', 'cold', 'frozen')),
    CONSTRAINT pgt_stream_tables_fuse_is_known CHECK (fuse IN ('off', 'on', 'auto')),
    CONSTRAINT pgt_stream_tables_fuse_ceiling_positive CHECK (fuse_ceiling > 0),
    CONSTRAINT pgt_stream_tables_fuse_sensitivity_above_one CHECK (fuse_sensitivity > 1)
);

COMMENT ON TABLE pgtrickle.pgt_stream_tables IS
    'Every stream table: its query, how it is maintained, and the frontier it has reached.';
COMMENT ON COLUMN pgtrickle.pgt_stream_tables.max_delta_fraction IS
    'Share of changed rows above which AUTO recomputes in full; NULL: the setting decides.';
COMMENT ON COLUMN pgtrickle.pgt_stream_tables.function_hashes IS
    'The functions of users that the query calls: name and hash by oid.';
COMMENT ON COLUMN pgtrickle.pgt_stream_tables.requested_cdc_mode IS
    'How its sources are to be captured; NULL: the setting cdc_mode decides.';
COMMENT ON COLUMN pgtrickle.pgt_stream_tables.diamond_consistency IS
    'Whether the paths that meet in this stream table are refreshed together; NULL: atomic.';
COMMENT ON COLUMN pgtrickle.pgt_stream_tables.diamond_schedule_policy IS
    'Whether its group is due with its first member or its last; NULL: fastest.';
COMMENT ON COLUMN pgtrickle.pgt_stream_tables.tier IS
    'A factor on the schedule: hot 1, warm 2, cold 10; frozen is refreshed by hand alone.';
COMMENT ON COLUMN pgtrickle.pgt_stream_tables.fuse IS
    'off; on: blows above the ceiling; auto: also above what is usual, times the sensitivity.';
COMMENT ON COLUMN pgtrickle.pgt_stream_tables.fuse_bridged IS
    'The next refresh passes whatever it finds: someone has looked and decided.';
COMMENT ON COLUMN pgtrickle.pgt_stream_tables.measured_since IS
    'The last refresh of an earlier query: nothing is learned from it or those before.';
COMMENT ON COLUMN pgtrickle.pgt_stream_tables.scc_id IS
    'The circle that it belongs to: the least pgt_id of its members; NULL: none.';
COMMENT ON COLUMN pgtrickle.pgt_stream_tables.last_fixpoint_iterations IS
    'How many rounds the latest refresh of its circle took that had anything to do.';
COMMENT ON COLUMN pgtrickle.pgt_stream_tables.bound IS
    'The relations, functions, operators, types and collations that defining_query names, with their'
    ' owners; NULL until it is compiled for the first time by a version that keeps this.';
COMMENT ON COLUMN pgtrickle.pgt_stream_tables.errors_since IS
    'When the first of consecutive_errors happened; says nothing if there are none.';
COMMENT ON COLUMN pgtrickle.pgt_stream_tables.suspended_by IS
    'The code of the error that suspended it, until it works again; NULL if somebody did.';
COMMENT ON COLUMN pgtrickle.pgt_stream_tables.former_names IS
    'The names that it had before, the latest first: who asks for one of them is told the new one.';

CREATE TABLE pgtrickle.pgt_dependencies (
    pgt_id             bigint NOT NULL
                              REFERENCES pgtrickle.pgt_stream_tables (pgt_id) ON DELETE CASCADE,
    source_relid       oid    NOT NULL,
    source_schema      text   NOT NULL,
    source_name        text   NOT NULL,
    source_type        text   NOT NULL,
    columns_used       text[] NOT NULL,
    schema_fingerprint text   NOT NULL,

    PRIMARY KEY (pgt_id, source_relid),
    CONSTRAINT pgt_dependencies_source_type_known
        CHECK (source_type IN ('TABLE', 'STREAM_TABLE', 'VIEW', 'MATVIEW', 'FOREIGN_TABLE'))
);

CREATE INDEX pgt_dependencies_by_source ON pgtrickle.pgt_dependencies (source_relid);

COMMENT ON TABLE pgtrickle.pgt_dependencies IS
    'Which columns of which relation a stream table reads, and their shape when it was compiled.';

CREATE TABLE pgtrickle.pgt_successors (
    pgt_id      bigint      PRIMARY KEY
                            REFERENCES pgtrickle.pgt_stream_tables (pgt_id) ON DELETE CASCADE,
    alive_until timestamptz NOT NULL
);

COMMENT ON TABLE pgtrickle.pgt_successors IS
    'Stream tables that are to replace the contents of another, and until when their maker is alive.';

-- Capture

CREATE TABLE pgtrickle.pgt_change_tracking (
    source_relid            oid         PRIMARY KEY,
    source_schema           text        NOT NULL,
    source_name             text        NOT NULL,
    buffer_name             text        NOT NULL,
    captured_columns        text[]      NOT NULL,
    created_at              timestamptz NOT NULL DEFAULT now(),
    layout                  text,
    cdc_mode                text        NOT NULL DEFAULT 'TRIGGER',
    wal_from                pg_lsn,
    publication_member      oid,
    former_replica_identity text,
    cdc_note                text,
    wal_lost_at             timestamptz,
    durability              text,
    paused_at               timestamptz,
    delay_ms                integer     NOT NULL DEFAULT 0,
    overfull                integer     NOT NULL DEFAULT 0,
    alerted_at              timestamptz,
    compacted_rows          bigint      NOT NULL DEFAULT 0,
    trimmed_before          xid8,

    CONSTRAINT pgt_change_tracking_cdc_mode_known CHECK (cdc_mode IN ('TRIGGER', 'WAL')),
    CONSTRAINT pgt_change_tracking_wal_starts_somewhere
        CHECK ((cdc_mode = 'WAL') = (wal_from IS NOT NULL)),
    CONSTRAINT pgt_change_tracking_durability_known
        CHECK (durability IN ('unlogged', 'logged', 'sync')),
    CONSTRAINT pgt_change_tracking_delay_not_negative CHECK (delay_ms >= 0)
);

COMMENT ON TABLE pgtrickle.pgt_change_tracking IS
    'Source tables whose changes are captured, and where they are kept.';
COMMENT ON COLUMN pgtrickle.pgt_change_tracking.layout IS
    'For which files and column numbers the capture functions were written.';
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
COMMENT ON COLUMN pgtrickle.pgt_change_tracking.durability IS
    'What a crash leaves of the buffer; NULL: logged, as earlier versions made it.';
COMMENT ON COLUMN pgtrickle.pgt_change_tracking.paused_at IS
    'Since when nothing is captured; NULL: everything is.';
COMMENT ON COLUMN pgtrickle.pgt_change_tracking.delay_ms IS
    'How long each writing statement is held up, so that refreshes catch up.';
COMMENT ON COLUMN pgtrickle.pgt_change_tracking.overfull IS
    'How many times in a row the buffer was found above its limit.';
COMMENT ON COLUMN pgtrickle.pgt_change_tracking.alerted_at IS
    'When an alert about the size of the buffer was sent; NULL: it is small again.';
COMMENT ON COLUMN pgtrickle.pgt_change_tracking.compacted_rows IS
    'How many rows the last compaction left.';
COMMENT ON COLUMN pgtrickle.pgt_change_tracking.trimmed_before IS
    'The least end of the frontiers up to which changes were deleted: an older one needs them back.';

-- Writers only insert here, so that they never wait for one another; nothing is read and nothing else
-- is locked.  A gap of a source that is followed no longer is deleted with its record.
CREATE TABLE pgtrickle.pgt_capture_gaps (
    source_relid oid         NOT NULL,
    pgt_id       bigint      REFERENCES pgtrickle.pgt_stream_tables ON DELETE CASCADE,
    xid          xid8        NOT NULL DEFAULT pg_current_xact_id(),
    reason       text        NOT NULL,
    noted_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX pgt_capture_gaps_by_source ON pgtrickle.pgt_capture_gaps (source_relid);

CREATE UNIQUE INDEX pgt_capture_gaps_once ON pgtrickle.pgt_capture_gaps (source_relid, xid)
    WHERE pgt_id IS NULL;

COMMENT ON TABLE pgtrickle.pgt_capture_gaps IS
    'Transactions with changes that no buffer holds: a frontier that does not see one starts anew.';
COMMENT ON COLUMN pgtrickle.pgt_capture_gaps.pgt_id IS
    'The one stream table for which they are missing; NULL: for all.';

-- Crash recovery empties every unlogged table, this one too: what is missing here was lost there.
CREATE UNLOGGED TABLE pgtrickle.pgt_unlogged_buffers (
    source_relid oid PRIMARY KEY REFERENCES pgtrickle.pgt_change_tracking ON DELETE CASCADE
);

COMMENT ON TABLE pgtrickle.pgt_unlogged_buffers IS
    'Unlogged buffers that no crash has emptied so far.';

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

CREATE TABLE pgtrickle.pgt_locks (
    purpose text NOT NULL,
    relid   oid  NOT NULL,

    PRIMARY KEY (purpose, relid),
    CONSTRAINT pgt_locks_have_a_purpose CHECK (purpose IN ('capture', 'buffer', 'watch'))
);

COMMENT ON TABLE pgtrickle.pgt_locks IS
    'Rows that are locked while something is changed, and never changed themselves.';
COMMENT ON COLUMN pgtrickle.pgt_locks.purpose IS
    'capture: who changes the capture of a source; buffer: who deletes from its buffer;'
    ' watch: who makes the event triggers.';

INSERT INTO pgtrickle.pgt_locks (purpose, relid) VALUES ('watch', 0);

-- A sequence can be read by a capture function without a query, and its value is seen at once by
-- every transaction.  Each holds 32 flags and, above them, until when they count.
CREATE SEQUENCE pgtrickle_changes.bell_0 MINVALUE 0 START 0;
CREATE SEQUENCE pgtrickle_changes.bell_1 MINVALUE 0 START 0;
CREATE SEQUENCE pgtrickle_changes.bell_2 MINVALUE 0 START 0;
CREATE SEQUENCE pgtrickle_changes.bell_3 MINVALUE 0 START 0;
CREATE SEQUENCE pgtrickle_changes.bell_4 MINVALUE 0 START 0;
CREATE SEQUENCE pgtrickle_changes.bell_5 MINVALUE 0 START 0;
CREATE SEQUENCE pgtrickle_changes.bell_6 MINVALUE 0 START 0;
CREATE SEQUENCE pgtrickle_changes.bell_7 MINVALUE 0 START 0;

COMMENT ON SEQUENCE pgtrickle_changes.bell_0 IS
    'Whether writers are to ring the bell, and until when; so are the others.';

-- Refreshes

-- Tokens grow over all stream tables and all time, so an old token never fits a later lease.
CREATE SEQUENCE pgtrickle.pgt_lease_tokens;

CREATE TABLE pgtrickle.pgt_leases (
    pgt_id      bigint      PRIMARY KEY
                            REFERENCES pgtrickle.pgt_stream_tables (pgt_id) ON DELETE CASCADE,
    owner       text        NOT NULL,
    token       bigint      NOT NULL DEFAULT nextval('pgtrickle.pgt_lease_tokens'),
    acquired_at timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,

    CONSTRAINT pgt_leases_one_per_token UNIQUE (token),
    CONSTRAINT pgt_leases_expire_after_acquisition CHECK (expires_at > acquired_at)
);

ALTER SEQUENCE pgtrickle.pgt_lease_tokens OWNED BY pgtrickle.pgt_leases.token;

COMMENT ON TABLE pgtrickle.pgt_leases IS
    'Which process may refresh a stream table, until when, and the token that fences it.';

CREATE TABLE pgtrickle.pgt_refresh_progress (
    pgt_id      bigint      PRIMARY KEY
                            REFERENCES pgtrickle.pgt_stream_tables (pgt_id) ON DELETE CASCADE,
    stage       text        NOT NULL,
    rows_read   bigint      NOT NULL,
    rows_staged bigint      NOT NULL,
    started_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL
);

COMMENT ON TABLE pgtrickle.pgt_refresh_progress IS
    'How far the large refreshes are that run now; a row that is no longer updated was left by a'
    ' process that died.';

CREATE TABLE pgtrickle.pgt_refresh_history (
    refresh_id                bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pgt_id                    bigint      NOT NULL
                                          REFERENCES pgtrickle.pgt_stream_tables (pgt_id)
                                          ON DELETE CASCADE,
    data_timestamp            timestamptz,
    start_time                timestamptz NOT NULL,
    end_time                  timestamptz,
    action                    text,
    status                    text        NOT NULL,
    reason                    text        NOT NULL,
    rows_inserted             bigint      NOT NULL,
    rows_deleted              bigint      NOT NULL,
    delta_row_count           bigint      NOT NULL,
    reads                     jsonb       NOT NULL,
    timings                   jsonb       NOT NULL,
    predicted_ms              double precision,
    initiated_by              text        NOT NULL,
    error_code                text,
    error_message             text,
    predicted_differential_ms double precision,
    predicted_full_ms         double precision,
    actual_ms                 double precision,
    rows_read                 bigint,
    bytes_read                bigint,
    cost                      jsonb,
    error_hint                text,
    changed_rows              bigint,

    -- No action yet: the refresh still runs, or failed before it could decide.
    CONSTRAINT pgt_refresh_history_action_known
        CHECK (action IN ('NO_DATA', 'DIFFERENTIAL', 'FULL', 'REINITIALIZE', 'SKIPPED')),
    CONSTRAINT pgt_refresh_history_initiator_known
        CHECK (initiated_by IN ('MANUAL', 'INITIAL', 'SCHEDULER')),
    CONSTRAINT pgt_refresh_history_completed_has_action
        CHECK (status <> 'COMPLETED' OR action IS NOT NULL),
    CONSTRAINT pgt_refresh_history_ends_unless_running
        CHECK ((end_time IS NULL) = (status = 'RUNNING')),
    CONSTRAINT pgt_refresh_history_ends_after_start CHECK (end_time >= start_time),
    CONSTRAINT pgt_refresh_history_counts_not_negative
        CHECK (rows_inserted >= 0 AND rows_deleted >= 0 AND delta_row_count >= 0),
    CONSTRAINT pgt_refresh_history_status_known
        CHECK (status IN ('RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED', 'SKIPPED'))
);

CREATE INDEX pgt_refresh_history_by_start ON pgtrickle.pgt_refresh_history (start_time);

CREATE INDEX pgt_refresh_history_by_stream_table
    ON pgtrickle.pgt_refresh_history (pgt_id, start_time DESC);

-- Refreshes without changes are the many; they have no cost and are not in the index.
CREATE INDEX pgt_refresh_history_measured
    ON pgtrickle.pgt_refresh_history (pgt_id, action, refresh_id DESC)
    WHERE cost IS NOT NULL;

COMMENT ON TABLE pgtrickle.pgt_refresh_history IS 'What every refresh did, why, and at what cost.';
COMMENT ON COLUMN pgtrickle.pgt_refresh_history.delta_row_count IS
    'rows_inserted and rows_deleted together; an updated row of the stream table is in both.';
COMMENT ON COLUMN pgtrickle.pgt_refresh_history.actual_ms IS
    'From the snapshot to the commit; compiling the query is not part of it.';
COMMENT ON COLUMN pgtrickle.pgt_refresh_history.rows_read IS
    'By all reads together; NULL where executors read without counting.';
COMMENT ON COLUMN pgtrickle.pgt_refresh_history.cost IS
    'The work that was counted for each action, for refreshes that later predictions learn from.';
COMMENT ON COLUMN pgtrickle.pgt_refresh_history.error_hint IS
    'What whoever met the error was told to do.';
COMMENT ON COLUMN pgtrickle.pgt_refresh_history.changed_rows IS
    'How many rows of the sources had changed; an updated one counts once.';

-- Scheduling

CREATE TABLE pgtrickle.pgt_leader (
    only_one    boolean     PRIMARY KEY DEFAULT true CHECK (only_one),
    owner       text        NOT NULL,
    acquired_at timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL
);

COMMENT ON TABLE pgtrickle.pgt_leader IS
    'Which daemon schedules refreshes, and until when unless it says that it lives.';

CREATE TABLE pgtrickle.pgt_daemons (
    daemon     text        PRIMARY KEY,
    started_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL,
    package    text
);

COMMENT ON TABLE pgtrickle.pgt_daemons IS
    'The daemons on this database, those that stand by too, and when each last showed a sign of life.';
COMMENT ON COLUMN pgtrickle.pgt_daemons.package IS 'The version of the package that it runs.';

CREATE TABLE pgtrickle.pgt_source_gates (
    source_relid oid         PRIMARY KEY,
    gated        boolean     NOT NULL DEFAULT true,
    gated_at     timestamptz NOT NULL DEFAULT pg_catalog.now(),
    ungated_at   timestamptz,
    gated_by     text        NOT NULL DEFAULT current_user,

    CONSTRAINT pgt_source_gates_gated_at_a_moment CHECK (
        gated_at BETWEEN '0002-01-01 00:00+00' AND '9998-12-31 00:00+00'),
    CONSTRAINT pgt_source_gates_ungated_at_a_moment CHECK (
        ungated_at BETWEEN '0002-01-01 00:00+00' AND '9998-12-31 00:00+00')
);

COMMENT ON TABLE pgtrickle.pgt_source_gates IS
    'Sources whose consumers the scheduler leaves alone, as long as they are gated.';

ALTER TABLE pgtrickle.pgt_source_gates ENABLE ROW LEVEL SECURITY;

CREATE TABLE pgtrickle.pgt_watermarks (
    source_relid oid         PRIMARY KEY,
    watermark    timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL DEFAULT pg_catalog.now(),
    advanced_by  text        NOT NULL DEFAULT current_user,

    CONSTRAINT pgt_watermarks_are_moments CHECK (
        watermark BETWEEN '0002-01-01 00:00+00' AND '9998-12-31 00:00+00'),
    CONSTRAINT pgt_watermarks_updated_at_a_moment CHECK (
        updated_at BETWEEN '0002-01-01 00:00+00' AND '9998-12-31 00:00+00')
);

COMMENT ON TABLE pgtrickle.pgt_watermarks IS
    'Up to when a source is complete, as whoever loads it says.';

ALTER TABLE pgtrickle.pgt_watermarks ENABLE ROW LEVEL SECURITY;

CREATE TABLE pgtrickle.pgt_watermark_groups (
    group_id       bigint           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    group_name     text             NOT NULL UNIQUE,
    source_relids  oid[]            NOT NULL,
    tolerance_secs double precision NOT NULL DEFAULT 0,
    created_at     timestamptz      NOT NULL DEFAULT pg_catalog.now(),

    CONSTRAINT pgt_watermark_groups_have_sources
        CHECK (pg_catalog.cardinality(source_relids) >= 2),
    CONSTRAINT pgt_watermark_groups_tolerance_not_negative CHECK (tolerance_secs >= 0),
    CONSTRAINT pgt_watermark_groups_name_short CHECK (octet_length(group_name) <= 255),
    CONSTRAINT pgt_watermark_groups_sources_few CHECK (cardinality(source_relids) <= 1000),
    CONSTRAINT pgt_watermark_groups_tolerance_finite CHECK (tolerance_secs <= 1e9)
);

COMMENT ON TABLE pgtrickle.pgt_watermark_groups IS
    'Sources that must be complete up to about the same moment before they are read together.';

ALTER TABLE pgtrickle.pgt_watermark_groups ENABLE ROW LEVEL SECURITY;

CREATE TABLE pgtrickle.pgt_scheduler_pauses (
    pgt_id    bigint      UNIQUE REFERENCES pgtrickle.pgt_stream_tables (pgt_id) ON DELETE CASCADE,
    paused_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
    paused_by text        NOT NULL DEFAULT current_user
);

CREATE UNIQUE INDEX pgt_scheduler_pauses_drained
    ON pgtrickle.pgt_scheduler_pauses ((pgt_id IS NULL)) WHERE pgt_id IS NULL;

COMMENT ON TABLE pgtrickle.pgt_scheduler_pauses IS
    'What the scheduler leaves alone: a stream table, or with NULL everything (drained).';

CREATE TABLE pgtrickle.pgt_refresh_groups (
    group_id    bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    group_name  text        NOT NULL UNIQUE,
    member_oids oid[]       NOT NULL,
    isolation   text        NOT NULL DEFAULT 'read_committed',
    created_at  timestamptz NOT NULL DEFAULT pg_catalog.now(),

    CONSTRAINT pgt_refresh_groups_have_members CHECK (pg_catalog.cardinality(member_oids) >= 2),
    CONSTRAINT pgt_refresh_groups_isolation_is_known
        CHECK (isolation IN ('read_committed', 'repeatable_read'))
);

COMMENT ON TABLE pgtrickle.pgt_refresh_groups IS
    'Stream tables that are refreshed at one moment and committed together (repeatable_read).';

-- Requests

CREATE TABLE pgtrickle.pgt_requests (
    request_id   bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    verb         text        NOT NULL,
    arguments    jsonb       NOT NULL,
    -- Nobody may write this column and caller_oid: whoever inserts the row is who asks.
    caller       text        NOT NULL DEFAULT current_user,
    schemas      text[]      NOT NULL DEFAULT current_schemas(false),
    requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at      timestamptz,
    cancelled_at timestamptz,
    status       text        NOT NULL DEFAULT 'QUEUED',
    server       text,
    started_at   timestamptz,
    ended_at     timestamptz,
    notices      text[]      NOT NULL DEFAULT '{}',
    result       jsonb,
    error        jsonb,
    caller_oid   oid         NOT NULL DEFAULT
        pg_catalog.to_regrole(pg_catalog.quote_ident(current_user))::pg_catalog.oid,

    CONSTRAINT pgt_requests_status_known
        CHECK (status IN ('QUEUED', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED')),
    CONSTRAINT pgt_requests_failed_has_error CHECK (status <> 'FAILED' OR error IS NOT NULL),
    CONSTRAINT pgt_requests_arguments_have_names CHECK (jsonb_typeof(arguments) = 'object'),
    CONSTRAINT pgt_requests_verb_short CHECK (octet_length(verb) <= 63),
    CONSTRAINT pgt_requests_arguments_short CHECK (octet_length(arguments::text) <= 1048576),
    CONSTRAINT pgt_requests_arguments_few CHECK (
        jsonb_typeof(arguments) <> 'object'
        OR jsonb_array_length(jsonb_path_query_array(arguments, '$.keyvalue()')) <= 64),
    CONSTRAINT pgt_requests_schemas_few CHECK (cardinality(schemas) <= 200)
);

-- The daemon looks here every moment; ended requests are the many.
CREATE INDEX pgt_requests_open ON pgtrickle.pgt_requests (request_id)
    WHERE status IN ('QUEUED', 'RUNNING');

-- Whose turn it is, and how many a caller has waiting.
CREATE INDEX pgt_requests_by_caller ON pgtrickle.pgt_requests (caller_oid, started_at);

CREATE INDEX pgt_requests_waiting ON pgtrickle.pgt_requests (caller_oid) WHERE status = 'QUEUED';

COMMENT ON TABLE pgtrickle.pgt_requests IS
    'What sessions ask the daemon to do, and what came of it.';
COMMENT ON COLUMN pgtrickle.pgt_requests.schemas IS
    'The search path of the caller: where names without a schema are looked for.';
COMMENT ON COLUMN pgtrickle.pgt_requests.seen_at IS
    'When the caller began to wait for the answer; NULL: nobody waits for it.';
COMMENT ON COLUMN pgtrickle.pgt_requests.cancelled_at IS 'No longer written: see pgt_request_signs.';
COMMENT ON COLUMN pgtrickle.pgt_requests.caller_oid IS
    'The role that asks; nobody may write this column. caller is the name that it had.';

ALTER TABLE pgtrickle.pgt_requests ENABLE ROW LEVEL SECURITY;

-- What callers write while they wait.  Not in pgt_requests: who may update a row may lock it, and
-- the daemon would wait for him.  It only reads these.
CREATE TABLE pgtrickle.pgt_request_signs (
    request_id   bigint PRIMARY KEY,
    seen_at      timestamptz,
    cancelled_at timestamptz
);

COMMENT ON TABLE pgtrickle.pgt_request_signs IS
    'When callers last looked for an answer, and whether they took their requests back.';

ALTER TABLE pgtrickle.pgt_request_signs ENABLE ROW LEVEL SECURITY;

CREATE TABLE pgtrickle.pgt_request_servers (
    server  text        PRIMARY KEY,
    beat_at timestamptz NOT NULL
);

COMMENT ON TABLE pgtrickle.pgt_request_servers IS
    'The daemons that execute requests, and when each last showed a sign of life.';

-- What is raised by whoever was called, because each level between him and psql adds lines to the
-- context of an error.  There is always a hint.
CREATE TYPE pgtrickle.pgt_failure AS (code text, message text, detail text, hint text);

COMMENT ON TYPE pgtrickle.pgt_failure IS
    'The error that a procedure is to raise; without a code there is none.';

-- Subscriptions

CREATE TABLE pgtrickle.pgt_subscriptions (
    pgt_id             bigint      NOT NULL
                                   REFERENCES pgtrickle.pgt_stream_tables ON DELETE CASCADE,
    channel            text        NOT NULL,
    created_at         timestamptz NOT NULL DEFAULT now(),
    created_by         text        NOT NULL,
    notified_at        timestamptz,
    pending_refresh_id bigint,
    pending_inserted   bigint      NOT NULL DEFAULT 0,
    pending_deleted    bigint      NOT NULL DEFAULT 0,
    subscriber_oid     oid         NOT NULL,

    PRIMARY KEY (pgt_id, channel),
    CONSTRAINT pgt_subscriptions_channel_fits CHECK (octet_length(channel) BETWEEN 1 AND 63),
    CONSTRAINT pgt_subscriptions_pending_not_negative
        CHECK (pending_inserted >= 0 AND pending_deleted >= 0),
    CONSTRAINT pgt_subscriptions_channel_not_ours CHECK (
        channel !~ '[[:cntrl:]]' AND NOT starts_with(channel, 'pg_trickle'))
);

CREATE INDEX pgt_subscriptions_pending ON pgtrickle.pgt_subscriptions (notified_at)
    WHERE pending_refresh_id IS NOT NULL;

COMMENT ON TABLE pgtrickle.pgt_subscriptions IS
    'Channels that are told of each refresh that changed a stream table.';
COMMENT ON COLUMN pgtrickle.pgt_subscriptions.pending_refresh_id IS
    'The latest refresh that has not been told yet; the counts are of all since the last notice.';
COMMENT ON COLUMN pgtrickle.pgt_subscriptions.subscriber_oid IS
    'The role whose subscription it is; created_by is the name that it had.';

ALTER TABLE pgtrickle.pgt_subscriptions ENABLE ROW LEVEL SECURITY;

-- Access and settings

-- Filled by sql_api/97_access.sql.
CREATE TABLE pgtrickle.pgt_grants (
    level     text NOT NULL,
    privilege text NOT NULL,
    target    text NOT NULL,

    PRIMARY KEY (level, target),
    CONSTRAINT pgt_grants_level_known CHECK (level IN ('reader', 'operator'))
);

COMMENT ON TABLE pgtrickle.pgt_grants IS
    'What each level of access comes to; an operator may do what a reader may.';

-- migrate() writes down which settings the package knows; only the value is the user's.
CREATE TABLE pgtrickle.pgt_settings (
    name          text   PRIMARY KEY,
    value         text,
    type          text   NOT NULL,
    default_value text   NOT NULL,
    unit          text   NOT NULL,
    low           double precision,
    high          double precision,
    choices       text[] NOT NULL,
    doc           text   NOT NULL,
    updated_at    timestamptz,
    updated_by    text,

    CONSTRAINT pgt_settings_type_known CHECK (type IN ('bool', 'int', 'float', 'str')),
    -- A password in the table would be in every dump: it is named, by ${ENV:NAME}.
    CONSTRAINT pgt_settings_hold_no_password
        CHECK (name <> 'ducklake_catalog_dsn' OR value IS NULL OR NOT (
                   value ~* 'password\s*=\s*''?(?!\$\{ENV:)[^\s'']'
                OR value ~ '://[^/@:]*:(?!\$\{ENV:)[^/@]+@')),
    CONSTRAINT pgt_settings_value_short CHECK (octet_length(value) <= 8192)
);

COMMENT ON TABLE pgtrickle.pgt_settings IS
    'Every setting that processes know, and the value that was given for this database.';

-- Lakes

CREATE TABLE pgtrickle.pgt_ducklake_sinks (
    pgt_id         bigint      PRIMARY KEY
                               REFERENCES pgtrickle.pgt_stream_tables (pgt_id) ON DELETE CASCADE,
    catalog_schema text        NOT NULL,
    lake_schema    text        NOT NULL,
    lake_table     text        NOT NULL,
    sink_path      text,
    table_id       bigint,
    view_id        bigint,
    snapshot_id    bigint,
    home           text,
    needs_load     boolean     NOT NULL DEFAULT true,
    maintained_at  timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    partition_by   text,
    catalog_dsn    text        NOT NULL DEFAULT '',
    data_path      text,

    CONSTRAINT pgt_ducklake_sinks_one_writer_a_lake_table
        UNIQUE (catalog_dsn, catalog_schema, lake_schema, lake_table)
);

COMMENT ON TABLE pgtrickle.pgt_ducklake_sinks IS
    'Which stream tables are copied into which tables of a DuckLake catalog.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_sinks.snapshot_id IS
    'Up to this snapshot of the lake, nobody else has written to the lake table.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_sinks.home IS
    'Cluster, database and file of the stream table at the last delivery; in another file, rows have'
    ' other places.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_sinks.needs_load IS
    'Whether the next delivery writes all rows instead of the difference.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_sinks.maintained_at IS
    'When a daemon last began to merge the small files of the copy and to remove what nobody needs.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_sinks.partition_by IS
    'The partition keys of the lake table as the user listed them; NULL: it has none.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_sinks.catalog_dsn IS
    'In which database the catalog is, as the setting ducklake_catalog_dsn said it, with'
    ' ${ENV:NAME} in place of secrets; empty: in this one.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_sinks.data_path IS
    'The data path of the lake when the sink was turned on, below which its files lie; NULL: it is'
    ' taken down with the next delivery.';

CREATE TABLE pgtrickle.pgt_ducklake_sink_delivery (
    delivery_id      bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    stream_table_id  bigint      NOT NULL
                                 REFERENCES pgtrickle.pgt_stream_tables (pgt_id) ON DELETE CASCADE,
    refresh_id       bigint,
    status           text        NOT NULL,
    attempt_count    integer     NOT NULL DEFAULT 0,
    bytes_written    bigint      NOT NULL DEFAULT 0,
    rows_written     bigint      NOT NULL DEFAULT 0,
    rows_deleted     bigint      NOT NULL DEFAULT 0,
    snapshot_id      bigint,
    started_at       timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    finished_at      timestamptz,
    next_attempt_at  timestamptz,
    last_error       text,
    failing_since    timestamptz,
    last_hint        text,
    lasting_failures integer     NOT NULL DEFAULT 0,

    CONSTRAINT pgt_ducklake_sink_delivery_status_is_known CHECK (status IN
        ('PENDING', 'WRITING', 'DELIVERED', 'FAILED_RETRYABLE', 'FAILED_PERMANENT'))
);

CREATE INDEX pgt_ducklake_sink_delivery_by_table
    ON pgtrickle.pgt_ducklake_sink_delivery (stream_table_id, started_at DESC);

CREATE UNIQUE INDEX pgt_ducklake_sink_delivery_one_open_a_table
    ON pgtrickle.pgt_ducklake_sink_delivery (stream_table_id) WHERE status <> 'DELIVERED';

COMMENT ON TABLE pgtrickle.pgt_ducklake_sink_delivery IS
    'Each delivery to the lake; one that failed stays open, and the next delivers for it too.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_sink_delivery.failing_since IS
    'When the first attempt failed.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_sink_delivery.last_hint IS
    'What to do about the last error.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_sink_delivery.lasting_failures IS
    'How many of the last attempts failed for a reason that does not pass by itself.';

CREATE TABLE pgtrickle.pgt_ducklake_provenance (
    provenance_id        bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    stream_table_oid     oid         NOT NULL,
    stream_table_name    text        NOT NULL,
    ducklake_snapshot_id bigint      NOT NULL,
    refresh_id           bigint,
    frontier             jsonb,
    delta_row_count      bigint      NOT NULL,
    written_at           timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);

COMMENT ON TABLE pgtrickle.pgt_ducklake_provenance IS
    'Which refresh of which stream table each snapshot of the lake came from.';

CREATE TABLE pgtrickle.pgt_ducklake_intents (
    pgt_id        bigint      PRIMARY KEY
                              REFERENCES pgtrickle.pgt_ducklake_sinks (pgt_id) ON DELETE CASCADE,
    token         text        NOT NULL,
    snapshot_id   bigint      NOT NULL,
    first_file_id bigint      NOT NULL,
    paths         text[]      NOT NULL,
    loads         boolean     NOT NULL,
    before        jsonb       NOT NULL,
    delivery_id   bigint,
    refresh_id    bigint,
    frontier      jsonb,
    rows_written  bigint      NOT NULL DEFAULT 0,
    rows_deleted  bigint      NOT NULL DEFAULT 0,
    bytes_written bigint      NOT NULL DEFAULT 0,
    made_at       timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);

COMMENT ON TABLE pgtrickle.pgt_ducklake_intents IS
    'A snapshot of a lake in another database that was about to be committed there, until it is'
    ' known whether it was.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_intents.token IS
    'Stands in the extra information of the snapshot, if that was committed.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_intents.first_file_id IS
    'Files of the lake from this id on are its own; if it was not committed, they are others''.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_intents.paths IS
    'The files that it was to bring, which go if it was not committed.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_intents.before IS
    'How far the sink was before.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_intents.delivery_id IS
    'The delivery that it belongs to; NULL: it merges files.';

CREATE TABLE pgtrickle.pgt_ducklake_sources (
    source_id         bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    landing_schema    text        NOT NULL,
    landing_name      text        NOT NULL,
    catalog_schema    text        NOT NULL,
    lake_schema       text        NOT NULL,
    lake_table        text        NOT NULL,
    table_id          bigint      NOT NULL,
    table_uuid        text        NOT NULL,
    columns           jsonb       NOT NULL,
    compaction_policy text        NOT NULL,
    snapshot_id       bigint      NOT NULL,
    followed_at       timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    failed_at         timestamptz,
    last_error        text,
    data_path         text,

    CONSTRAINT pgt_ducklake_sources_one_a_name UNIQUE (landing_schema, landing_name),
    CONSTRAINT pgt_ducklake_sources_policy_is_known
        CHECK (compaction_policy IN ('fallback', 'error'))
);

COMMENT ON TABLE pgtrickle.pgt_ducklake_sources IS
    'Which tables of a DuckLake catalog in this database are followed, and how far; their rows are in'
    ' the table landed_<source_id> of pgtrickle_state.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_sources.landing_name IS
    'The view under which queries read the rows.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_sources.columns IS
    'The columns that are followed: id, name and kind of each, as the catalog of the lake has them.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_sources.snapshot_id IS
    'The snapshot of the lake whose rows are held; it changes in one transaction with them.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_sources.data_path IS
    'The data path of the lake when the table was attached, below which its files lie; NULL: it is'
    ' taken down when it is followed next.';

CREATE TABLE pgtrickle.pgt_ducklake_moves (
    catalog_dsn text        NOT NULL,
    from_schema text        NOT NULL,
    to_schema   text        NOT NULL,
    moved_at    timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),

    PRIMARY KEY (catalog_dsn, from_schema),
    CONSTRAINT pgt_ducklake_moves_lead_away CHECK (from_schema <> to_schema)
);

COMMENT ON TABLE pgtrickle.pgt_ducklake_moves IS
    'Where the catalog of a lake went, for processes whose settings still name where it was.';

-- Nothing is open to all

REVOKE ALL ON ALL TABLES IN SCHEMA pgtrickle, pgtrickle_changes FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA pgtrickle, pgtrickle_changes FROM PUBLIC;
