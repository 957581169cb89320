-- The planner: which interval and which mode the history of a stream table speaks for

-- The rule, for what lists stream tables: calls of the function for a thousand cost more than the rest.
CREATE OR REPLACE VIEW pgtrickle.effective_intervals AS
    SELECT s.pgt_id,
           CASE s.tier WHEN 'hot' THEN 1 WHEN 'warm' THEN 2 WHEN 'cold' THEN 10 END
           * CASE WHEN s.schedule <> 'calculated' THEN pgtrickle.parse_duration_seconds(s.schedule)
                  WHEN NOT EXISTS (SELECT FROM pgtrickle.pgt_dependencies AS d
                                    WHERE d.source_relid = s.pgt_relid) THEN 1 END AS seconds
      FROM pgtrickle.pgt_stream_tables AS s;

COMMENT ON VIEW pgtrickle.effective_intervals IS
    'The seconds from one refresh of each stream table to the next: see effective_interval.';

CREATE OR REPLACE FUNCTION pgtrickle.effective_interval(stream_table bigint)
RETURNS double precision
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT e.seconds FROM pgtrickle.effective_intervals AS e
     WHERE e.pgt_id = effective_interval.stream_table
$$;

COMMENT ON FUNCTION pgtrickle.effective_interval(bigint) IS
    'The seconds from one refresh to the next, by schedule and tier; NULL for cron, for the frozen, and where'
    ' consumers decide.';

-- Numbers as cron writes them: {0,9,10,11} is 0,9-11.
CREATE OR REPLACE FUNCTION pgtrickle.cron_list(numbers integer[])
RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT string_agg(CASE WHEN low = high THEN low::text ELSE low || '-' || high END, ',' ORDER BY low)
      FROM (SELECT min(one) AS low, max(one) AS high
              FROM (SELECT one, one - row_number() OVER (ORDER BY one) AS run
                      FROM unnest(numbers) AS one) AS numbered
             GROUP BY run) AS runs
$$;

COMMENT ON FUNCTION pgtrickle.cron_list(integer[]) IS
    'Numbers as a field of cron, with ranges.';

-- When most changes come: hours with half as much again as the average hour, on the days that have
-- at least half of the average day.  One refresh with a mass of rows makes no peak: it counts as
-- much as the largest usual one.
CREATE OR REPLACE FUNCTION pgtrickle.find_peak_window(moments timestamptz[], amounts double precision[])
RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH zone AS (
        -- The zone in which the scheduler reads cron, whatever this session has set.
        SELECT z.reset_val AS name FROM pg_settings AS z WHERE z.name = 'TimeZone'
    ), usual AS (
        SELECT percentile_disc(0.95) WITHIN GROUP (ORDER BY one) AS most FROM unnest(amounts) AS one
    ), course AS (
        SELECT extract(dow FROM c.at AT TIME ZONE z.name)::integer AS day,
               extract(hour FROM c.at AT TIME ZONE z.name)::integer AS hour,
               least(c.amount, u.most) AS amount
          FROM unnest(moments, amounts) AS c (at, amount), zone AS z, usual AS u
    ), span AS (
        SELECT extract(epoch FROM max(m) - min(m)) / 86400 AS days FROM unnest(moments) AS m
    ), days AS (
        -- Less than two weeks do not tell one day from another.
        SELECT array_agg(d.day) AS busy
          FROM (SELECT n AS day, coalesce(sum(c.amount), 0) AS amount
                  FROM generate_series(0, 6) AS n LEFT JOIN course AS c ON c.day = n
                 GROUP BY n) AS d
         WHERE (SELECT s.days FROM span AS s) < 13.5
            OR d.amount >= (SELECT sum(c.amount) / 14 FROM course AS c)
    ), hours AS (
        SELECT array_agg(h.hour) AS busy
          FROM (SELECT c.hour, sum(c.amount) AS amount, sum(sum(c.amount)) OVER () / 24 AS usual,
                       sum(count(*)) OVER () / 24 AS refreshes
                  FROM course AS c, days AS d WHERE c.day = ANY (d.busy)
                 GROUP BY c.hour) AS h
         -- The fewer refreshes, the more of it is chance.
         WHERE h.amount >= h.usual * (1 + greatest(0.5, 4 / sqrt(h.refreshes)))
    )
    SELECT format('* %s * * %s', pgtrickle.cron_list(h.busy),
                  CASE WHEN cardinality(d.busy) = 7 THEN '*' ELSE pgtrickle.cron_list(d.busy) END)
      FROM hours AS h, days AS d, span AS s
     WHERE s.days >= 2 AND cardinality(h.busy) > 0
$$;

COMMENT ON FUNCTION pgtrickle.find_peak_window(timestamptz[], double precision[]) IS
    'When most changes come, as a cron expression that is true in every minute of it; NULL if no time stands out.';

-- The rule of the planner; docs/scheduling.md says what it is to find, and why.
CREATE OR REPLACE FUNCTION pgtrickle.plan_schedule(stream_table bigint)
RETURNS TABLE (recommended_interval_seconds double precision, peak_window_cron text,
               confidence double precision, reasoning text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
    latest    constant integer := 20000;              -- refreshes that are looked at
    of_wait   constant double precision := 0.0001;    -- seconds of work that a second of waiting is worth
    of_check  constant double precision := 0.005;     -- seconds that a check takes that finds nothing
    step      constant double precision := 0.05;      -- of intervals that are compared, as logarithms
    longest   constant double precision := 86400;
    needed    integer := pgtrickle.number_setting('schedule_recommendation_min_samples')::integer;
    since     bigint := (SELECT s.measured_since FROM pgtrickle.pgt_stream_tables AS s
                          WHERE s.pgt_id = stream_table);
    deadline  double precision := (SELECT v.deadline_seconds FROM pgtrickle.pgt_service_levels AS v
                                    WHERE v.pgt_id = stream_table);
    samples   integer;
    seconds   double precision;
    found     record;
    best      record;
    upper_end double precision;
BEGIN
    -- The confidence depends on how much history there is, and on nothing else.
    SELECT count(*) INTO samples
      FROM (SELECT FROM pgtrickle.pgt_refresh_history AS h
             WHERE h.pgt_id = stream_table AND h.refresh_id > since AND h.status = 'COMPLETED'
               AND h.action IN ('DIFFERENTIAL', 'FULL') AND h.initiated_by <> 'INITIAL'
             ORDER BY h.start_time LIMIT latest) AS counted;
    IF samples < greatest(needed, 2) THEN
        confidence := 0;
        reasoning := format('%s refreshes with changes are on record, of the %s that it takes',
                            samples, greatest(needed, 2));
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT extract(epoch FROM max(h.start_time) - min(h.start_time)) INTO seconds
      FROM pgtrickle.pgt_refresh_history AS h
     WHERE h.pgt_id = stream_table AND h.refresh_id > since AND h.status = 'COMPLETED'
       AND h.action IN ('DIFFERENTIAL', 'FULL') AND h.initiated_by <> 'INITIAL';
    confidence := round((samples::numeric / (samples + needed))
                        * (0.5 + 0.5 * least(seconds / 604800, 1))::numeric, 3);

    WITH past AS MATERIALIZED (
        SELECT h.at, h.took, h.amount, h.busy, h.action = 'NO_DATA' AS empty,
               extract(epoch FROM h.at - lag(h.at) OVER (ORDER BY h.at, h.refresh_id))::double precision
                   AS gap,
               h.initiated_by = 'SCHEDULER' AS scheduled
          FROM (SELECT p.refresh_id, p.start_time AS at, p.action, p.initiated_by,
                       coalesce(p.actual_ms / 1000, extract(epoch FROM p.end_time - p.start_time))
                           ::double precision AS took,
                       greatest(coalesce(p.changed_rows, p.delta_row_count), 1)::double precision
                           AS amount,
                       p.action IN ('DIFFERENTIAL', 'FULL') AND p.initiated_by <> 'INITIAL' AS busy
                  FROM pgtrickle.pgt_refresh_history AS p
                 WHERE p.pgt_id = stream_table AND p.refresh_id > since AND p.status = 'COMPLETED'
                 ORDER BY p.start_time DESC LIMIT latest) AS h
    ), pace AS (
        -- Idle checks leave no row, so only the shortest gaps tell how often it is looked.
        SELECT coalesce(percentile_disc(0.05) WITHIN GROUP (ORDER BY p.gap) FILTER (WHERE p.scheduled),
                        percentile_disc(0.5) WITHIN GROUP (ORDER BY p.gap)) AS pace
          FROM past AS p WHERE p.gap > 0
    ), ranked AS (
        SELECT p.took, p.amount, ntile(3) OVER (ORDER BY p.amount) AS third FROM past AS p WHERE p.busy
    ), thirds AS (
        SELECT r.third, percentile_cont(0.5) WITHIN GROUP (ORDER BY r.took) AS took,
               percentile_cont(0.5) WITHIN GROUP (ORDER BY r.amount) AS amount
          FROM ranked AS r GROUP BY r.third
    ), slope AS (
        -- Tukey's resistant line: outliers do not turn it.  Amounts that are all alike tell no slope.
        SELECT coalesce((SELECT greatest((high.took - low.took) / (high.amount - low.amount), 0)
                           FROM thirds AS low, thirds AS high
                          WHERE low.third = 1 AND high.third = 3
                            AND high.amount >= 2 * low.amount), 0) AS per_row
    ), line AS (
        SELECT s.per_row,
               greatest(percentile_cont(0.5) WITHIN GROUP (ORDER BY p.took - s.per_row * p.amount),
                        0.001) AS fixed,
               greatest(percentile_cont(0.95) WITHIN GROUP (ORDER BY p.took - s.per_row * p.amount),
                        0.001) AS fixed_high,
               percentile_cont(0.99) WITHIN GROUP (ORDER BY p.took) AS took_high
          FROM past AS p, slope AS s WHERE p.busy GROUP BY s.per_row
    ), seen AS MATERIALIZED (
        SELECT b.*, least(b.gap, c.pace) AS looked,
               b.quiet > 1.5 * c.pace AND b.next_quiet > 1.5 * c.pace AS alone
          FROM (SELECT p.at, p.amount, p.gap,
                       extract(epoch FROM p.at - lag(p.at) OVER moment)::double precision AS quiet,
                       extract(epoch FROM lead(p.at) OVER moment - p.at)::double precision
                           AS next_quiet
                  FROM past AS p WHERE p.busy WINDOW moment AS (ORDER BY p.at)) AS b, pace AS c
    ), batch AS (
        -- Several rows with nothing before and after them came at one moment, as a batch does.  If
        -- that is usual, those with neighbours are such batches, too, and not rows one by one.
        SELECT CASE WHEN count(*) FILTER (WHERE s.alone) >= 0.25 * count(*)
                    THEN percentile_cont(0.5) WITHIN GROUP (ORDER BY s.amount) FILTER (WHERE s.alone)
               END AS amount
          FROM seen AS s
    ), course AS MATERIALIZED (
        SELECT s.*, CASE WHEN s.alone THEN 1
                         WHEN b.amount >= 5 THEN greatest(s.amount / b.amount, 1)
                         ELSE s.amount END AS moments
          FROM seen AS s, batch AS b
    ), gaps AS (
        -- Those of others are taken as spread evenly over the time since it was last looked.  When in
        -- that time a single one came is not known: the time since the one before is less or more,
        -- by the standard deviation of the difference of two such moments.
        SELECT gap, sum(number) AS number, sum(number * gap) AS total
          FROM (SELECT exp(round(ln(greatest(g.gap, 0.001)) / step) * step) AS gap, g.number
                  FROM course AS c,
                       LATERAL (SELECT greatest(c.quiet - c.looked, 0) + c.looked / c.moments AS before,
                                       CASE WHEN c.moments < 1.5 THEN c.looked / sqrt(6) ELSE 0 END
                                           AS unsure) AS m,
                       LATERAL (VALUES (c.looked / c.moments, c.moments - 1),
                                       (m.before - m.unsure, 0.5), (m.before + m.unsure, 0.5))
                           AS g (gap, number)
                 WHERE c.quiet > 0 AND g.number > 0) AS each
         GROUP BY gap
    )
    SELECT l.*, c.pace, e.took AS empty, r.rate, w.seconds AS observed, g.gaps, g.numbers,
           pgtrickle.find_peak_window(k.moments, k.amounts) AS peak
      INTO found
      FROM line AS l, pace AS c,
           LATERAL (SELECT CASE WHEN count(*) >= 5
                                THEN percentile_cont(0.5) WITHIN GROUP (ORDER BY p.took)
                                ELSE of_check END AS took FROM past AS p WHERE p.empty) AS e,
           LATERAL (SELECT percentile_cont(0.95) WITHIN GROUP (ORDER BY k.amount / k.looked) AS rate
                      FROM course AS k WHERE k.looked > 0) AS r,
           LATERAL (SELECT array_agg(k.at) AS moments, array_agg(k.amount) AS amounts
                      FROM course AS k) AS k,
           LATERAL (SELECT sum(g.total) AS seconds FROM gaps AS g) AS w,
           LATERAL (SELECT array_agg(g.gap) AS gaps, array_agg(g.number) AS numbers
                      FROM gaps AS g) AS g;
    IF found.observed IS NULL THEN
        confidence := 0;
        reasoning := format('all %s refreshes on record began at one moment', samples);
        RETURN NEXT;
        RETURN;
    END IF;

    upper_end := deadline - found.took_high;
    -- By how long it is from one change to the next, for every interval T: how many of its windows
    -- hold a change, and how long the first change in each waits for the end of it.
    SELECT c.seconds, c.work, c.waits, c.busy, c.keeps_up INTO best
      FROM (SELECT t.seconds,
                   -- A refresh must end before the next begins, with what came in meanwhile.
                   found.fixed_high + found.per_row * coalesce(found.rate, 0) * t.seconds <= t.seconds
                       AS keeps_up,
                   t.seconds <= coalesce(upper_end, t.seconds) AS in_time,
                   (found.fixed * b.busy + found.empty * (1 - b.busy)) / t.seconds AS work,
                   b.waits, b.busy
              FROM (SELECT exp(n * step) AS seconds
                      FROM generate_series(0, floor(ln(longest) / step)::integer) AS n
                     UNION SELECT upper_end WHERE upper_end >= 1) AS t,
                   LATERAL (SELECT least(sum(g.number * least(g.gap, t.seconds)) / found.observed, 1)
                                       AS busy,
                                   sum(g.number * (t.seconds ^ 3
                                        - (t.seconds - least(g.gap, t.seconds)) ^ 3))
                                       / (6 * t.seconds * found.observed) AS waits
                              FROM unnest(found.gaps, found.numbers) AS g (gap, number)) AS b) AS c
     ORDER BY c.keeps_up DESC, c.in_time DESC,
              CASE WHEN NOT c.keeps_up THEN -c.seconds WHEN NOT c.in_time THEN c.seconds
                   ELSE c.work + of_wait * c.waits END
     LIMIT 1;

    recommended_interval_seconds := greatest(
        CASE WHEN best.seconds <= upper_end THEN floor(best.seconds + 1e-6)
             ELSE round(best.seconds) END, 1);
    peak_window_cron := found.peak;
    reasoning := format(
        '%s refreshes in %s hours: each takes %s s and %s ms per 1,000 changed rows. At one every %s s,'
        ' %s %% would find changes; they would do %s s of work an hour, and at any time changes would'
        ' have waited %s s on average. Work and waiting together cost least so%s',
        samples, round((seconds / 3600)::numeric, 1), round(found.fixed::numeric, 3),
        round((found.per_row * 1e6)::numeric, 1), recommended_interval_seconds,
        round((best.busy * 100)::numeric, 1), round((best.work * 3600)::numeric, 1),
        round(best.waits::numeric, 1),
        CASE WHEN NOT best.keeps_up
             THEN ', though changes come faster than refreshes can follow at their peak'
             WHEN best.seconds > upper_end
             THEN format(', though the service level of %s s cannot be kept', round(deadline::numeric, 1))
             WHEN upper_end IS NOT NULL
             THEN format(' within %s s, which the service level of %s s allows', floor(upper_end),
                         round(deadline::numeric, 1)) ELSE '' END);
    RETURN NEXT;
END
$$;

COMMENT ON FUNCTION pgtrickle.plan_schedule(bigint) IS
    'The interval at which the work of refreshes and the waiting of changes together cost least.';

CREATE OR REPLACE FUNCTION pgtrickle.recommend_schedule(
    name text, schemas name[] DEFAULT current_schemas(false))
RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT to_jsonb(p) FROM pgtrickle.plan_schedule(pgtrickle.find_stream_table($1, $2)) AS p
$$;

COMMENT ON FUNCTION pgtrickle.recommend_schedule(text, name[]) IS
    'The interval that the history of a stream table speaks for, when most changes come, how sure that is'
    ' (0 to 1), and why.';

-- Each costs a look through a history: a console asks for those that it shows.
CREATE OR REPLACE FUNCTION pgtrickle.console_advice(ids bigint[] DEFAULT NULL, max_rows integer DEFAULT NULL)
RETURNS TABLE (name text, schedule text, current_interval_seconds double precision,
               recommended_interval_seconds double precision, delta_pct double precision,
               peak_window_cron text, confidence double precision, reasoning text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('%I.%I', s.pgt_schema, s.pgt_name), s.schedule, e.seconds,
           p.recommended_interval_seconds,
           100 * (p.recommended_interval_seconds - e.seconds) / e.seconds, p.peak_window_cron,
           p.confidence, p.reasoning
      FROM (SELECT t.pgt_id, t.pgt_schema, t.pgt_name, t.schedule
              FROM pgtrickle.pgt_stream_tables AS t
             WHERE t.pgt_schema <> 'pgtrickle_state' AND t.refresh_mode <> 'IMMEDIATE'
               AND (console_advice.ids IS NULL OR t.pgt_id = ANY (console_advice.ids))
             ORDER BY t.pgt_schema, t.pgt_name LIMIT console_advice.max_rows) AS s,
           pgtrickle.effective_interval(s.pgt_id) AS e (seconds),
           pgtrickle.plan_schedule(s.pgt_id) AS p
     ORDER BY 1
$$;

COMMENT ON FUNCTION pgtrickle.console_advice(bigint[], integer) IS
    'The recommended interval of some stream tables, beside the one in effect: of all without ids.';

CREATE OR REPLACE FUNCTION pgtrickle.schedule_recommendations()
RETURNS TABLE (name text, schedule text, current_interval_seconds double precision,
               recommended_interval_seconds double precision, delta_pct double precision,
               peak_window_cron text, confidence double precision, reasoning text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT * FROM pgtrickle.console_advice(NULL, NULL)
$$;

COMMENT ON FUNCTION pgtrickle.schedule_recommendations() IS
    'The recommended interval of each stream table, and by how many percent it differs from the one in effect.';

-- What a refresh would have cost in the other mode was predicted when it ran.
CREATE OR REPLACE FUNCTION pgtrickle.recommend_refresh_mode(
    name text DEFAULT NULL, schemas name[] DEFAULT current_schemas(false))
RETURNS TABLE (stream_table text, current_mode text, effective_mode text,
               recommended_mode text, confidence double precision, reason text, signals jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    wanted  bigint := CASE WHEN $1 IS NOT NULL THEN pgtrickle.find_stream_table($1, $2) END;
    needed  integer := pgtrickle.number_setting('schedule_recommendation_min_samples')::integer;
    enough  constant double precision := 0.9;  -- of the present cost, below which a change pays
BEGIN
    RETURN QUERY
    WITH compared AS (
        SELECT s.*, c.*
          FROM pgtrickle.pgt_stream_tables AS s,
               LATERAL (
                   SELECT count(*) AS samples, sum(k.differential) AS differential,
                          sum(k."full") AS "full", sum(least(k.differential, k."full")) AS better,
                          avg((k."full" < k.differential)::integer)::double precision AS full_share
                     FROM (SELECT CASE h.action WHEN 'DIFFERENTIAL' THEN h.actual_ms
                                       ELSE h.predicted_differential_ms END AS differential,
                                  CASE h.action WHEN 'FULL' THEN h.actual_ms
                                       ELSE h.predicted_full_ms END AS "full"
                             FROM pgtrickle.pgt_refresh_history AS h
                            WHERE h.pgt_id = s.pgt_id AND h.refresh_id > s.measured_since
                              AND h.status = 'COMPLETED' AND h.action IN ('DIFFERENTIAL', 'FULL')
                              AND h.initiated_by <> 'INITIAL'
                            ORDER BY h.start_time DESC LIMIT 1000) AS k
                    WHERE k.differential IS NOT NULL AND k."full" IS NOT NULL) AS c
         WHERE s.pgt_schema <> 'pgtrickle_state' AND s.pgt_id = coalesce(wanted, s.pgt_id)
    ), judged AS (
        SELECT c.*, c.samples >= needed AND c.samples > 0 AS known,
               CASE WHEN c.refresh_mode = 'IMMEDIATE' OR c.downgrade_reason IS NOT NULL
                      OR c.samples < needed OR c.samples = 0 THEN c.refresh_mode
                    WHEN c.full_share >= 0.95 AND c."full" < enough * c.differential THEN 'FULL'
                    WHEN c.refresh_mode = 'FULL' AND c.better < enough * c."full" THEN 'AUTO'
                    WHEN c.refresh_mode = 'DIFFERENTIAL' AND c.better < enough * c.differential
                    THEN 'AUTO'
                    ELSE c.refresh_mode END AS recommended
          FROM compared AS c
    )
    SELECT format('%I.%I', j.pgt_schema, j.pgt_name), j.refresh_mode, j.effective_refresh_mode,
           j.recommended,
           CASE WHEN j.known THEN round(j.samples::numeric / (j.samples + needed), 3) ELSE 0 END
               ::double precision,
           CASE WHEN j.refresh_mode = 'IMMEDIATE' THEN 'its writers maintain it, and no refresh is measured'
                WHEN j.downgrade_reason IS NOT NULL
                THEN 'no delta can be derived for its query: ' || j.downgrade_reason
                WHEN NOT j.known
                THEN format('%s refreshes have a measured and a predicted time to compare, of the %s'
                            ' that it takes; AUTO compares at each refresh', j.samples,
                            greatest(needed, 1))
                WHEN j.recommended = 'FULL'
                THEN format('recomputing was or would have been quicker in %s %% of the refreshes',
                            round((j.full_share * 100)::numeric))
                WHEN j.recommended = j.refresh_mode THEN 'no other mode would save a tenth of the time'
                ELSE format('taking the quicker way each time would have saved %s %% of the time',
                            round((100 - 100 * j.better / CASE j.refresh_mode WHEN 'FULL' THEN j."full"
                                                          ELSE j.differential END)::numeric)) END,
           jsonb_build_object('samples', j.samples, 'differential_ms', j.differential,
                              'full_ms', j."full", 'quicker_of_both_ms', j.better,
                              'full_quicker_share', j.full_share)
      FROM judged AS j
     ORDER BY 1;
END
$$;

COMMENT ON FUNCTION pgtrickle.recommend_refresh_mode(text, name[]) IS
    'The refresh mode that the measured and predicted times of a stream table, or of all, speak for.';
