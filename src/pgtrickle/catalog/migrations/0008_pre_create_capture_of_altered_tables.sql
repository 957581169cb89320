-- 0008 · pre · create the functions that capture the writes of a table that was altered
--
-- Why:   a write to a source must never fail because a captured column was dropped or retyped.
-- Reads: nothing before this version calls the functions or reads the new column.
-- Locks: CREATE FUNCTION; ACCESS EXCLUSIVE on pgt_change_tracking, briefly: no row is rewritten.
-- Undo:  DROP FUNCTION the functions; DROP the new column.

-- Capture triggers know their table by the numbers of its columns.  Where a trigger finds another
-- table than it was made for, it asks these functions for its statements.  They go by the server's
-- caches and not by queries of the catalog, which in a REPEATABLE READ transaction may be older
-- than the table that is being written.

CREATE FUNCTION pgtrickle.name_columns(relation oid, numbers int2[], rows text)
RETURNS text
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    -- The columns of a relation are aliased in order, and those that were dropped are not there.
    SELECT rows || ' AS r' || coalesce(' (' || string_agg('c' || n, ', ' ORDER BY n) || ')', '')
      FROM generate_series(1, (SELECT max(one) FROM unnest(numbers) AS one)) AS n
     WHERE has_column_privilege(relation, n::int2, 'SELECT') IS NOT NULL
$$;

COMMENT ON FUNCTION pgtrickle.name_columns(oid, int2[], text) IS
    'Write a FROM item that names the columns of a relation by their numbers: c1, c2, ...';

CREATE FUNCTION pgtrickle.ask_column_types(relation oid, numbers int2[], rows text)
RETURNS text
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT 'SELECT ARRAY[' || coalesce(string_agg(
               CASE WHEN has_column_privilege(relation, n, 'SELECT') IS NULL THEN 'NULL'
                    ELSE 'pg_catalog.pg_typeof(r.c' || n || ')::pg_catalog.oid' END,
               ', ' ORDER BY place), '') || ']::pg_catalog.oid[] FROM '
           || pgtrickle.name_columns(relation, numbers, rows) || ' LIMIT 1'
      FROM unnest(numbers) WITH ORDINALITY AS one (n, place)
$$;

COMMENT ON FUNCTION pgtrickle.ask_column_types(oid, int2[], text) IS
    'Write the query that tells the types columns have now; of no rows there is no answer.';

CREATE FUNCTION pgtrickle.find_base_type(type oid)
RETURNS oid
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    base oid;
BEGIN
    LOOP
        SELECT t.typbasetype INTO base FROM pg_type AS t WHERE t.oid = type AND t.typtype = 'd';
        EXIT WHEN base IS NULL;
        type := base;
    END LOOP;
    RETURN type;
END
$$;

COMMENT ON FUNCTION pgtrickle.find_base_type(oid) IS 'What a domain is based on in the end.';

-- A column that is gone or has another type stays NULL: whoever reads it starts anew, because its
-- number or type or the file of its table is another one.  Types that are stored alike may change
-- into one another and back without any of that, so their values are kept.
CREATE FUNCTION pgtrickle.write_changes(
    relation oid, buffer text, names text[], numbers int2[], captured oid[], present oid[],
    rows text, weight int
)
RETURNS text
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format(
               'INSERT INTO %s (__xid, __weight%s) SELECT pg_catalog.pg_current_xact_id(), %s%s FROM %s',
               buffer, coalesce(string_agg(', ' || quote_ident(name), '' ORDER BY n), ''),
               weight, coalesce(string_agg(', r.c' || n, '' ORDER BY n), ''),
               pgtrickle.name_columns(relation, numbers, rows))
      FROM unnest(names, numbers, captured) AS one (name, n, was)
      JOIN unnest(numbers, present) AS other (n, found) USING (n),
           pgtrickle.find_base_type(found) AS now
     WHERE was = now
        OR EXISTS (SELECT FROM pg_cast AS c
                    WHERE c.castsource = now AND c.casttarget = was
                      AND c.castmethod = 'b' AND c.castcontext IN ('a', 'i'))
$$;

COMMENT ON FUNCTION pgtrickle.write_changes(oid, text, text[], int2[], oid[], oid[], text, int) IS
    'Write the statement that copies rows of a relation into its change buffer.';

REVOKE ALL ON FUNCTION pgtrickle.name_columns(oid, int2[], text),
    pgtrickle.ask_column_types(oid, int2[], text), pgtrickle.find_base_type(oid),
    pgtrickle.write_changes(oid, text, text[], int2[], oid[], oid[], text, int) FROM PUBLIC;

CREATE FUNCTION pgtrickle.list_members(relation oid)
RETURNS SETOF oid
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH RECURSIVE tree (relid) AS (
        SELECT relation
         UNION
        SELECT i.inhrelid
          FROM tree JOIN pg_inherits AS i ON i.inhparent = tree.relid AND NOT i.inhdetachpending
    )
    SELECT relid FROM tree ORDER BY relid
$$;

COMMENT ON FUNCTION pgtrickle.list_members(oid) IS
    'A relation and all its partitions or heirs, at any depth: whose rows a query of it sees.';

CREATE FUNCTION pgtrickle.describe_files(relation oid)
RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN count(*) = 1 THEN min(c.relfilenode::text)
                ELSE md5(string_agg(c.oid || ':' || c.relfilenode, ',' ORDER BY c.oid)) END
      FROM pgtrickle.list_members(relation) AS member
      JOIN pg_class AS c ON c.oid = member
$$;

COMMENT ON FUNCTION pgtrickle.describe_files(oid) IS
    'Which files store a relation and its members: others mean that rows were written anew.';

CREATE FUNCTION pgtrickle.describe_layout(relation oid)
RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT md5(string_agg(
               c.oid || ':' || c.relfilenode || ':' || (
                   SELECT string_agg(a.attnum || ' ' || a.atttypid, ',' ORDER BY a.attnum)
                     FROM pg_attribute AS a
                    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
               ), ';' ORDER BY c.oid))
      FROM pgtrickle.list_members(relation) AS member
      JOIN pg_class AS c ON c.oid = member
$$;

COMMENT ON FUNCTION pgtrickle.describe_layout(oid) IS
    'The files and column numbers for which the capture functions of a relation are written.';

REVOKE ALL ON FUNCTION pgtrickle.list_members(oid), pgtrickle.describe_files(oid),
    pgtrickle.describe_layout(oid) FROM PUBLIC;

ALTER TABLE pgtrickle.pgt_change_tracking ADD COLUMN layout text;

COMMENT ON COLUMN pgtrickle.pgt_change_tracking.layout IS
    'For which files and column numbers the capture functions were written.';
