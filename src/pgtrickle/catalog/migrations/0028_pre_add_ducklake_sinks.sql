-- 0028 · pre · add DuckLake sinks
--
-- Why:   a stream table may have a copy in a lake, and what has reached it must be on record.
-- Reads: nothing before this version reads or writes the new tables.
-- Locks: CREATE TABLE; the foreign keys take SHARE ROW EXCLUSIVE on pgt_stream_tables, briefly.
-- Undo:  DROP FUNCTION pgtrickle.ducklake_sink_status();
--        DROP TABLE pgtrickle.pgt_ducklake_provenance, pgtrickle.pgt_ducklake_sink_delivery,
--        pgtrickle.pgt_ducklake_sinks;

CREATE TABLE pgtrickle.pgt_ducklake_sinks (
    pgt_id         bigint  PRIMARY KEY
                           REFERENCES pgtrickle.pgt_stream_tables (pgt_id) ON DELETE CASCADE,
    catalog_schema text    NOT NULL,
    lake_schema    text    NOT NULL,
    lake_table     text    NOT NULL,
    sink_path      text,
    table_id       bigint,
    view_id        bigint,
    snapshot_id    bigint,
    home           text,
    needs_load     boolean NOT NULL DEFAULT true,
    maintained_at  timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),

    CONSTRAINT pgt_ducklake_sinks_one_writer_a_lake_table
        UNIQUE (catalog_schema, lake_schema, lake_table)
);

COMMENT ON TABLE pgtrickle.pgt_ducklake_sinks IS
    'Which stream tables are copied into which tables of a DuckLake catalog in this database.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_sinks.snapshot_id IS
    'Up to this snapshot of the lake, nobody else has written to the lake table.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_sinks.home IS
    'Cluster, database and file of the stream table at the last delivery; in another file, rows have'
    ' other places.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_sinks.needs_load IS
    'Whether the next delivery writes all rows instead of the difference.';

COMMENT ON COLUMN pgtrickle.pgt_ducklake_sinks.maintained_at IS
    'When a daemon last began to merge the small files of the copy and to remove what nobody needs.';

CREATE TABLE pgtrickle.pgt_ducklake_sink_delivery (
    delivery_id     bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    stream_table_id bigint      NOT NULL
                                REFERENCES pgtrickle.pgt_stream_tables (pgt_id) ON DELETE CASCADE,
    refresh_id      bigint,
    status          text        NOT NULL,
    attempt_count   integer     NOT NULL DEFAULT 0,
    bytes_written   bigint      NOT NULL DEFAULT 0,
    rows_written    bigint      NOT NULL DEFAULT 0,
    rows_deleted    bigint      NOT NULL DEFAULT 0,
    snapshot_id     bigint,
    started_at      timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    finished_at     timestamptz,
    next_attempt_at timestamptz,
    last_error      text,

    CONSTRAINT pgt_ducklake_sink_delivery_status_is_known CHECK (status IN
        ('PENDING', 'WRITING', 'DELIVERED', 'FAILED_RETRYABLE', 'FAILED_PERMANENT'))
);

CREATE INDEX pgt_ducklake_sink_delivery_by_table
    ON pgtrickle.pgt_ducklake_sink_delivery (stream_table_id, started_at DESC);
CREATE UNIQUE INDEX pgt_ducklake_sink_delivery_one_open_a_table
    ON pgtrickle.pgt_ducklake_sink_delivery (stream_table_id) WHERE status <> 'DELIVERED';

COMMENT ON TABLE pgtrickle.pgt_ducklake_sink_delivery IS
    'Each delivery to the lake; one that failed stays open, and the next delivers for it too.';

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

CREATE FUNCTION pgtrickle.ducklake_sink_status()
RETURNS TABLE (stream_table text, lake_table text, status text, attempt_count integer,
               snapshot_id bigint, last_delivered_at timestamptz, next_attempt_at timestamptz,
               deliveries bigint, rows_written bigint, rows_deleted bigint,
               bytes_written bigint, last_error text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT format('%I.%I', t.pgt_schema, t.pgt_name), format('%I.%I', s.lake_schema, s.lake_table),
           COALESCE(o.status, CASE WHEN d.deliveries > 0 THEN 'DELIVERED' ELSE 'PENDING' END),
           COALESCE(o.attempt_count, 0), d.snapshot_id, d.last_delivered_at, o.next_attempt_at,
           d.deliveries, d.rows_written, d.rows_deleted, d.bytes_written, o.last_error
      FROM pgtrickle.pgt_ducklake_sinks AS s
      JOIN pgtrickle.pgt_stream_tables AS t USING (pgt_id)
      LEFT JOIN pgtrickle.pgt_ducklake_sink_delivery AS o
        ON o.stream_table_id = s.pgt_id AND o.status <> 'DELIVERED'
     CROSS JOIN LATERAL (
               SELECT max(finished_at) AS last_delivered_at, count(*) AS deliveries,
                      max(p.snapshot_id) AS snapshot_id,
                      COALESCE(sum(rows_written), 0)::bigint AS rows_written,
                      COALESCE(sum(rows_deleted), 0)::bigint AS rows_deleted,
                      COALESCE(sum(bytes_written), 0)::bigint AS bytes_written
                 FROM pgtrickle.pgt_ducklake_sink_delivery AS p
                WHERE p.stream_table_id = s.pgt_id AND p.status = 'DELIVERED') AS d
     ORDER BY 1;
END;

COMMENT ON FUNCTION pgtrickle.ducklake_sink_status() IS
    'Each sink: whether the lake is up to date, what has been delivered, and what went wrong last.';

INSERT INTO pgtrickle.pgt_grants (level, privilege, target)
VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.ducklake_sink_status()');

REVOKE ALL ON FUNCTION pgtrickle.ducklake_sink_status() FROM PUBLIC;
