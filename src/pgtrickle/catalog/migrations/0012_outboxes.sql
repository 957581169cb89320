-- 0012 · outboxes
--
-- Why:   the changes of a stream table can be followed: every refresh appends its own to an outbox,
--        and consumer groups read it (docs/change-streams.md).
-- Reads: nothing that exists.
-- Locks: ACCESS EXCLUSIVE on pgt_stream_tables, for a moment: it gets a column with a default that
--        is not written into its rows.
-- Undo:  DROP TABLE pgtrickle.pgt_consumer_leases, pgtrickle.pgt_consumers,
--        pgtrickle.pgt_consumer_offsets, pgtrickle.pgt_consumer_groups, pgtrickle.pgt_outbox_pending,
--        pgtrickle.pgt_outbox_rows, pgtrickle.pgt_outbox_entries, pgtrickle.pgt_outbox_schemas,
--        pgtrickle.pgt_outbox_config CASCADE; ALTER TABLE pgtrickle.pgt_stream_tables DROP COLUMN
--        has_outbox; then migrate() of the version before.

ALTER TABLE pgtrickle.pgt_stream_tables ADD COLUMN has_outbox boolean NOT NULL DEFAULT false;

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.has_outbox IS
    'Whether each refresh appends its changes to an outbox.';

CREATE TABLE pgtrickle.pgt_outbox_config (
    pgt_id                bigint           PRIMARY KEY
                                           REFERENCES pgtrickle.pgt_stream_tables (pgt_id)
                                           ON DELETE CASCADE,
    started               boolean          NOT NULL DEFAULT false,
    retention_hours       double precision NOT NULL,
    inline_threshold_rows integer          NOT NULL,
    last_id               bigint           NOT NULL DEFAULT 0,
    floor_id              bigint           NOT NULL DEFAULT 0,
    schema_version        integer          NOT NULL DEFAULT 0,
    enabled_at            timestamptz      NOT NULL DEFAULT pg_catalog.clock_timestamp(),

    CONSTRAINT pgt_outbox_config_retention_known
        CHECK (retention_hours >= 0 AND retention_hours <= 876000),
    CONSTRAINT pgt_outbox_config_threshold_known
        CHECK (inline_threshold_rows >= 0 AND inline_threshold_rows <= 1000000)
) WITH (fillfactor = 50);

COMMENT ON TABLE pgtrickle.pgt_outbox_config IS
    'The outboxes: what each keeps, and its last entry.  The row stays when an outbox is disabled, so that'
    ' no number is given twice.';
COMMENT ON COLUMN pgtrickle.pgt_outbox_config.floor_id IS
    'The last entry of the time before it was disabled: nobody sees these any more.';
COMMENT ON COLUMN pgtrickle.pgt_outbox_config.started IS
    'Whether changes are appended; that of an IMMEDIATE stream table begins with its next refresh.';

-- Without foreign keys: what an outbox leaves behind is deleted in small batches.
CREATE TABLE pgtrickle.pgt_outbox_schemas (
    pgt_id         bigint  NOT NULL,
    schema_version integer NOT NULL,
    columns        jsonb   NOT NULL,
    key_columns    text[],

    PRIMARY KEY (pgt_id, schema_version)
);

COMMENT ON TABLE pgtrickle.pgt_outbox_schemas IS
    'The columns and the unique key of the changes in an outbox, by version; without a key: NULL.';

CREATE TABLE pgtrickle.pgt_outbox_entries (
    pgt_id         bigint      NOT NULL,
    outbox_id      bigint      NOT NULL,
    refresh_id     bigint,
    action         text        NOT NULL,
    reset          boolean     NOT NULL,
    frontier       jsonb,
    data_timestamp timestamptz NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    schema_version integer     NOT NULL,
    inserted       bigint      NOT NULL,
    updated        bigint      NOT NULL,
    deleted        bigint      NOT NULL,
    changes        jsonb,

    PRIMARY KEY (pgt_id, outbox_id)
);
-- They are read soon and deleted: to compress them takes longer than to write them.
ALTER TABLE pgtrickle.pgt_outbox_entries ALTER COLUMN changes SET STORAGE EXTERNAL;

COMMENT ON TABLE pgtrickle.pgt_outbox_entries IS
    'What each refresh changed in a stream table with an outbox, in the order of the commits.';
COMMENT ON COLUMN pgtrickle.pgt_outbox_entries.reset IS
    'Whether the changes are the whole contents, which replace all earlier ones.';
COMMENT ON COLUMN pgtrickle.pgt_outbox_entries.changes IS
    'The changes in their order; NULL: they are many, and in pgt_outbox_rows.';

CREATE TABLE pgtrickle.pgt_outbox_rows (
    pgt_id     bigint NOT NULL,
    outbox_id  bigint NOT NULL,
    row_number bigint NOT NULL,
    before     jsonb,
    after      jsonb,

    PRIMARY KEY (pgt_id, outbox_id, row_number),
    CONSTRAINT pgt_outbox_rows_hold_a_row CHECK (before IS NOT NULL OR after IS NOT NULL)
);

COMMENT ON TABLE pgtrickle.pgt_outbox_rows IS
    'The changes of entries that have too many to hold them.';

CREATE TABLE pgtrickle.pgt_outbox_pending (
    pending_id     bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pgt_id         bigint      NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    schema_version integer     NOT NULL,
    inserted       bigint      NOT NULL,
    updated        bigint      NOT NULL,
    deleted        bigint      NOT NULL,
    changes        jsonb       NOT NULL
);
ALTER TABLE pgtrickle.pgt_outbox_pending ALTER COLUMN changes SET STORAGE EXTERNAL;
CREATE INDEX pgt_outbox_pending_by_stream_table ON pgtrickle.pgt_outbox_pending (pgt_id, pending_id);

COMMENT ON TABLE pgtrickle.pgt_outbox_pending IS
    'What statements changed in IMMEDIATE stream tables: entries whose numbers are not given yet.';

CREATE TABLE pgtrickle.pgt_consumer_groups (
    group_id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    group_name        text        NOT NULL UNIQUE,
    pgt_id            bigint      NOT NULL
                                  REFERENCES pgtrickle.pgt_outbox_config (pgt_id) ON DELETE CASCADE,
    owner_oid         oid         NOT NULL,
    auto_offset_reset text        NOT NULL,
    created_at        timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),

    CONSTRAINT pgt_consumer_groups_name_fits
        CHECK (pg_catalog.octet_length(group_name) BETWEEN 1 AND 200),
    CONSTRAINT pgt_consumer_groups_reset_known
        CHECK (auto_offset_reset IN ('latest', 'earliest'))
);
CREATE INDEX pgt_consumer_groups_by_outbox ON pgtrickle.pgt_consumer_groups (pgt_id);

COMMENT ON TABLE pgtrickle.pgt_consumer_groups IS
    'Groups of consumers that share the entries of one outbox.';

CREATE TABLE pgtrickle.pgt_consumer_offsets (
    group_id     bigint      PRIMARY KEY
                             REFERENCES pgtrickle.pgt_consumer_groups (group_id) ON DELETE CASCADE,
    committed_id bigint      NOT NULL,
    committed_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);

COMMENT ON TABLE pgtrickle.pgt_consumer_offsets IS
    'The last entry that a consumer group has dealt with; later ones are kept for it.';

CREATE TABLE pgtrickle.pgt_consumer_leases (
    group_id   bigint      PRIMARY KEY
                           REFERENCES pgtrickle.pgt_consumer_groups (group_id) ON DELETE CASCADE,
    consumer   text        NOT NULL,
    first_id   bigint      NOT NULL,
    last_id    bigint      NOT NULL,
    leased_at  timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    expires_at timestamptz NOT NULL
);

COMMENT ON TABLE pgtrickle.pgt_consumer_leases IS
    'Which consumer of a group deals with its next entries, and until when nobody else may.';

CREATE TABLE pgtrickle.pgt_consumers (
    group_id     bigint      NOT NULL
                             REFERENCES pgtrickle.pgt_consumer_groups (group_id) ON DELETE CASCADE,
    consumer     text        NOT NULL,
    heartbeat_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),

    PRIMARY KEY (group_id, consumer),
    CONSTRAINT pgt_consumers_name_fits CHECK (pg_catalog.octet_length(consumer) BETWEEN 1 AND 200)
);

COMMENT ON TABLE pgtrickle.pgt_consumers IS 'When each consumer of a group last said that it lives.';

-- Who may read the whole stream table may read its changes; a group is its creator's.
ALTER TABLE pgtrickle.pgt_outbox_schemas ENABLE ROW LEVEL SECURITY;
ALTER TABLE pgtrickle.pgt_outbox_entries ENABLE ROW LEVEL SECURITY;
ALTER TABLE pgtrickle.pgt_outbox_rows ENABLE ROW LEVEL SECURITY;
ALTER TABLE pgtrickle.pgt_outbox_pending ENABLE ROW LEVEL SECURITY;
ALTER TABLE pgtrickle.pgt_consumer_groups ENABLE ROW LEVEL SECURITY;
ALTER TABLE pgtrickle.pgt_consumer_offsets ENABLE ROW LEVEL SECURITY;
ALTER TABLE pgtrickle.pgt_consumer_leases ENABLE ROW LEVEL SECURITY;
ALTER TABLE pgtrickle.pgt_consumers ENABLE ROW LEVEL SECURITY;
