-- 0037 · pre · add lakes elsewhere
--
-- Why:   a lake's catalog may be in another database; what is committed there is noted here before.
-- Reads: versions before this one look here for every catalog: stop them before catalog_dsn is used.
-- Locks: ACCESS EXCLUSIVE on pgt_ducklake_sinks and pgt_settings, briefly; no row is rewritten.
-- Undo:  DROP TABLE pgtrickle.pgt_ducklake_intents; turn off the sinks that have a catalog_dsn;
--        ALTER TABLE pgtrickle.pgt_ducklake_sinks DROP COLUMN catalog_dsn, ADD CONSTRAINT
--        pgt_ducklake_sinks_one_writer_a_lake_table UNIQUE (catalog_schema, lake_schema, lake_table);
--        ALTER TABLE pgtrickle.pgt_settings DROP CONSTRAINT pgt_settings_hold_no_password;

ALTER TABLE pgtrickle.pgt_ducklake_sinks
    ADD COLUMN catalog_dsn text NOT NULL DEFAULT '',
    DROP CONSTRAINT pgt_ducklake_sinks_one_writer_a_lake_table,
    ADD CONSTRAINT pgt_ducklake_sinks_one_writer_a_lake_table
        UNIQUE (catalog_dsn, catalog_schema, lake_schema, lake_table);

COMMENT ON TABLE pgtrickle.pgt_ducklake_sinks IS
    'Which stream tables are copied into which tables of a DuckLake catalog.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_sinks.catalog_dsn IS
    'In which database the catalog is, as the setting ducklake_catalog_dsn said it, with'
    ' ${ENV:NAME} in place of secrets; empty: in this one.';

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

-- A password in the table would be in every dump: it is named, by ${ENV:NAME}.
ALTER TABLE pgtrickle.pgt_settings ADD CONSTRAINT pgt_settings_hold_no_password
    CHECK (name <> 'ducklake_catalog_dsn' OR value IS NULL OR NOT (
               value ~* 'password\s*=\s*''?(?!\$\{ENV:)[^\s'']'
            OR value ~ '://[^/@:]*:(?!\$\{ENV:)[^/@]+@'));
