-- 0036 · pre · attach lake tables
--
-- Why:   stream tables read tables of a DuckLake; which ones, and how far, must be on record.
-- Reads: versions before this one neither read nor write the new table.
-- Locks: CREATE TABLE; functions are replaced.
-- Undo:  DROP FUNCTION pgtrickle.ducklake_sources(), pgtrickle.refuse_lake_write() CASCADE;
--        DROP PROCEDURE pgtrickle.attach_ducklake_table(text, text, text[], text, text, jsonb),
--        pgtrickle.detach_ducklake_table(text, jsonb);
--        DROP TABLE pgtrickle.pgt_ducklake_sources; restore list_sources of 0022.

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

-- As for stream tables: who follows the lake says which table it writes to.
CREATE FUNCTION pgtrickle.refuse_lake_write()
RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('pg_trickle.refreshing', true) IS DISTINCT FROM TG_RELID::text THEN
        RAISE EXCEPTION '"%.%" holds the rows of a lake table: % is refused',
                        TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_OP
              USING ERRCODE = 'object_not_in_prerequisite_state',
                    HINT = 'Write to the table in the lake; its changes are followed.';
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION pgtrickle.refuse_lake_write() IS 'The guard of rows that come from the lake.';

CREATE FUNCTION pgtrickle.ducklake_sources()
RETURNS TABLE (landing text, lake_table text, catalog_schema text, columns text[],
               compaction_policy text, snapshot_id bigint, followed_at timestamptz,
               last_error text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT format('%I.%I', s.landing_schema, s.landing_name),
           format('%I.%I', s.lake_schema, s.lake_table), s.catalog_schema,
           ARRAY(SELECT c.value ->> 'name'
                   FROM jsonb_array_elements(s.columns) WITH ORDINALITY AS c (value, place)
                  ORDER BY c.place),
           s.compaction_policy, s.snapshot_id, s.followed_at, s.last_error
      FROM pgtrickle.pgt_ducklake_sources AS s
     ORDER BY 1;
END;

COMMENT ON FUNCTION pgtrickle.ducklake_sources() IS
    'Each lake table that is followed: under which name, up to which snapshot, what went wrong last.';

-- Rows of the lake are read through a view; what is shown is the view, and how it gets its rows.
CREATE OR REPLACE FUNCTION pgtrickle.list_sources(
    name text, schemas name[] DEFAULT current_schemas(false))
RETURNS TABLE (source_table text, source_oid oid, source_type text, cdc_mode text,
               columns_used text[])
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('%I.%I', COALESCE(l.landing_schema, d.source_schema),
                  COALESCE(l.landing_name, d.source_name)),
           d.source_relid, d.source_type,
           CASE WHEN l.source_id IS NULL THEN t.cdc_mode ELSE 'DUCKLAKE_CHANGE_FEED' END,
           d.columns_used
      FROM pgtrickle.pgt_dependencies AS d
      LEFT JOIN pgtrickle.pgt_change_tracking AS t USING (source_relid)
      LEFT JOIN pgtrickle.pgt_ducklake_sources AS l
        ON d.source_schema = 'pgtrickle_state' AND d.source_name = format('landed_%s', l.source_id)
     WHERE d.pgt_id = pgtrickle.find_stream_table($1, $2)
       AND NOT (d.source_type = 'VIEW' AND EXISTS (
                SELECT FROM pgtrickle.pgt_ducklake_sources AS v
                 WHERE v.landing_schema = d.source_schema AND v.landing_name = d.source_name))
     ORDER BY 1
$$;

CREATE PROCEDURE pgtrickle.attach_ducklake_table(
    name pg_catalog.text,
    lake_table pg_catalog.text,
    columns pg_catalog.text[] DEFAULT NULL,
    catalog_schema pg_catalog.text DEFAULT NULL,
    compaction_policy pg_catalog.text DEFAULT NULL,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
BEGIN
    CALL pgtrickle.perform_request('attach_ducklake_table', pg_catalog.jsonb_build_object(
        'name', attach_ducklake_table.name,
        'lake_table', attach_ducklake_table.lake_table,
        'columns', attach_ducklake_table.columns,
        'catalog_schema', attach_ducklake_table.catalog_schema,
        'compaction_policy', attach_ducklake_table.compaction_policy), result);
END
$$;

COMMENT ON PROCEDURE pgtrickle.attach_ducklake_table(text, text, text[], text, text, jsonb) IS
    'Let PostgreSQL follow a table of the lake, under this name, so that stream tables can read it.';

CREATE PROCEDURE pgtrickle.detach_ducklake_table(
    name pg_catalog.text,
    INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
BEGIN
    CALL pgtrickle.perform_request('detach_ducklake_table', pg_catalog.jsonb_build_object(
        'name', detach_ducklake_table.name), result);
END
$$;

COMMENT ON PROCEDURE pgtrickle.detach_ducklake_table(text, jsonb) IS
    'Follow a table of the lake no longer, and drop its rows; no stream table may read it.';

INSERT INTO pgtrickle.pgt_grants (level, privilege, target)
VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.ducklake_sources()'),
       ('operator', 'EXECUTE',
        'PROCEDURE pgtrickle.attach_ducklake_table(text,text,text[],text,text,jsonb)'),
       ('operator', 'EXECUTE', 'PROCEDURE pgtrickle.detach_ducklake_table(text,jsonb)');

REVOKE ALL ON FUNCTION pgtrickle.ducklake_sources(), pgtrickle.refuse_lake_write() FROM PUBLIC;
REVOKE ALL ON PROCEDURE
    pgtrickle.attach_ducklake_table(text, text, text[], text, text, jsonb),
    pgtrickle.detach_ducklake_table(text, jsonb) FROM PUBLIC;
