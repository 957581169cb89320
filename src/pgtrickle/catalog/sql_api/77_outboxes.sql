-- Outboxes: what refreshes changed, and who may read it

-- Changes show whole rows, so a role needs what SELECT * needs, and no policy may hide rows from it.
CREATE OR REPLACE FUNCTION pgtrickle.list_followable()
RETURNS bigint[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(array_agg(s.pgt_id), '{}')
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.has_outbox AND has_table_privilege(s.pgt_relid, 'SELECT')
       AND NOT row_security_active(s.pgt_relid)
$$;

COMMENT ON FUNCTION pgtrickle.list_followable() IS
    'The stream tables with an outbox whose rows the role may all read.';

DROP POLICY IF EXISTS pgt_outbox_schemas_of_readers ON pgtrickle.pgt_outbox_schemas;
CREATE POLICY pgt_outbox_schemas_of_readers ON pgtrickle.pgt_outbox_schemas FOR SELECT
    USING (pgt_id = ANY ((SELECT pgtrickle.list_followable())::bigint[]));
DROP POLICY IF EXISTS pgt_outbox_entries_of_readers ON pgtrickle.pgt_outbox_entries;
CREATE POLICY pgt_outbox_entries_of_readers ON pgtrickle.pgt_outbox_entries FOR SELECT
    USING (pgt_id = ANY ((SELECT pgtrickle.list_followable())::bigint[]));
DROP POLICY IF EXISTS pgt_outbox_rows_of_readers ON pgtrickle.pgt_outbox_rows;
CREATE POLICY pgt_outbox_rows_of_readers ON pgtrickle.pgt_outbox_rows FOR SELECT
    USING (pgt_id = ANY ((SELECT pgtrickle.list_followable())::bigint[]));

CREATE OR REPLACE FUNCTION pgtrickle.first_outbox_id(stream_table bigint)
RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce((SELECT e.outbox_id FROM pgtrickle.pgt_outbox_entries AS e
                      WHERE e.pgt_id = c.pgt_id AND e.outbox_id > c.floor_id
                      ORDER BY e.outbox_id LIMIT 1), c.last_id + 1)
      FROM pgtrickle.pgt_outbox_config AS c WHERE c.pgt_id = stream_table
$$;

COMMENT ON FUNCTION pgtrickle.first_outbox_id(bigint) IS
    'The oldest entry that an outbox keeps; the next one if it keeps none.';

CREATE OR REPLACE FUNCTION pgtrickle.check_outbox(
    name text, schemas name[], from_id bigint DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    found   bigint := pgtrickle.find_stream_table(check_outbox.name, check_outbox.schemas);
    outbox  record;
    oldest  bigint;
BEGIN
    SELECT s.pgt_relid, s.has_outbox, c.started, c.last_id INTO outbox
      FROM pgtrickle.pgt_stream_tables AS s LEFT JOIN pgtrickle.pgt_outbox_config AS c USING (pgt_id)
     WHERE s.pgt_id = found;
    IF NOT outbox.has_outbox OR outbox.last_id IS NULL THEN
        RAISE EXCEPTION 'the stream table "%" has no outbox', check_outbox.name
              USING ERRCODE = 'ST801',
                    HINT = format('Give it one: CALL pgtrickle.enable_outbox(%L).', check_outbox.name);
    END IF;
    IF found <> ALL (pgtrickle.list_followable()) THEN
        RAISE EXCEPTION 'the role % may not read every row of the stream table "%"',
              current_user, check_outbox.name
              USING ERRCODE = 'ST303',
                    HINT = 'GRANT SELECT on it to the role; a policy that hides rows hides all changes.';
    END IF;
    IF NOT outbox.started THEN
        RAISE EXCEPTION 'the outbox of "%" begins with its next refresh', check_outbox.name
              USING ERRCODE = 'ST801', HINT = 'Refresh the stream table.';
    END IF;
    PERFORM pgtrickle.seal_outbox(found);
    SELECT c.last_id INTO outbox.last_id FROM pgtrickle.pgt_outbox_config AS c WHERE c.pgt_id = found;
    oldest := pgtrickle.first_outbox_id(found);
    IF check_outbox.from_id < oldest THEN
        RAISE EXCEPTION 'the outbox of "%" begins with entry %: entry % is gone',
              check_outbox.name, oldest, check_outbox.from_id
              USING ERRCODE = 'ST802',
                    HINT = 'Take the contents and pgtrickle.outbox_position() in one snapshot, and go on '
                           'from there; a longer retention_hours keeps entries for longer.';
    ELSIF check_outbox.from_id > outbox.last_id + 1 THEN
        RAISE EXCEPTION 'the outbox of "%" ends with entry %: there was never an entry %',
              check_outbox.name, outbox.last_id, check_outbox.from_id - 1
              USING ERRCODE = 'ST802',
                    HINT = 'The database was restored to an earlier moment: take the contents and '
                           'pgtrickle.outbox_position() in one snapshot, and go on from there.';
    END IF;
    RETURN found;
END
$$;

COMMENT ON FUNCTION pgtrickle.check_outbox(text, name[], bigint) IS
    'The stream table whose outbox can be read from an entry on, or an error that says why not.';

CREATE OR REPLACE FUNCTION pgtrickle.outbox_position(
    name text, schemas name[] DEFAULT current_schemas(false))
RETURNS TABLE (pgt_id bigint, first_id bigint, last_id bigint, frontier jsonb,
               data_timestamp timestamptz, schema_version integer)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    found bigint := pgtrickle.check_outbox(outbox_position.name, outbox_position.schemas);
BEGIN
    RETURN QUERY
    SELECT s.pgt_id, pgtrickle.first_outbox_id(s.pgt_id), c.last_id, s.frontier, s.data_timestamp,
           c.schema_version
      FROM pgtrickle.pgt_stream_tables AS s JOIN pgtrickle.pgt_outbox_config AS c USING (pgt_id)
     WHERE s.pgt_id = found;
END
$$;

COMMENT ON FUNCTION pgtrickle.outbox_position(text, name[]) IS
    'The last entry of an outbox: the same REPEATABLE READ snapshot shows the contents after it.';

CREATE OR REPLACE FUNCTION pgtrickle.outbox_schema(
    name text, schemas name[] DEFAULT current_schemas(false))
RETURNS TABLE (schema_version integer, columns jsonb, key_columns text[])
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT v.schema_version, v.columns, v.key_columns
      FROM pgtrickle.check_outbox($1, $2) AS k (pgt_id)
      JOIN pgtrickle.pgt_outbox_schemas AS v USING (pgt_id)
     ORDER BY v.schema_version
$$;

COMMENT ON FUNCTION pgtrickle.outbox_schema(text, name[]) IS
    'The columns and the unique key of the changes in an outbox, by version.';

CREATE OR REPLACE FUNCTION pgtrickle.outbox_entries(
    name text, from_id bigint DEFAULT NULL, to_id bigint DEFAULT NULL,
    max_entries integer DEFAULT 1000, schemas name[] DEFAULT current_schemas(false))
RETURNS TABLE (outbox_id bigint, refresh_id bigint, action text, reset boolean, frontier jsonb,
               data_timestamp timestamptz, created_at timestamptz, schema_version integer,
               inserted bigint, updated bigint, deleted bigint, changes jsonb)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    found bigint := pgtrickle.check_outbox(
                        outbox_entries.name, outbox_entries.schemas, outbox_entries.from_id);
    first bigint := coalesce(outbox_entries.from_id, pgtrickle.first_outbox_id(found));
BEGIN
    RETURN QUERY
    SELECT e.outbox_id, e.refresh_id, e.action, e.reset, e.frontier, e.data_timestamp, e.created_at,
           e.schema_version, e.inserted, e.updated, e.deleted, e.changes
      FROM pgtrickle.pgt_outbox_entries AS e
     WHERE e.pgt_id = found AND e.outbox_id >= first
       AND e.outbox_id <= coalesce(outbox_entries.to_id, 9223372036854775807)
     ORDER BY e.outbox_id
     LIMIT outbox_entries.max_entries;
END
$$;

COMMENT ON FUNCTION pgtrickle.outbox_entries(text, bigint, bigint, integer, name[]) IS
    'The entries of an outbox, both ends included, in order; without changes: outbox_rows has them.';

-- Of an entry that holds its changes, their places are their numbers.  A page reads the entries that it
-- needs, and no more of their changes.
CREATE OR REPLACE FUNCTION pgtrickle.list_changes(
    stream_table bigint, from_id bigint, to_id bigint, after_row bigint, max_rows bigint)
RETURNS TABLE (outbox_id bigint, row_number bigint, op text, key jsonb, before jsonb, after jsonb)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH counted AS (
        SELECT e.outbox_id, sum(e.inserted + e.updated + e.deleted) OVER (ORDER BY e.outbox_id)
                            - (e.inserted + e.updated + e.deleted) AS earlier
          FROM pgtrickle.pgt_outbox_entries AS e
         WHERE e.pgt_id = $1 AND e.outbox_id >= $2 AND e.outbox_id <= $3
    ), entries AS (
        SELECT e.outbox_id, e.changes, v.key_columns
          FROM counted AS c
          JOIN pgtrickle.pgt_outbox_entries AS e ON e.pgt_id = $1 AND e.outbox_id = c.outbox_id
          JOIN pgtrickle.pgt_outbox_schemas AS v
            ON v.pgt_id = e.pgt_id AND v.schema_version = e.schema_version
         WHERE $5 IS NULL OR c.earlier < $4 + $5
    )
    SELECT e.outbox_id, r.row_number,
           CASE WHEN r.before IS NULL THEN 'insert' WHEN r.after IS NULL THEN 'delete'
                ELSE 'update' END,
           CASE WHEN e.key_columns IS NOT NULL THEN
               (SELECT coalesce(jsonb_object_agg(k.name, coalesce(r.after, r.before) -> k.name), '{}')
                  FROM unnest(e.key_columns) AS k (name)) END,
           r.before, r.after
      FROM entries AS e
     CROSS JOIN LATERAL (
               (SELECT o.row_number, o.before, o.after FROM pgtrickle.pgt_outbox_rows AS o
                 WHERE e.changes IS NULL AND o.pgt_id = $1 AND o.outbox_id = e.outbox_id
                   AND o.row_number > CASE WHEN e.outbox_id > $2 THEN 0 ELSE $4 END
                 ORDER BY o.row_number LIMIT $5)
                UNION ALL
               (SELECT c.place, c.value -> 'before', c.value -> 'after'
                  FROM jsonb_array_elements(e.changes) WITH ORDINALITY AS c (value, place)
                 WHERE e.changes IS NOT NULL
                   AND c.place > CASE WHEN e.outbox_id > $2 THEN 0 ELSE $4 END)) AS r
     ORDER BY e.outbox_id, r.row_number
     LIMIT $5
$$;

COMMENT ON FUNCTION pgtrickle.list_changes(bigint, bigint, bigint, bigint, bigint) IS
    'The changes of some entries of an outbox, in order.';

CREATE OR REPLACE FUNCTION pgtrickle.outbox_rows(
    name text, from_id bigint DEFAULT NULL, to_id bigint DEFAULT NULL,
    after_row bigint DEFAULT 0, max_rows bigint DEFAULT NULL,
    schemas name[] DEFAULT current_schemas(false))
RETURNS TABLE (outbox_id bigint, row_number bigint, op text, key jsonb, before jsonb, after jsonb)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    found bigint := pgtrickle.check_outbox(
                        outbox_rows.name, outbox_rows.schemas, outbox_rows.from_id);
    first bigint := coalesce(outbox_rows.from_id, pgtrickle.first_outbox_id(found));
BEGIN
    RETURN QUERY
    SELECT r.* FROM pgtrickle.list_changes(
               found, first, coalesce(outbox_rows.to_id, 9223372036854775807),
               coalesce(outbox_rows.after_row, 0), outbox_rows.max_rows) AS r;
END
$$;

COMMENT ON FUNCTION pgtrickle.outbox_rows(text, bigint, bigint, bigint, bigint, name[]) IS
    'The changes of the entries of an outbox, both ends included, in order; from the first entry only'
    ' those after a row.';

CREATE OR REPLACE FUNCTION pgtrickle.outbox_status(
    name text DEFAULT NULL, schemas name[] DEFAULT current_schemas(false))
RETURNS TABLE (stream_table text, enabled boolean, retention_hours double precision,
               inline_threshold_rows integer, first_id bigint, last_id bigint, entries bigint,
               claim_check_entries bigint, pending bigint, oldest_at timestamptz,
               newest_at timestamptz, schema_version integer, consumer_groups bigint,
               slowest_group text, slowest_offset bigint, blocked_by text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('%I.%I', s.pgt_schema, s.pgt_name), s.has_outbox, c.retention_hours,
           c.inline_threshold_rows, f.first_id, c.last_id, e.entries, e.claimed,
           (SELECT count(*) FROM pgtrickle.pgt_outbox_pending AS p WHERE p.pgt_id = s.pgt_id),
           e.oldest_at, e.newest_at, c.schema_version,
           (SELECT count(*) FROM pgtrickle.pgt_consumer_groups AS g WHERE g.pgt_id = s.pgt_id),
           slow.group_name, slow.committed_id,
           CASE WHEN slow.committed_id < c.last_id
                     AND e.oldest_at < clock_timestamp() - make_interval(hours => 1) * c.retention_hours
                     AND slow.committed_id < f.first_id THEN slow.group_name END
      FROM pgtrickle.pgt_stream_tables AS s
      JOIN pgtrickle.pgt_outbox_config AS c USING (pgt_id)
     CROSS JOIN LATERAL (SELECT pgtrickle.first_outbox_id(s.pgt_id)) AS f (first_id)
     CROSS JOIN LATERAL (
               SELECT count(*) AS entries, count(*) FILTER (WHERE o.changes IS NULL) AS claimed,
                      min(o.created_at) AS oldest_at, max(o.created_at) AS newest_at
                 FROM pgtrickle.pgt_outbox_entries AS o
                WHERE o.pgt_id = s.pgt_id AND o.outbox_id > c.floor_id) AS e
      LEFT JOIN LATERAL (
               SELECT g.group_name, o.committed_id
                 FROM pgtrickle.pgt_consumer_groups AS g
                 JOIN pgtrickle.pgt_consumer_offsets AS o USING (group_id)
                WHERE g.pgt_id = s.pgt_id ORDER BY o.committed_id, g.group_name LIMIT 1) AS slow
             ON true
     WHERE s.has_outbox
       AND (outbox_status.name IS NULL
            OR s.pgt_id = pgtrickle.find_stream_table(outbox_status.name, schemas))
     ORDER BY 1
$$;

COMMENT ON FUNCTION pgtrickle.outbox_status(text, name[]) IS
    'The outboxes of all stream tables or of one: what each keeps, and for whom.';

-- Statements of writers of an IMMEDIATE stream table commit in any order, and do not wait for one
-- another here: their entries get numbers from whoever reads next.  Of two that changed the same row,
-- the second began after the first had committed: so it has the higher number there, too.
CREATE OR REPLACE FUNCTION pgtrickle.seal_outbox(stream_table bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s'
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pgtrickle.pgt_outbox_pending AS p WHERE p.pgt_id = stream_table) THEN
        RETURN;
    END IF;
    IF current_setting('transaction_read_only')::boolean THEN
        RAISE EXCEPTION 'changes of writers wait for their numbers, which a read-only transaction cannot give'
              USING ERRCODE = 'ST801', HINT = 'Read the outbox in a transaction that may write.';
    END IF;
    -- One at a time; whoever was waited for may have sealed all of them.
    PERFORM FROM pgtrickle.pgt_outbox_config AS c WHERE c.pgt_id = stream_table FOR UPDATE;
    WITH sealed AS (
        DELETE FROM pgtrickle.pgt_outbox_pending AS p WHERE p.pgt_id = stream_table RETURNING p.*
    ), numbered AS (
        SELECT c.last_id + row_number() OVER (ORDER BY p.pending_id) AS outbox_id, p.*
          FROM sealed AS p JOIN pgtrickle.pgt_outbox_config AS c USING (pgt_id)
         WHERE c.started
    ), counted AS (
        UPDATE pgtrickle.pgt_outbox_config AS c
           SET last_id = c.last_id + (SELECT count(*) FROM numbered)
         WHERE c.pgt_id = stream_table
    )
    INSERT INTO pgtrickle.pgt_outbox_entries
        (pgt_id, outbox_id, action, reset, data_timestamp, created_at, schema_version, inserted,
         updated, deleted, changes)
    SELECT n.pgt_id, n.outbox_id, 'IMMEDIATE', false, n.created_at, clock_timestamp(),
           n.schema_version, n.inserted, n.updated, n.deleted, n.changes
      FROM numbered AS n;
END
$$;

COMMENT ON FUNCTION pgtrickle.seal_outbox(bigint) IS
    'Give numbers to the entries of an IMMEDIATE stream table that are visible and have none.';
