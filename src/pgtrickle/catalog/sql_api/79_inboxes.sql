-- Inboxes: tables that receive messages once

DROP POLICY IF EXISTS pgt_inboxes_of_readers ON pgtrickle.pgt_inboxes;
CREATE POLICY pgt_inboxes_of_readers ON pgtrickle.pgt_inboxes FOR SELECT
    USING (pg_catalog.has_table_privilege(relid, 'SELECT')
           AND (SELECT pg_catalog.has_schema_privilege(c.relnamespace, 'USAGE')
                  FROM pg_catalog.pg_class AS c WHERE c.oid OPERATOR(pg_catalog.=) relid));
DROP POLICY IF EXISTS pgt_inbox_parts_of_readers ON pgtrickle.pgt_inbox_parts;
CREATE POLICY pgt_inbox_parts_of_readers ON pgtrickle.pgt_inbox_parts FOR SELECT
    USING (inbox_id IN (SELECT i.inbox_id FROM pgtrickle.pgt_inboxes AS i));

-- Our writes would run what a hostile owner of the table has put on it.
CREATE OR REPLACE FUNCTION pgtrickle.inbox_trouble(inbox regclass)
RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    owner   oid;
    lacking text;
BEGIN
    SELECT c.relowner INTO owner FROM pg_class AS c WHERE c.oid = $1 AND c.relkind = 'r';
    IF NOT FOUND THEN
        RETURN 'its table is gone';
    END IF;
    SELECT string_agg(w.name, ', ' ORDER BY w.name) INTO lacking
      FROM unnest(
               ARRAY['event_id', 'event_type', 'source', 'aggregate_id', 'sequence_num', 'priority',
                     'payload', 'trace_id', 'received_at', 'processed_at', 'retry_count', 'error'],
               ARRAY['text', 'text', 'text', 'text', 'bigint', 'integer',
                     'jsonb', 'text', 'timestamptz', 'timestamptz', 'integer', 'text']
           ) AS w (name, type)
     WHERE NOT EXISTS (SELECT FROM pg_attribute AS a
                        WHERE a.attrelid = $1 AND a.attname = w.name AND a.attnum > 0
                          AND NOT a.attisdropped AND a.atttypid = w.type::regtype);
    IF lacking IS NOT NULL THEN
        RETURN format('its table lacks, or has with another type: %s', lacking);
    ELSIF NOT EXISTS (SELECT FROM pg_index AS x JOIN pg_attribute AS a
                          ON a.attrelid = x.indrelid AND a.attnum = x.indkey[0]
                       WHERE x.indrelid = $1 AND x.indisunique AND x.indisvalid
                         AND x.indimmediate AND x.indnkeyatts = 1 AND x.indpred IS NULL
                         AND a.attname = 'event_id') THEN
        RETURN 'event_id has no unique index any more';
    ELSIF owner NOT IN ((SELECT n.nspowner FROM pg_namespace AS n WHERE n.nspname = 'pgtrickle'),
                        (SELECT r.oid FROM pg_roles AS r WHERE r.rolname = current_user))
          AND NOT (SELECT r.rolsuper FROM pg_roles AS r WHERE r.oid = owner) THEN
        RETURN format('its table belongs to %s now', owner::regrole);
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION pgtrickle.inbox_trouble(regclass) IS
    'Why the table of an inbox cannot be used any more; NULL if it can.';

CREATE OR REPLACE FUNCTION pgtrickle.find_inbox(
    name text, schemas name[] DEFAULT current_schemas(false))
RETURNS bigint
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    parts text[];
    found bigint;
BEGIN
    IF octet_length($1) > 1024 OR cardinality($2) > 1000 THEN
        RAISE EXCEPTION 'a name of % bytes cannot name an inbox', octet_length($1)
              USING ERRCODE = 'ST208', HINT = 'Write schema.name; each has 63 bytes at most.';
    END IF;
    parts := parse_ident($1);
    SELECT i.inbox_id INTO found
      FROM pgtrickle.pgt_inboxes AS i
      LEFT JOIN (pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace) ON c.oid = i.relid
     WHERE coalesce(c.relname, i.inbox_name) = parts[cardinality(parts)]
       AND CASE cardinality(parts)
           WHEN 1 THEN coalesce(n.nspname, i.schema_name) = ANY ($2::text[])
           WHEN 2 THEN coalesce(n.nspname, i.schema_name) = parts[1] END
     ORDER BY array_position($2::text[], coalesce(n.nspname, i.schema_name)::text)
     LIMIT 1;
    IF found IS NULL THEN
        RAISE EXCEPTION 'there is no inbox "%"', left($1, 200)
              USING ERRCODE = 'ST841', HINT = 'Those that you may read: SELECT * FROM pgtrickle.inbox_status().';
    END IF;
    RETURN found;
END
$$;

COMMENT ON FUNCTION pgtrickle.find_inbox(text, name[]) IS
    'The id of an inbox, by the name of its table as written in a query.';

CREATE OR REPLACE FUNCTION pgtrickle.inbox_status(
    name text DEFAULT NULL, schemas name[] DEFAULT current_schemas(false))
RETURNS TABLE (inbox text, trouble text, messages bigint, pending bigint, dead_letters bigint,
               processed bigint, oldest_pending_at timestamptz, last_received_at timestamptz,
               last_processed_at timestamptz, max_retries integer, retention_hours double precision,
               ordered_by text, priority_column text, stream_tables text[])
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    wanted bigint := CASE WHEN $1 IS NOT NULL THEN pgtrickle.find_inbox($1, $2) END;
    one    record;
BEGIN
    FOR one IN
        SELECT i.*, pgtrickle.inbox_trouble(i.relid) AS trouble,
               ARRAY(SELECT format('%I.%I', s.pgt_schema, s.pgt_name)
                       FROM pgtrickle.pgt_inbox_parts AS p
                       JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
                      WHERE p.inbox_id = i.inbox_id ORDER BY 1) AS parts,
               coalesce((SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class AS c
                           JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = i.relid),
                        format('%I.%I', i.schema_name, i.inbox_name)) AS present_name
          FROM pgtrickle.pgt_inboxes AS i
         WHERE wanted IS NULL OR i.inbox_id = wanted
         ORDER BY i.schema_name, i.inbox_name
    LOOP
        inbox := one.present_name;
        trouble := one.trouble;
        max_retries := one.max_retries;
        retention_hours := one.retention_hours;
        ordered_by := CASE WHEN one.aggregate_column IS NOT NULL
                           THEN format('%I, %I', one.aggregate_column, one.sequence_column) END;
        priority_column := one.priority_column;
        stream_tables := one.parts;
        messages := NULL; pending := NULL; dead_letters := NULL; processed := NULL;
        oldest_pending_at := NULL; last_received_at := NULL; last_processed_at := NULL;
        IF trouble IS NULL THEN
            EXECUTE format(
                'SELECT count(*), count(*) FILTER (WHERE w AND retry_count < $1),'
                ' count(*) FILTER (WHERE w AND retry_count >= $1), count(*) FILTER (WHERE NOT w),'
                ' min(received_at) FILTER (WHERE w AND retry_count < $1), max(received_at),'
                ' max(processed_at)'
                ' FROM (SELECT processed_at IS NULL AS w, * FROM ONLY %s) AS m', one.relid)
               INTO messages, pending, dead_letters, processed, oldest_pending_at,
                    last_received_at, last_processed_at
              USING one.max_retries;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;

COMMENT ON FUNCTION pgtrickle.inbox_status(text, name[]) IS
    'The inboxes that the role may read, one row each: how many messages wait, have failed, are done.';

CREATE OR REPLACE FUNCTION pgtrickle.inbox_health(
    name text DEFAULT NULL, schemas name[] DEFAULT current_schemas(false))
RETURNS TABLE (inbox text, "check" text, severity text, detail text, hint text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH inboxes AS (SELECT * FROM pgtrickle.inbox_status($1, $2))
    SELECT i.inbox, c.* FROM inboxes AS i
     CROSS JOIN LATERAL (
        VALUES ('table', CASE WHEN i.trouble IS NULL THEN 'OK' ELSE 'ERROR' END,
                coalesce(i.trouble, 'its table receives messages'),
                CASE WHEN i.trouble IS NOT NULL
                     THEN 'Undo that, or let go of it: CALL pgtrickle.drop_inbox(...).' END),
               ('dead_letters',
                CASE WHEN i.dead_letters > 0 THEN 'WARNING' ELSE 'OK' END,
                format('%s messages have failed for good', coalesce(i.dead_letters::text, 'unknown')),
                CASE WHEN i.dead_letters > 0
                     THEN 'Read their errors, then: SELECT pgtrickle.replay_inbox_messages(...).' END),
               ('backlog',
                CASE WHEN i.oldest_pending_at < clock_timestamp() - interval '5 minutes'
                     THEN 'WARNING' ELSE 'OK' END,
                format('%s messages wait, the oldest since %s', coalesce(i.pending::text, 'unknown'),
                       coalesce(i.oldest_pending_at::text, 'never')),
                CASE WHEN i.oldest_pending_at < clock_timestamp() - interval '5 minutes'
                     THEN 'Start workers, or look at what they do.' END)
           ) AS c ("check", severity, detail, hint)
     UNION ALL
    SELECT i.inbox, 'stream_tables',
           CASE WHEN s.status = 'ACTIVE' AND s.consecutive_errors = 0 THEN 'OK'
                WHEN s.status = 'SUSPENDED' THEN 'ERROR' ELSE 'WARNING' END,
           format('%I.%I is %s%s', s.pgt_schema, s.pgt_name, s.status,
                  CASE WHEN s.consecutive_errors > 0
                       THEN format(' and has failed %s times', s.consecutive_errors) ELSE '' END),
           CASE WHEN s.status <> 'ACTIVE' OR s.consecutive_errors > 0
                THEN format('CALL pgtrickle.diagnose_errors(%L);',
                            format('%I.%I', s.pgt_schema, s.pgt_name)) END
      FROM inboxes AS i JOIN pgtrickle.pgt_stream_tables AS s
        ON format('%I.%I', s.pgt_schema, s.pgt_name) = ANY (i.stream_tables)
     ORDER BY 1, 2, 4
$$;

COMMENT ON FUNCTION pgtrickle.inbox_health(text, name[]) IS
    'Whether inboxes work: their tables, their stream tables, what waits and what has failed.';

CREATE OR REPLACE FUNCTION pgtrickle.replay_inbox_messages(
    name text, event_ids text[] DEFAULT NULL, schemas name[] DEFAULT current_schemas(false))
RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    wanted  bigint := pgtrickle.find_inbox($1, $3);
    one     record;
    trouble text;
    done    bigint;
BEGIN
    SELECT * INTO one FROM pgtrickle.pgt_inboxes AS i WHERE i.inbox_id = wanted;
    trouble := pgtrickle.inbox_trouble(one.relid);
    IF trouble IS NOT NULL THEN
        RAISE EXCEPTION 'the inbox "%" cannot be used: %', left($1, 200), trouble
              USING ERRCODE = 'ST842', HINT = 'Undo that, or drop the inbox and create it again.';
    END IF;
    EXECUTE format('UPDATE ONLY %s SET retry_count = 0, error = NULL'
                   ' WHERE processed_at IS NULL AND retry_count >= $1'
                   ' AND ($2 IS NULL OR event_id = ANY ($2))', one.relid)
      USING one.max_retries, $2;
    GET DIAGNOSTICS done = ROW_COUNT;
    RETURN done;
END
$$;

COMMENT ON FUNCTION pgtrickle.replay_inbox_messages(text, text[], name[]) IS
    'Let messages wait again that have failed for good, all or some; return how many.';

CREATE OR REPLACE FUNCTION pgtrickle.inbox_ordering_gaps(
    name text, max_rows integer DEFAULT 100, schemas name[] DEFAULT current_schemas(false))
RETURNS TABLE (aggregate text, after_sequence numeric, next_sequence numeric, missing numeric)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    wanted  bigint := pgtrickle.find_inbox($1, $3);
    one     record;
    trouble text;
BEGIN
    SELECT * INTO one FROM pgtrickle.pgt_inboxes AS i WHERE i.inbox_id = wanted;
    trouble := pgtrickle.inbox_trouble(one.relid);
    IF trouble IS NOT NULL THEN
        RAISE EXCEPTION 'the inbox "%" cannot be used: %', left($1, 200), trouble
              USING ERRCODE = 'ST842', HINT = 'Undo that, or drop the inbox and create it again.';
    ELSIF one.aggregate_column IS NULL THEN
        RAISE EXCEPTION 'the messages of the inbox "%" have no order', left($1, 200)
              USING ERRCODE = 'ST840',
                    HINT = format('Give them one: CALL pgtrickle.enable_inbox_ordering(%L).', $1);
    END IF;
    RETURN QUERY EXECUTE format(
        'SELECT g.a, g.s - g.d, g.s, g.d - 1'
        ' FROM (SELECT m.%1$I::text AS a, m.%2$I::numeric AS s,'
        ' m.%2$I::numeric - lag(m.%2$I::numeric) OVER (PARTITION BY m.%1$I ORDER BY m.%2$I) AS d'
        ' FROM ONLY %3$s AS m WHERE m.%1$I IS NOT NULL AND m.%2$I IS NOT NULL) AS g'
        ' WHERE g.d > 1 ORDER BY g.a COLLATE "C", g.s LIMIT $1',
        one.aggregate_column, one.sequence_column, one.relid) USING $2;
END
$$;

COMMENT ON FUNCTION pgtrickle.inbox_ordering_gaps(text, integer, name[]) IS
    'Where numbers are missing in the sequences of an ordered inbox, among the messages that it keeps.';

-- FNV-1a of 32 bits over the UTF-8 bytes: every language has it, so workers may compute it themselves.
CREATE OR REPLACE FUNCTION pgtrickle.inbox_is_my_partition(
    aggregate_id text, worker_id integer, total_workers integer)
RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    bytes bytea  := convert_to(coalesce($1, ''), 'UTF8');
    hash  bigint := 2166136261;
BEGIN
    IF $2 IS NULL OR $3 IS NULL OR $3 < 1 OR $2 < 0 OR $2 >= $3 THEN
        RAISE EXCEPTION 'there is no worker % of %', $2, $3
              USING ERRCODE = 'ST840', HINT = 'Workers count from 0: worker_id is less than total_workers.';
    END IF;
    FOR place IN 0 .. octet_length(bytes) - 1 LOOP
        hash := ((hash # get_byte(bytes, place)) * 16777619) & 4294967295;
    END LOOP;
    RETURN hash % $3 = $2;
END
$$;

COMMENT ON FUNCTION pgtrickle.inbox_is_my_partition(text, integer, integer) IS
    'Whether the messages of an aggregate are one worker''s, of several that share them.';
