-- Profiles: the figures of rehearsed refreshes

-- Plans hold values of the sources: they are for those who could read these as the owner.
DROP POLICY IF EXISTS pgt_profiles_of_own ON pgtrickle.pgt_profiles;

CREATE POLICY pgt_profiles_of_own ON pgtrickle.pgt_profiles
    USING (pgtrickle.may_act_on(ARRAY(SELECT s.pgt_relid FROM pgtrickle.pgt_stream_tables AS s
                                       WHERE s.pgt_id = pgt_profiles.pgt_id)));

CREATE OR REPLACE FUNCTION pgtrickle.list_profiles(
    name text, schemas name[] DEFAULT current_schemas(false))
RETURNS TABLE (profile_id bigint, stream_table text, taken_at timestamptz, action text, reason text,
               total_ms double precision, figures jsonb)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT p.profile_id, format('%I.%I', s.pgt_schema, s.pgt_name), p.taken_at, p.action, p.reason,
           p.total_ms, p.figures
      FROM pgtrickle.pgt_profiles AS p
      JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = p.pgt_id
     WHERE s.pgt_id = pgtrickle.find_stream_table(list_profiles.name, schemas)
     ORDER BY p.profile_id DESC
$$;

COMMENT ON FUNCTION pgtrickle.list_profiles(text, name[]) IS
    'The figures of the last rehearsed refreshes of a stream table, for those who can act as its owner;'
    ' the newest first.';
