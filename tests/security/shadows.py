"""A schema in which everything that ``pg_catalog`` has stands once more, as a trap.

Each trap draws a number from a sequence, which no rollback takes back, and raises.  For operators
and functions there are also closer matches than PostgreSQL's own, for calls that are resolved by
conversion.
"""

from __future__ import annotations

from tests.security.bench import Bench

SCHEMA = "hostile"

_MAKE_TRAPS = r"""
    DO $do$
    DECLARE
        one record;
        body constant text := $body$
            BEGIN
                PERFORM pg_catalog.nextval('hostile.calls');
                RAISE EXCEPTION 'stolen: %s' USING ERRCODE = 'XX666';
            END $body$;
        types constant text[] := ARRAY['int2', 'int4', 'int8', 'oid', 'numeric', 'float8', 'text',
            'varchar', 'bpchar', 'name', '"char"', 'bool', 'regclass', 'regproc', 'xid8', 'tid',
            'timestamptz', 'date', 'jsonb', 'text[]', 'oid[]', 'name[]', 'int8[]'];
        made int := 0;
    BEGIN
        FOR one IN
            -- As they are.
            SELECT p.proname AS name, pg_catalog.array_to_string(ARRAY(
                       SELECT CASE WHEN t.i = pg_catalog.cardinality(p.proargtypes::oid[])
                                        AND p.provariadic <> 0 THEN 'VARIADIC ' ELSE '' END
                              || pg_catalog.format_type(t.oid, NULL)
                         FROM pg_catalog.unnest(p.proargtypes::oid[]) WITH ORDINALITY AS t (oid, i)
                        ORDER BY t.i), ', ') AS arguments,
                   CASE WHEN p.proretset THEN 'SETOF ' ELSE '' END
                       || pg_catalog.format_type(p.prorettype, NULL) AS result
              FROM pg_catalog.pg_proc AS p
             WHERE p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace
               AND p.prokind IN ('f', 'a', 'w')
               AND p.prorettype::pg_catalog.regtype::text
                   NOT IN ('internal', 'cstring', 'trigger', 'event_trigger', 'language_handler',
                           'fdw_handler', 'index_am_handler', 'table_am_handler', 'tsm_handler')
               AND NOT 'internal'::pg_catalog.regtype::oid = ANY (p.proargtypes::oid[])
               AND NOT 'cstring'::pg_catalog.regtype::oid = ANY (p.proargtypes::oid[])
               AND p.proargtypes::oid[] <> ARRAY[2276]::oid[]  -- "any"
            UNION ALL
            -- Nearer than they are.
            SELECT f.name, pg_catalog.concat_ws(', ', a.type, b.type), f.result
              FROM (VALUES ('generate_series', 'SETOF int8'), ('set_config', 'text'),
                           ('quote_literal', 'text'), ('array_position', 'int4'),
                           ('hash_record_extended', 'int8'), ('to_regclass', 'regclass'),
                           ('format_type', 'text'), ('obj_description', 'text'))
                       AS f (name, result),
                   pg_catalog.unnest(types) AS a (type),
                   pg_catalog.unnest(types || ARRAY[NULL]) AS b (type)
        LOOP
            BEGIN
                EXECUTE pg_catalog.format(
                    'CREATE FUNCTION hostile.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L',
                    one.name, one.arguments, one.result, pg_catalog.format(body, one.name));
                made := made + 1;
            EXCEPTION WHEN OTHERS THEN NULL;  -- what no language can take
            END;
        END LOOP;
        IF made < 2500 THEN
            RAISE EXCEPTION 'only % functions are shadowed', made;
        END IF;
        made := 0;
        FOR one IN
            SELECT o.oprname AS name, pg_catalog.format_type(NULLIF(o.oprleft, 0), NULL) AS l,
                   pg_catalog.format_type(o.oprright, NULL) AS r,
                   pg_catalog.format_type(o.oprresult, NULL) AS result
              FROM pg_catalog.pg_operator AS o
             WHERE o.oprnamespace = 'pg_catalog'::pg_catalog.regnamespace
            UNION ALL
            SELECT n.name, l.type, r.type,
                   CASE WHEN n.name IN ('+', '-', '*', '/') THEN 'int8'
                        WHEN n.name = '||' THEN 'text' ELSE 'bool' END
              FROM pg_catalog.unnest(ARRAY['=', '<>', '<', '>', '<=', '>=', '~', '~~', '+', '-',
                                           '*', '/', '||']) AS n (name),
                   pg_catalog.unnest(types) AS l (type), pg_catalog.unnest(types) AS r (type)
        LOOP
            made := made + 1;
            BEGIN
                EXECUTE pg_catalog.format(
                    'CREATE FUNCTION hostile.op_%s(%s) RETURNS %s LANGUAGE plpgsql AS %L',
                    made, pg_catalog.concat_ws(', ', one.l, one.r), one.result,
                    pg_catalog.format(body, pg_catalog.replace(one.name, '%', '%%')));
                EXECUTE pg_catalog.format(
                    'CREATE OPERATOR hostile.%s (FUNCTION = hostile.op_%s, %s RIGHTARG = %s)',
                    one.name, made, 'LEFTARG = ' || one.l || ',', one.r);
            EXCEPTION WHEN OTHERS THEN NULL;  -- the same twice
            END;
        END LOOP;
        FOR one IN
            SELECT c.relname AS name,
                   (SELECT pg_catalog.string_agg(
                               CASE WHEN a.atttypid = 2277 THEN 'NULL::text AS ' ELSE '' END
                               || pg_catalog.quote_ident(a.attname), ', ' ORDER BY a.attnum)
                      FROM pg_catalog.pg_attribute AS a
                     WHERE a.attrelid = c.oid AND a.attnum > 0) AS columns
              FROM pg_catalog.pg_class AS c
             WHERE c.relnamespace = 'pg_catalog'::pg_catalog.regnamespace
               AND c.relkind IN ('r', 'v')
               AND pg_catalog.has_table_privilege(c.oid, 'SELECT')
        LOOP
            EXECUTE pg_catalog.format(
                'CREATE VIEW hostile.%1$I AS SELECT %2$s FROM pg_catalog.%1$I WHERE hostile.trap()',
                one.name, one.columns);
        END LOOP;
        FOR one IN
            SELECT t.typname AS name FROM pg_catalog.pg_type AS t
             WHERE t.typnamespace = 'pg_catalog'::pg_catalog.regnamespace
               AND t.typtype IN ('b', 'r') AND t.typname !~ '^(_|pg_)'
        LOOP
            EXECUTE pg_catalog.format(
                'CREATE DOMAIN hostile.%1$I AS pg_catalog.%1$I CHECK (hostile.trap())', one.name);
        END LOOP;
    END $do$
"""

# Piece by piece: a statement that drops all of them at once needs too many locks.
_DROP_TRAPS = """
    DO $do$
    DECLARE
        one record;
    BEGIN
        SET client_min_messages = error;
        FOR one IN
            SELECT p.oid::pg_catalog.regprocedure AS name,
                   pg_catalog.row_number() OVER () AS number
              FROM pg_catalog.pg_proc AS p
             WHERE p.pronamespace = 'hostile'::pg_catalog.regnamespace
        LOOP
            EXECUTE pg_catalog.format('DROP FUNCTION %s CASCADE', one.name);
            IF one.number % 500 = 0 THEN
                COMMIT;
            END IF;
        END LOOP;
    END $do$
"""


def set_traps(bench: Bench) -> None:
    """Let the attacker fill a schema, which then is the first on the owner's path."""
    bench.resources.callback(bench.run, "admin", _DROP_TRAPS)
    bench.run("admin", f"CREATE SCHEMA {SCHEMA} AUTHORIZATION {{attacker}}")
    bench.run(
        "attacker",
        "CREATE SEQUENCE hostile.calls",
        "GRANT USAGE ON SCHEMA hostile TO PUBLIC",
        "GRANT ALL ON SEQUENCE hostile.calls TO PUBLIC",
        "CREATE FUNCTION hostile.trap() RETURNS pg_catalog.bool LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_catalog.nextval(''hostile.calls'');"
        " RAISE EXCEPTION ''stolen''; END'",
        f"SET check_function_bodies = off; {_MAKE_TRAPS}",
        "GRANT SELECT ON ALL TABLES IN SCHEMA hostile TO PUBLIC",
    )
    bench.run(
        "admin",
        "ALTER ROLE {owner} IN DATABASE {database} SET search_path = hostile, public, pg_catalog",
    )


def count_calls(bench: Bench) -> int:
    """Return how often something of the attacker's ran."""
    query = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM hostile.calls"
    return int(str(bench.value("admin", query)))
