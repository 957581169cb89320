-- case: each branch contributes its own change
-- schema: a(id int), b(id bigint)
SELECT a.id FROM a UNION ALL SELECT b.id FROM b
-- plan of result:
--   (π[id](Δa) + π[id](Δb))
-- reads:
--   a__changes, bounded by the window since the last refresh:
--     SELECT CAST("id" AS BIGINT) AS "a_x1", __weight FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)
--   b__changes, bounded by the window since the last refresh:
--     SELECT "id" AS "b_id", __weight FROM "pgtrickle_changes"."changes_2" WHERE (:window AND __weight <> 0)
-- delta:
SELECT /* one partition */ `id`, `__weight` FROM (
  SELECT `id`, `__weight`
  FROM (
    SELECT `a_x1` AS `id`, `__weight`
    FROM (
      SELECT `a_x1`, `__weight`
      FROM {a__changes}
    ) AS q1
  ) AS q2
  UNION ALL
  SELECT `id`, `__weight`
  FROM (
    SELECT `b_id` AS `id`, `__weight`
    FROM (
      SELECT `b_id`, `__weight`
      FROM {b__changes}
    ) AS q3
  ) AS q4
) AS q5
-- end
