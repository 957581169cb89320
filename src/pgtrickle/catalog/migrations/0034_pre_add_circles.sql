-- 0034 · pre · add circles
--
-- Why:   stream tables may read one another in a circle, and are refreshed as one then.
-- Reads: versions before this one make no circle, and cannot refresh one.
-- Locks: ACCESS EXCLUSIVE on pgt_stream_tables, briefly; no row is rewritten.
-- Undo:  DROP FUNCTION pgtrickle.pgt_scc_status();
--        ALTER TABLE pgtrickle.pgt_stream_tables DROP COLUMN scc_id,
--            DROP COLUMN last_fixpoint_iterations;
--        DELETE FROM pgtrickle.pgt_grants WHERE target = 'FUNCTION pgtrickle.pgt_scc_status()';

ALTER TABLE pgtrickle.pgt_stream_tables
    ADD COLUMN scc_id                   bigint,
    ADD COLUMN last_fixpoint_iterations integer;

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.scc_id IS
    'The circle that it belongs to: the least pgt_id of its members; NULL: none.';
COMMENT ON COLUMN pgtrickle.pgt_stream_tables.last_fixpoint_iterations IS
    'How many rounds the latest refresh of its circle took that had anything to do.';

CREATE FUNCTION pgtrickle.pgt_scc_status()
RETURNS TABLE (scc_id bigint, member_count integer, members text[],
               last_iterations integer, last_converged_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT s.scc_id, count(*)::integer,
           array_agg(format('%I.%I', s.pgt_schema, s.pgt_name) ORDER BY s.pgt_id),
           max(s.last_fixpoint_iterations), min(s.data_timestamp)
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.scc_id IS NOT NULL
     GROUP BY s.scc_id
     ORDER BY s.scc_id
$$;

COMMENT ON FUNCTION pgtrickle.pgt_scc_status() IS
    'The circles of stream tables: their members, how many rounds their latest fixpoint took, and the moment it shows.';

INSERT INTO pgtrickle.pgt_grants (level, privilege, target)
VALUES ('reader', 'EXECUTE', 'FUNCTION pgtrickle.pgt_scc_status()');

REVOKE ALL ON FUNCTION pgtrickle.pgt_scc_status() FROM PUBLIC;
