-- 0001 · pre · create the schemas, the version table, stream tables and their dependencies
--
-- Why:   a stream table and what it reads must be on record before anything can maintain it.
-- Reads: nothing exists before this version.
-- Locks: CREATE only.
-- Undo:  DROP SCHEMA pgtrickle, pgtrickle_changes, pgtrickle_state CASCADE;

-- A database owner may have created the schemas for a role that may not; migrate() has checked
-- that whoever owns an existing one is the current role.  IF NOT EXISTS would still ask for
-- the right to create.
DO $$
BEGIN
    IF to_regnamespace('pgtrickle') IS NULL THEN
        CREATE SCHEMA pgtrickle;
    END IF;
    IF to_regnamespace('pgtrickle_changes') IS NULL THEN
        CREATE SCHEMA pgtrickle_changes;
    END IF;
    IF to_regnamespace('pgtrickle_state') IS NULL THEN
        CREATE SCHEMA pgtrickle_state;
    END IF;
END
$$;

COMMENT ON SCHEMA pgtrickle IS 'The catalog of stream tables.';
COMMENT ON SCHEMA pgtrickle_changes IS 'Captured changes of source tables.';
COMMENT ON SCHEMA pgtrickle_state IS 'Accumulators of stateful operators.';

CREATE TABLE pgtrickle.pgt_schema_version (
    version     integer     PRIMARY KEY,
    applied_at  timestamptz NOT NULL DEFAULT now(),
    description text        NOT NULL,
    sha256      text        NOT NULL,

    CONSTRAINT pgt_schema_version_counts_from_one CHECK (version >= 1)
);

COMMENT ON TABLE pgtrickle.pgt_schema_version IS
    'Which migrations the catalog has had, and the hash of each as it was applied.';

CREATE TABLE pgtrickle.pgt_stream_tables (
    pgt_id                 bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pgt_relid              oid         NOT NULL,
    pgt_schema             text        NOT NULL,
    pgt_name               text        NOT NULL,
    defining_query         text        NOT NULL,
    original_query         text        NOT NULL,
    query_search_path      text        NOT NULL,
    schedule               text        NOT NULL,
    refresh_mode           text        NOT NULL,
    effective_refresh_mode text        NOT NULL,
    downgrade_reason       text,
    status                 text        NOT NULL DEFAULT 'INITIALIZING',
    is_populated           boolean     NOT NULL DEFAULT false,
    needs_reinit           boolean     NOT NULL DEFAULT false,
    frontier               jsonb,
    data_timestamp         timestamptz,
    last_refresh_at        timestamptz,
    consecutive_errors     integer     NOT NULL DEFAULT 0,
    last_error_message     text,
    last_error_at          timestamptz,
    plan                   jsonb,
    owner_role             text        NOT NULL DEFAULT current_user,
    created_at             timestamptz NOT NULL DEFAULT now(),
    updated_at             timestamptz NOT NULL DEFAULT now(),

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
    CONSTRAINT pgt_stream_tables_errors_not_negative CHECK (consecutive_errors >= 0)
);

COMMENT ON TABLE pgtrickle.pgt_stream_tables IS
    'Every stream table: its query, how it is maintained, and the frontier it has reached.';

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
