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
SELECT /* one partition */ `id`, q3.`__weight` AS `__weight`
FROM (
  SELECT `a_x1` AS `id`, q1.`__weight` AS `__weight`
  FROM {a__changes} AS q1
  UNION ALL
  SELECT `b_id` AS `id`, q2.`__weight` AS `__weight`
  FROM {b__changes} AS q2
) AS q3
-- end
