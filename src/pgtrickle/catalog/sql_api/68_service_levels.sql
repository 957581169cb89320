-- Service levels: what was promised, what was kept, and who is told

-- In PL/pgSQL, which plans for the window asked for: it reads the index, not the whole history.
CREATE OR REPLACE FUNCTION pgtrickle.measure_service_levels(
    window_hours double precision, promised_only boolean)
RETURNS TABLE (pgt_id bigint, refreshes bigint, p50_ms double precision, p99_ms double precision,
               freshness_lag_s double precision, error_rate double precision,
               error_budget_remaining double precision, sla_s double precision,
               breach_s double precision)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    began     timestamptz := statement_timestamp() - make_interval(secs => window_hours * 3600);
    -- The share of refreshes, or of time, that may fail.
    tolerated double precision := pgtrickle.number_setting('sla_error_budget_percent') / 100;
BEGIN
    IF window_hours IS NULL OR NOT window_hours > 0 OR window_hours > 876000 THEN
        RAISE EXCEPTION 'a window of % hours cannot be measured', window_hours
              USING ERRCODE = 'ST501', HINT = 'Give a number of hours above 0, up to 876,000.';
    END IF;
    RETURN QUERY
    WITH recent AS (
        SELECT h.pgt_id, count(*) AS number,
               percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (
                   ORDER BY extract(epoch FROM h.end_time - h.start_time)::double precision * 1000)
                   AS took,
               avg(CASE WHEN h.status = 'FAILED' THEN 1.0 ELSE 0.0 END)::double precision AS failed
          FROM pgtrickle.pgt_refresh_history AS h
         WHERE h.start_time > began AND h.end_time IS NOT NULL
           AND (NOT promised_only
                OR h.pgt_id IN (SELECT v.pgt_id FROM pgtrickle.pgt_service_levels AS v))
         GROUP BY h.pgt_id
    ), attempts AS (
        -- Attempts that failed, and the one that then succeeded, are one wait of what they bring.
        SELECT h.pgt_id, h.start_time, h.end_time, h.status = 'COMPLETED' AS done,
               count(*) FILTER (WHERE h.status = 'COMPLETED')
                   OVER (PARTITION BY h.pgt_id ORDER BY h.start_time, h.refresh_id
                         ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS turn
          FROM pgtrickle.pgt_service_levels AS v
          JOIN pgtrickle.pgt_refresh_history AS h ON h.pgt_id = v.pgt_id
         WHERE h.start_time > began AND h.start_time > v.set_at AND h.end_time IS NOT NULL
           AND h.status IN ('COMPLETED', 'FAILED')
    ), waits AS (
        SELECT a.pgt_id, min(a.start_time) AS tried,
               CASE WHEN bool_or(a.done) THEN max(a.end_time) ELSE clock_timestamp() END AS ended,
               lag(max(a.start_time)) OVER (PARTITION BY a.pgt_id ORDER BY a.turn) AS shown
          FROM attempts AS a GROUP BY a.pgt_id, a.turn
    ), missed AS (
        -- A change may have come as soon as the last look was over; looks that find nothing leave
        -- no row, but are never further apart than the schedule says.
        SELECT w.pgt_id, sum(greatest(extract(epoch FROM w.ended - w.tried)
                   + coalesce(least(extract(epoch FROM w.tried - w.shown),
                                    pgtrickle.effective_interval(w.pgt_id)), 0)
                   - v.deadline_seconds, 0))::double precision AS seconds
          FROM waits AS w
          JOIN pgtrickle.pgt_service_levels AS v ON v.pgt_id = w.pgt_id
         GROUP BY w.pgt_id
    ), kept AS (
        SELECT i.pgt_id, i.pgt_schema, i.pgt_name, v.deadline_seconds,
               extract(epoch FROM i.staleness)::double precision AS lag,
               -- What nobody even tries to refresh has no row in the history yet.
               CASE WHEN v.pgt_id IS NOT NULL THEN greatest(
                   coalesce(m.seconds, 0),
                   CASE WHEN i.stale THEN least(extract(epoch FROM i.staleness)::double precision
                                                - v.deadline_seconds,
                                                extract(epoch FROM clock_timestamp()
                                                        - greatest(began, v.set_at)))
                        ELSE 0 END) END AS late
          FROM pgtrickle.stream_tables_info AS i
          LEFT JOIN pgtrickle.pgt_service_levels AS v ON v.pgt_id = i.pgt_id
          LEFT JOIN missed AS m ON m.pgt_id = i.pgt_id
         WHERE v.pgt_id IS NOT NULL OR NOT promised_only
    )
    SELECT k.pgt_id, coalesce(r.number, 0), r.took[1], r.took[2], k.lag, r.failed,
           CASE WHEN k.deadline_seconds IS NULL THEN greatest(1 - r.failed / tolerated, 0)
                ELSE greatest(1 - k.late / (tolerated * window_hours * 3600), 0) END,
           k.deadline_seconds, k.late
      FROM kept AS k LEFT JOIN recent AS r ON r.pgt_id = k.pgt_id;
END
$$;

COMMENT ON FUNCTION pgtrickle.measure_service_levels(double precision, boolean) IS
    'The measurements behind sla_summary and the alerts.';

CREATE OR REPLACE FUNCTION pgtrickle.sla_summary(window_hours double precision DEFAULT NULL)
RETURNS TABLE (name text, refreshes bigint, p50_ms double precision, p99_ms double precision,
               freshness_lag_s double precision, error_rate double precision,
               error_budget_remaining double precision, sla_s double precision,
               breach_s double precision)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
    SELECT format('%I.%I', s.pgt_schema, s.pgt_name), m.refreshes, m.p50_ms, m.p99_ms,
           m.freshness_lag_s, m.error_rate, m.error_budget_remaining, m.sla_s, m.breach_s
      FROM pgtrickle.measure_service_levels(
               coalesce($1, pgtrickle.number_setting('sla_window_hours')), false) AS m
      JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = m.pgt_id
     ORDER BY 1;
END
$$;

COMMENT ON FUNCTION pgtrickle.sla_summary(double precision) IS
    'The times of refreshes, the age of the contents, the failures and, if a service level is set, the seconds'
    ' beyond it; and the remaining share of the error budget, which is sla_error_budget_percent: of the'
    ' refreshes, or of the time if a service level is set.';

-- The daemon asks this again and again, and tells what it returns; several daemons tell it once.
CREATE OR REPLACE FUNCTION pgtrickle.take_sla_alerts(
    window_hours double precision, cooldown_seconds double precision)
RETURNS TABLE (pgt_schema text, pgt_name text, event text, facts jsonb)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH measured AS (
        SELECT m.*, CASE WHEN m.error_budget_remaining <= 0 THEN 100
                         WHEN m.error_budget_remaining <= 0.5 THEN 50 ELSE 0 END AS spent
          FROM pgtrickle.measure_service_levels(window_hours, true) AS m
    ), changed AS (
        UPDATE pgtrickle.pgt_service_levels AS v
           SET spent_told = m.spent
          FROM measured AS m, pgtrickle.pgt_service_levels AS former
         WHERE m.pgt_id = v.pgt_id AND former.pgt_id = v.pgt_id AND v.spent_told <> m.spent
        RETURNING v.pgt_id, m.spent, former.spent_told AS told, m.sla_s, m.breach_s,
                  m.error_budget_remaining
    )
    SELECT s.pgt_schema, s.pgt_name, 'sla_budget_spent',
           jsonb_build_object('spent_percent', c.spent, 'sla_s', c.sla_s, 'breach_s', c.breach_s,
                              'error_budget_remaining', c.error_budget_remaining)
      FROM changed AS c JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = c.pgt_id
     WHERE c.spent > c.told;

    RETURN QUERY
    WITH expected AS (
        SELECT v.pgt_id, v.deadline_seconds AS sla_s,
               greatest(pgtrickle.effective_interval(v.pgt_id) + t.took[2],
                        CASE WHEN i.stale OR i.failing
                             THEN extract(epoch FROM i.staleness) + t.took[1] END) AS seconds
          FROM pgtrickle.pgt_service_levels AS v
          JOIN pgtrickle.stream_tables_info AS i ON i.pgt_id = v.pgt_id,
               LATERAL (
                   SELECT percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY l.took) AS took
                     FROM (SELECT extract(epoch FROM h.end_time - h.start_time)::double precision
                                      AS took
                             FROM pgtrickle.pgt_refresh_history AS h
                            WHERE h.pgt_id = v.pgt_id AND h.status = 'COMPLETED'
                              AND h.action IN ('DIFFERENTIAL', 'FULL')
                              AND h.initiated_by <> 'INITIAL'
                            ORDER BY h.start_time DESC LIMIT 20) AS l) AS t
    ), told AS (
        UPDATE pgtrickle.pgt_service_levels AS v
           SET predicted_at = clock_timestamp()
          FROM expected AS e
         WHERE e.pgt_id = v.pgt_id AND e.seconds > e.sla_s
           AND coalesce(v.predicted_at < clock_timestamp() - make_interval(secs => cooldown_seconds),
                        true)
        RETURNING v.pgt_id, e.sla_s, e.seconds
    )
    SELECT s.pgt_schema, s.pgt_name, 'predicted_sla_breach',
           jsonb_build_object('sla_s', t.sla_s, 'predicted_s', round(t.seconds::numeric, 3))
      FROM told AS t JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = t.pgt_id;
END
$$;

COMMENT ON FUNCTION pgtrickle.take_sla_alerts(double precision, double precision) IS
    'The alerts on service levels that are to be sent now; they count as sent.';
