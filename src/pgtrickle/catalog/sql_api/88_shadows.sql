-- Shadow builds: how far they are

-- As a refresh counts them: an updated row once.  NULL without a first load, or in another database.
CREATE OR REPLACE FUNCTION pgtrickle.lag_of_shadow(shadow bigint)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    one     record;
    changes bigint;
    lag     bigint := 0;
BEGIN
    FOR one IN
        SELECT CASE WHEN t.buffer_name IS NOT NULL  -- NULL: its query reads nothing that changes
                    THEN to_regclass(format('pgtrickle_changes.%I', t.buffer_name)) END AS buffer,
               (s.frontier #>> '{pg,snapshot}')::pg_snapshot AS frontier
          FROM pgtrickle.pgt_stream_tables AS s
          LEFT JOIN pgtrickle.pgt_dependencies AS d
          JOIN pgtrickle.pgt_change_tracking AS t USING (source_relid) ON d.pgt_id = s.pgt_id
         WHERE s.pgt_id = shadow
    LOOP
        IF one.frontier IS NULL THEN
            RETURN NULL;
        ELSIF one.buffer IS NOT NULL THEN
            -- NOT pg_visible_in_snapshot() calls none older than xmin, which an index finds.
            EXECUTE format(
                'SELECT greatest(count(*) FILTER (WHERE __weight > 0),'
                '                count(*) FILTER (WHERE __weight < 0)) FROM %s'
                ' WHERE __xid >= pg_snapshot_xmin($1) AND NOT pg_visible_in_snapshot(__xid, $1)',
                one.buffer) INTO changes USING one.frontier;
            lag := lag + changes;
        END IF;
    END LOOP;
    RETURN CASE WHEN FOUND THEN lag END;
END
$$;

COMMENT ON FUNCTION pgtrickle.lag_of_shadow(bigint) IS
    'How many captured changes a shadow does not have yet; reads the change buffers to count them.';

CREATE OR REPLACE FUNCTION pgtrickle.view_evolution_status(
    name text, schemas name[] DEFAULT current_schemas(false))
RETURNS TABLE (stream_table text, state text, shadow_table_name text, rows_loaded bigint,
               lag_changes bigint, started_at timestamptz, converged boolean,
               estimated_ready_at timestamptz, last_error text, hold boolean, refreshes integer,
               ended_at timestamptz, query text)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('%I.%I', s.pgt_schema, s.pgt_name), b.state,
           CASE WHEN b.shadow_id IS NOT NULL THEN b.shadow_name END,
           greatest(b.rows_loaded, p.rows_staged),
           pgtrickle.lag_of_shadow(b.shadow_id), b.started_at,
           b.state IN ('ready', 'promoted'),
           -- Nothing is known of the first load but how long the old query takes.
           CASE WHEN b.state <> 'loading' THEN b.estimated_ready_at ELSE (
               SELECT e.ready_at
                 FROM pgtrickle.pgt_refresh_history AS h,
                      LATERAL (SELECT b.started_at + (h.end_time - h.start_time) AS ready_at) AS e
                WHERE e.ready_at > clock_timestamp() AND h.pgt_id = s.pgt_id AND h.status = 'COMPLETED'
                  AND h.action IN ('FULL', 'REINITIALIZE')
                ORDER BY h.start_time DESC LIMIT 1) END,
           b.last_error, b.hold, b.rounds, b.ended_at, b.query
      FROM pgtrickle.pgt_shadow_builds AS b
      JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = b.pgt_id
      LEFT JOIN pgtrickle.pgt_refresh_progress AS p
        ON p.pgt_id = b.shadow_id AND b.state = 'loading'
     WHERE b.pgt_id = pgtrickle.find_stream_table($1, $2)
$$;

COMMENT ON FUNCTION pgtrickle.view_evolution_status(text, name[]) IS
    'How far the latest shadow build of a stream table is; no row if there was none.';
