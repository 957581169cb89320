-- Settings that the database holds

CREATE OR REPLACE FUNCTION pgtrickle.set_setting(name text, value text, author text DEFAULT current_user)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    known  record;
    number double precision;
    fits   boolean := true;
BEGIN
    SELECT s.* INTO known FROM pgtrickle.pgt_settings AS s WHERE s.name = set_setting.name;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no setting "%"', set_setting.name
              USING ERRCODE = 'ST501',
                    HINT = 'List them with: SELECT * FROM pgtrickle.show_settings().';
    END IF;
    IF set_setting.value IS NOT NULL THEN
        IF known.type IN ('int', 'float') THEN
            fits := set_setting.value ~ CASE known.type WHEN 'int' THEN '^-?[0-9]{1,18}$'
                                        ELSE '^-?[0-9]{1,18}(\.[0-9]{1,18})?$' END;
            number := CASE WHEN fits THEN set_setting.value::double precision END;
            fits := fits AND coalesce(number >= known.low, true)
                    AND coalesce(number <= known.high, true);
        ELSIF known.type = 'bool' THEN
            fits := lower(set_setting.value) IN ('true', 'on', '1', 'false', 'off', '0');
        ELSIF known.choices <> '{}' THEN
            fits := set_setting.value = ANY (known.choices);
        END IF;
        IF NOT fits THEN
            RAISE EXCEPTION 'the setting "%" cannot be "%"', set_setting.name, set_setting.value
                  USING ERRCODE = 'ST501', HINT = format(
                      'It is of the type %s%s%s.', known.type,
                      ', from ' || known.low || coalesce(' to ' || known.high, ''),
                      ', one of ' || nullif(array_to_string(known.choices, ', '), ''));
        END IF;
    END IF;
    UPDATE pgtrickle.pgt_settings AS s
       SET value = set_setting.value, updated_at = clock_timestamp(), updated_by = author
     WHERE s.name = set_setting.name;
END
$$;

COMMENT ON FUNCTION pgtrickle.set_setting(text, text, text) IS
    'Give a setting a value for this database, or NULL for its default; processes follow within two seconds.';

CREATE OR REPLACE FUNCTION pgtrickle.show_settings()
RETURNS TABLE (name text, value text, source text, default_value text, unit text,
               low double precision, high double precision, choices text[], doc text,
               needs_restart boolean)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT s.name, coalesce(own.value, s.value, s.default_value),
           CASE WHEN own.value IS NOT NULL THEN 'session' WHEN s.value IS NOT NULL THEN 'table'
                ELSE 'default' END,
           s.default_value, s.unit, s.low, s.high, s.choices, s.doc, s.needs_restart
      FROM pgtrickle.pgt_settings AS s,
           nullif(current_setting('pg_trickle.' || s.name, true), '') AS own (value)
     ORDER BY s.name
$$;

COMMENT ON FUNCTION pgtrickle.show_settings() IS
    'Every setting with its value in the database, where that comes from, and whether it needs a restart.';

CREATE OR REPLACE FUNCTION pgtrickle.number_setting(name text)
RETURNS double precision
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(CASE WHEN own.value ~ '^[0-9]{1,9}(\.[0-9]{1,9})?$' THEN own.value END, s.value,
                    s.default_value)::double precision
      FROM pgtrickle.pgt_settings AS s,
           nullif(current_setting('pg_trickle.' || s.name, true), '') AS own (value)
     WHERE s.name = number_setting.name AND s.type IN ('int', 'float')
$$;

COMMENT ON FUNCTION pgtrickle.number_setting(text) IS
    'The value of a setting that is a number, for this session.';
