-- Holding the scheduler back: gates, watermarks, pauses, the drain, groups, fuses

-- Sources are given as regclass: the caller's session reads the name, as it does in a query.
CREATE OR REPLACE FUNCTION pgtrickle.may_act_on(relations oid[])
RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (SELECT FROM pg_namespace AS n
                    WHERE n.nspname = 'pgtrickle' AND pg_has_role(n.nspowner, 'USAGE'))
        OR (SELECT coalesce(bool_and(coalesce(pg_has_role(c.relowner, 'USAGE'), false)), false)
              FROM unnest(relations) AS one (oid) LEFT JOIN pg_class AS c USING (oid))
$$;

COMMENT ON FUNCTION pgtrickle.may_act_on(oid[]) IS
    'Whether the caller can act as the owner of all these relations, or as that of the catalog.';

CREATE OR REPLACE FUNCTION pgtrickle.check_may_act_on(relations oid[])
RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    one oid;
BEGIN
    FOREACH one IN ARRAY relations LOOP
        IF NOT pgtrickle.may_act_on(ARRAY[one]) THEN
            RAISE EXCEPTION 'must be owner of table "%"', one::regclass
                  USING ERRCODE = 'ST206', HINT = 'Connect as a member of the role that owns it.';
        END IF;
    END LOOP;
END
$$;

COMMENT ON FUNCTION pgtrickle.check_may_act_on(oid[]) IS
    'Fail unless the caller can act as the owner of all these relations.';

-- The scheduler compares every group with its watermarks in every pass.
CREATE OR REPLACE FUNCTION pgtrickle.check_may_group(sources oid[])
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (SELECT count(*) FROM (SELECT FROM pgtrickle.pgt_watermark_groups AS g
                               WHERE g.source_relids && sources LIMIT 100) AS known) >= 100 THEN
        RAISE EXCEPTION 'sources of the watermark group are in 100 groups, as many as there may be'
              USING ERRCODE = 'ST606',
                    HINT = 'Drop one: SELECT pgtrickle.drop_watermark_group(...).';
    END IF;
    RETURN true;
END
$$;

COMMENT ON FUNCTION pgtrickle.check_may_group(oid[]) IS
    'Fail if sources are in as many watermark groups as they may be; a policy asks.';

-- Operators write these tables themselves, as far as they own the sources.
DROP POLICY IF EXISTS pgt_source_gates_of_own ON pgtrickle.pgt_source_gates;
CREATE POLICY pgt_source_gates_of_own ON pgtrickle.pgt_source_gates
    USING (pgtrickle.may_act_on(ARRAY[source_relid]))
    WITH CHECK (pgtrickle.may_act_on(ARRAY[source_relid]) AND gated_by = current_user);

DROP POLICY IF EXISTS pgt_watermarks_of_own ON pgtrickle.pgt_watermarks;
CREATE POLICY pgt_watermarks_of_own ON pgtrickle.pgt_watermarks
    USING (pgtrickle.may_act_on(ARRAY[source_relid]))
    WITH CHECK (pgtrickle.may_act_on(ARRAY[source_relid]) AND advanced_by = current_user);

DROP POLICY IF EXISTS pgt_watermark_groups_of_own ON pgtrickle.pgt_watermark_groups;
CREATE POLICY pgt_watermark_groups_of_own ON pgtrickle.pgt_watermark_groups
    USING (pgtrickle.may_act_on(source_relids))
    WITH CHECK (pgtrickle.may_act_on(source_relids) AND pgtrickle.check_may_group(source_relids));

CREATE OR REPLACE FUNCTION pgtrickle.gate_source(source regclass)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pgtrickle.check_may_act_on(ARRAY[source::oid]);
    INSERT INTO pgtrickle.pgt_source_gates AS g (source_relid) VALUES (source)
        ON CONFLICT (source_relid) DO UPDATE
       SET gated = true, gated_at = now(), gated_by = current_user;
END
$$;

COMMENT ON FUNCTION pgtrickle.gate_source(regclass) IS
    'Hold back the consumers of a source while it is being loaded.';

CREATE OR REPLACE FUNCTION pgtrickle.ungate_source(source regclass)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pgtrickle.check_may_act_on(ARRAY[source::oid]);
    UPDATE pgtrickle.pgt_source_gates
       SET gated = false, ungated_at = now(), gated_by = current_user
     WHERE source_relid = source AND gated;
    RETURN FOUND;
END
$$;

COMMENT ON FUNCTION pgtrickle.ungate_source(regclass) IS
    'Release the consumers of a source; false if it was not gated.';

CREATE OR REPLACE FUNCTION pgtrickle.bootstrap_gate_status()
RETURNS TABLE (source_table text, gated boolean, gated_at timestamptz, ungated_at timestamptz,
               gated_by text, gate_duration interval, affected_stream_tables text[])
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN c.oid IS NULL THEN g.source_relid::text
                ELSE format('%I.%I', n.nspname, c.relname) END, g.gated,
           g.gated_at, g.ungated_at, g.gated_by,
           CASE WHEN g.gated THEN clock_timestamp() ELSE g.ungated_at END - g.gated_at,
           ARRAY(SELECT format('%I.%I', s.pgt_schema, s.pgt_name)
                   FROM pgtrickle.pgt_dependencies AS d
                   JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
                  WHERE d.source_relid = g.source_relid AND s.pgt_schema <> 'pgtrickle_state'
                  ORDER BY 1)
      FROM pgtrickle.pgt_source_gates AS g
      LEFT JOIN pg_class AS c ON c.oid = g.source_relid
      LEFT JOIN pg_namespace AS n ON n.oid = c.relnamespace
     ORDER BY 1
$$;

COMMENT ON FUNCTION pgtrickle.bootstrap_gate_status() IS
    'The sources that are or were gated, for how long, and their consumers.';

CREATE OR REPLACE FUNCTION pgtrickle.advance_watermark(source regclass, watermark timestamptz)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pgtrickle.check_may_act_on(ARRAY[source::oid]);
    INSERT INTO pgtrickle.pgt_watermarks AS w (source_relid, watermark)
    VALUES (source, advance_watermark.watermark)
        ON CONFLICT (source_relid) DO UPDATE
       SET watermark = excluded.watermark,
           updated_at = CASE WHEN w.watermark = excluded.watermark THEN w.updated_at
                             ELSE now() END,
           advanced_by = current_user
     WHERE w.watermark <= excluded.watermark;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the watermark of "%" cannot go back to %',
              source, advance_watermark.watermark
              USING ERRCODE = 'ST501', HINT = 'Give a later moment, or the same.';
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.advance_watermark(regclass, timestamptz) IS
    'Record the moment up to which a source is complete; it never moves back.';

CREATE OR REPLACE FUNCTION pgtrickle.create_watermark_group(
    group_name text, sources regclass[], tolerance_secs double precision DEFAULT 0)
RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    members oid[] := ARRAY(SELECT DISTINCT one::oid FROM unnest(sources) AS one WHERE one IS NOT NULL);
    made    bigint;
BEGIN
    IF cardinality(members) < 2 OR tolerance_secs IS NULL OR NOT tolerance_secs >= 0 THEN
        RAISE EXCEPTION 'the watermark group "%" needs two sources and a tolerance of 0 or more',
              create_watermark_group.group_name
              USING ERRCODE = 'ST501', HINT = 'Name at least two different sources.';
    END IF;
    PERFORM pgtrickle.check_may_act_on(members);
    -- A group of somebody else may have the name and not be seen.
    INSERT INTO pgtrickle.pgt_watermark_groups AS g (group_name, source_relids, tolerance_secs)
    VALUES (create_watermark_group.group_name, members, create_watermark_group.tolerance_secs)
    RETURNING g.group_id INTO made;
    RETURN made;
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION 'the watermark group "%" already exists', create_watermark_group.group_name
          USING ERRCODE = 'ST501', HINT = 'Drop it first, or choose another name.';
END
$$;

COMMENT ON FUNCTION pgtrickle.create_watermark_group(text, regclass[], double precision) IS
    'Hold back the consumers of several of these sources until their watermarks agree within a tolerance.';

CREATE OR REPLACE FUNCTION pgtrickle.drop_watermark_group(group_name text)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO pgtrickle.acts (act, name)
    VALUES ('drop_watermark_group', drop_watermark_group.group_name);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no watermark group "%" of sources that you own',
              left(drop_watermark_group.group_name, 255)
              USING ERRCODE = 'ST501',
                    HINT = 'List them with: SELECT * FROM pgtrickle.watermark_status().';
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.drop_watermark_group(text) IS
    'Drop a watermark group.';

CREATE OR REPLACE FUNCTION pgtrickle.watermarks()
RETURNS TABLE (source_table text, watermark timestamptz, updated_at timestamptz, advanced_by text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN c.oid IS NULL THEN w.source_relid::text
                ELSE format('%I.%I', n.nspname, c.relname) END, w.watermark,
           w.updated_at, w.advanced_by
      FROM pgtrickle.pgt_watermarks AS w
      LEFT JOIN pg_class AS c ON c.oid = w.source_relid
      LEFT JOIN pg_namespace AS n ON n.oid = c.relnamespace
     ORDER BY 1
$$;

COMMENT ON FUNCTION pgtrickle.watermarks() IS
    'The moment up to which each source is complete.';

CREATE OR REPLACE FUNCTION pgtrickle.watermark_status()
RETURNS TABLE (group_name text, sources text[], tolerance_secs double precision,
               min_watermark timestamptz, max_watermark timestamptz, lag_secs double precision,
               aligned boolean, sources_with_watermark bigint, sources_total bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT g.group_name,
           ARRAY(SELECT format('%I.%I', n.nspname, c.relname)
                   FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
                  WHERE c.oid = ANY (g.source_relids) ORDER BY 1),
           g.tolerance_secs, min(w.watermark), max(w.watermark),
           extract(epoch FROM max(w.watermark) - min(w.watermark)),
           -- As the scheduler asks.
           coalesce(max(w.watermark) - min(w.watermark)
                        <= g.tolerance_secs * interval '1 second', true),
           count(w.source_relid), cardinality(g.source_relids)
      FROM pgtrickle.pgt_watermark_groups AS g
      LEFT JOIN pgtrickle.pgt_watermarks AS w ON w.source_relid = ANY (g.source_relids)
     GROUP BY g.group_id
     ORDER BY g.group_name
$$;

COMMENT ON FUNCTION pgtrickle.watermark_status() IS
    'The watermark groups, the distance of their watermarks, and whether it is within the tolerance.';

-- No SET clause, because it commits: the scheduler must see it.
CREATE OR REPLACE PROCEDURE pgtrickle.drain(
    timeout_s pg_catalog.float8 DEFAULT 60, INOUT result pg_catalog.bool DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    began   pg_catalog.timestamptz := pg_catalog.clock_timestamp();
    failure pgtrickle.pgt_failure;
BEGIN
    CALL pgtrickle.find_transaction_block(failure);
    IF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code,
              MESSAGE = 'the scheduler cannot be drained in a transaction block',
              DETAIL = 'The scheduler sees that only when it has been committed.',
              HINT = 'COMMIT or ROLLBACK first, then CALL.';
    END IF;
    INSERT INTO pgtrickle.pgt_scheduler_pauses (pgt_id) VALUES (NULL) ON CONFLICT DO NOTHING;
    LOOP
        COMMIT;
        result := pgtrickle.is_drained();
        EXIT WHEN result OR pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) began
            OPERATOR(pg_catalog.>=) pg_catalog.make_interval(secs => COALESCE(timeout_s, 60));
        PERFORM pg_catalog.pg_sleep(0.1);
    END LOOP;
END
$$;

COMMENT ON PROCEDURE pgtrickle.drain(double precision, boolean) IS
    'Start no more refreshes and wait for the running ones; false if they take longer than the timeout.';

CREATE OR REPLACE FUNCTION pgtrickle.undrain()
RETURNS boolean
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH gone AS (
        DELETE FROM pgtrickle.pgt_scheduler_pauses WHERE pgt_id IS NULL RETURNING pgt_id
    )
    SELECT EXISTS (SELECT FROM gone)
$$;

COMMENT ON FUNCTION pgtrickle.undrain() IS
    'Let the scheduler start refreshes again; false if it was not drained.';

CREATE OR REPLACE FUNCTION pgtrickle.is_drained()
RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (SELECT FROM pgtrickle.pgt_scheduler_pauses WHERE pgt_id IS NULL)
       AND NOT EXISTS (SELECT FROM pgtrickle.pgt_leases WHERE expires_at > clock_timestamp())
$$;

COMMENT ON FUNCTION pgtrickle.is_drained() IS
    'Whether the scheduler starts no more refreshes, and all running ones have ended.';

CREATE OR REPLACE FUNCTION pgtrickle.quiesce_status()
RETURNS jsonb
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_build_object(
               'quiet', pgtrickle.is_drained(),
               'left', coalesce(jsonb_agg(jsonb_build_object(
                   'name', format('%I.%I', s.pgt_schema, s.pgt_name), 'daemon', l.owner,
                   'running_since', l.acquired_at) ORDER BY l.acquired_at, s.pgt_id), '[]'))
      FROM pgtrickle.pgt_leases AS l JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
     WHERE l.expires_at > clock_timestamp()
$$;

COMMENT ON FUNCTION pgtrickle.quiesce_status() IS
    'Whether the scheduler starts nothing and nothing runs, and what still runs: since when, and in which process.';

-- No SET clause, because it commits.
CREATE OR REPLACE PROCEDURE pgtrickle.quiesce(
    timeout_s pg_catalog.float8 DEFAULT 60, INOUT result pg_catalog.jsonb DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    drained pg_catalog.bool;
BEGIN
    CALL pgtrickle.drain(timeout_s, drained);
    result := pgtrickle.quiesce_status();
END
$$;

COMMENT ON PROCEDURE pgtrickle.quiesce(double precision, jsonb) IS
    'Start no more refreshes and wait for the running ones, at most so many seconds; tell which are left.';

CREATE OR REPLACE FUNCTION pgtrickle.resume_all()
RETURNS text[]
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH gone AS (
        DELETE FROM pgtrickle.pgt_scheduler_pauses RETURNING pgt_id
    )
    SELECT coalesce(array_agg(format('%I.%I', s.pgt_schema, s.pgt_name)
                              ORDER BY s.pgt_schema, s.pgt_name), '{}')
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE EXISTS (SELECT FROM gone WHERE gone.pgt_id IS NULL OR gone.pgt_id = s.pgt_id)
       AND s.pgt_schema <> 'pgtrickle_state'
$$;

COMMENT ON FUNCTION pgtrickle.resume_all() IS
    'End the drain and the pause of every stream table; return the names of those that were held back by them.';

CREATE OR REPLACE FUNCTION pgtrickle.falling_behind()
RETURNS TABLE (name text, schedule text, interval_seconds double precision, stretch integer,
               effective_interval_seconds double precision, late_refreshes integer,
               took_seconds double precision, late_at timestamptz, stretched_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('%I.%I', s.pgt_schema, s.pgt_name), s.schedule, p.interval_seconds, p.stretch,
           p.interval_seconds * p.stretch, p.late, p.took_seconds, p.late_at, p.stretched_at
      FROM pgtrickle.pgt_paces AS p JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
     WHERE s.pgt_schema <> 'pgtrickle_state'
     ORDER BY p.interval_seconds * p.stretch DESC, s.pgt_schema, s.pgt_name
$$;

COMMENT ON FUNCTION pgtrickle.falling_behind() IS
    'The stream tables whose refreshes take longer than their intervals, and how far those are stretched.';

-- A group is out of step by those of its sources that have a watermark at all.  It concerns what
-- reads several of its sources, directly or through others.  The planner expects many rows of the
-- recursion, and PostgreSQL would compile the query to machine code for a second.
CREATE OR REPLACE FUNCTION pgtrickle.list_holds()
RETURNS TABLE (pgt_id bigint, name text, reason text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
    WITH RECURSIVE astray AS MATERIALIZED (
        SELECT g.group_name, g.source_relids
          FROM pgtrickle.pgt_watermark_groups AS g
          JOIN pgtrickle.pgt_watermarks AS w ON w.source_relid = ANY (g.source_relids)
         GROUP BY g.group_id
        HAVING max(w.watermark) - min(w.watermark) > g.tolerance_secs * interval '1 second'
    ), reads (pgt_id, relid) AS (
        SELECT d.pgt_id, d.source_relid
          FROM pgtrickle.pgt_dependencies AS d
         WHERE EXISTS (SELECT FROM astray)
         UNION
        SELECT r.pgt_id, d.source_relid
          FROM reads AS r
          JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_relid = r.relid
          JOIN pgtrickle.pgt_dependencies AS d ON d.pgt_id = s.pgt_id
    ), held (pgt_id, reason) AS (
        SELECT d.pgt_id, 'the source ' || g.source_relid::regclass || ' is gated'
          FROM pgtrickle.pgt_source_gates AS g
          JOIN pgtrickle.pgt_dependencies AS d ON d.source_relid = g.source_relid
         WHERE g.gated
         UNION ALL
        SELECT r.pgt_id, 'the watermarks of the group ' || a.group_name || ' are out of step'
          FROM astray AS a JOIN reads AS r ON r.relid = ANY (a.source_relids)
         GROUP BY r.pgt_id, a.group_name
        HAVING count(*) > 1
         UNION ALL
        SELECT s.pgt_id, CASE WHEN p.pgt_id IS NULL THEN 'the scheduler is drained'
                              ELSE 'the stream table is paused' END
          FROM pgtrickle.pgt_scheduler_pauses AS p
          JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = p.pgt_id OR p.pgt_id IS NULL
         UNION ALL
        SELECT s.pgt_id, 'its fuse has blown: ' || s.fuse_reason
          FROM pgtrickle.pgt_stream_tables AS s
         WHERE s.fuse_blown_at IS NOT NULL
    )
    SELECT h.pgt_id, format('%I.%I', s.pgt_schema, s.pgt_name), h.reason
      FROM held AS h JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
     WHERE s.pgt_schema <> 'pgtrickle_state'
     ORDER BY 2, 3
$$;

COMMENT ON FUNCTION pgtrickle.list_holds() IS
    'The stream tables that the scheduler does not refresh, with each reason.';

CREATE OR REPLACE FUNCTION pgtrickle.refresh_groups()
RETURNS TABLE (group_name text, members text[], isolation text, created_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT g.group_name,
           ARRAY(SELECT format('%I.%I', s.pgt_schema, s.pgt_name)
                   FROM pgtrickle.pgt_stream_tables AS s
                  WHERE s.pgt_relid = ANY (g.member_oids) ORDER BY 1),
           g.isolation, g.created_at
      FROM pgtrickle.pgt_refresh_groups AS g
     ORDER BY g.group_name
$$;

COMMENT ON FUNCTION pgtrickle.refresh_groups() IS 'The refresh groups and their members.';

CREATE OR REPLACE FUNCTION pgtrickle.fuse_status()
RETURNS TABLE (name text, fuse_mode text, fuse_state text, fuse_ceiling bigint,
               fuse_sensitivity double precision, blown_at timestamptz, blow_reason text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('%I.%I', s.pgt_schema, s.pgt_name), s.fuse,
           CASE WHEN s.fuse_blown_at IS NOT NULL THEN 'blown' WHEN s.fuse = 'off' THEN 'disabled'
                WHEN s.fuse_bridged THEN 'bridged' ELSE 'armed' END,
           s.fuse_ceiling, s.fuse_sensitivity, s.fuse_blown_at, s.fuse_reason
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_schema <> 'pgtrickle_state'
     ORDER BY 1
$$;

COMMENT ON FUNCTION pgtrickle.fuse_status() IS
    'The fuse of each stream table: armed, blown, disabled, or bridged for the next refresh.';
