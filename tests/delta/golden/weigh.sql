-- case: EXCEPT ALL repeats rows by the difference of their numbers
-- schema: a(id int), b(id int)
SELECT a.id FROM a EXCEPT ALL SELECT b.id FROM b
-- plan of group_1:
--   (π[id, in_left, in_right](Δa) + π[id, in_left, in_right](Δb))
-- reads:
--   a__changes, bounded by the window since the last refresh:
--     SELECT "id" AS "a_id", __weight FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)
--   b__changes, bounded by the window since the last refresh:
--     SELECT "id" AS "b_id", __weight FROM "pgtrickle_changes"."changes_2" WHERE (:window AND __weight <> 0)
-- delta:
SELECT * FROM (
SELECT `id`, COALESCE(SUM(`__weight`), 0) AS `__count`, COALESCE(SUM(CASE WHEN `in_left` THEN `__weight` END), 0) AS `n1`, COALESCE(SUM(CASE WHEN `in_right` THEN `__weight` END), 0) AS `n2`
FROM (
SELECT /* one partition */ `id`, `in_left`, `in_right`, q3.`__weight` AS `__weight`
FROM (
  SELECT `a_id` AS `id`, TRUE AS `in_left`, FALSE AS `in_right`, q1.`__weight` AS `__weight`
  FROM {a__changes} AS q1
  UNION ALL
  SELECT `b_id` AS `id`, FALSE AS `in_left`, TRUE AS `in_right`, q2.`__weight` AS `__weight`
  FROM {b__changes} AS q2
) AS q3
) AS input
GROUP BY `id`
) AS changed
WHERE `__count` <> 0 OR `n1` <> 0 OR `n2` <> 0
-- plan of result:
--   π[id](("group_1_x1" · Δgroup_1))
-- reads:
--   group_1__changes, bounded by the changes of group_1:
--     SELECT "id" AS "id", GREATEST("count" - "count_2", 0) AS "group_1_x1", __weight FROM "group_1__changes"
-- delta:
SELECT `id` AS `id`, q1.`__weight` * `group_1_x1` AS `__weight`
FROM {group_1__changes} AS q1
-- end

-- case: an outer join on any condition adds the rows in no pair, as often as they occur
-- schema: a(id int), b(id int)
SELECT a.id, b.id AS other FROM (a LEFT JOIN b ON (a.id < b.id))
-- plan of group_1:
--   (π[a_id_2, in_left, in_right](Δa) + π[a_id_2, in_left, in_right](((Δa_2 ⋈["a_id_3" < "b_id"] b⁺) + (a_2⁻ ⋈["a_id_3" < "b_id"] Δb))))
-- reads:
--   a__changes, bounded by the window since the last refresh:
--     SELECT "id" AS "a_id", __weight FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)
--   a_2__changes, bounded by the window since the last refresh:
--     SELECT "id" AS "a_id_3", __weight FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)
--   b__rows, bounded by nothing: every row is read:
--     SELECT "id" AS "b_id" FROM "public"."b"
--   a_2__rows, bounded by nothing: every row is read:
--     SELECT "id" AS "a_id_3" FROM "public"."a"
--   b__changes, bounded by the window since the last refresh:
--     SELECT "id" AS "b_id", __weight FROM "pgtrickle_changes"."changes_2" WHERE (:window AND __weight <> 0)
-- delta:
SELECT * FROM (
SELECT `a_id_2`, COALESCE(SUM(`__weight`), 0) AS `__count`, COALESCE(SUM(CASE WHEN `in_left` THEN `__weight` END), 0) AS `n1`, COALESCE(SUM(CASE WHEN `in_right` THEN `__weight` END), 0) AS `n2`
FROM (
SELECT /* one partition */ `a_id_2`, `in_left`, `in_right`, q7.`__weight` AS `__weight`
FROM (
  SELECT `a_id` AS `a_id_2`, TRUE AS `in_left`, FALSE AS `in_right`, q1.`__weight` AS `__weight`
  FROM {a__changes} AS q1
  UNION ALL
  SELECT /* one partition */ `a_id_3` AS `a_id_2`, FALSE AS `in_left`, TRUE AS `in_right`, q6.`__weight` AS `__weight`
  FROM (
    SELECT /* one partition */ `a_id_3`, `b_id`, q2.`__weight` AS `__weight`
    FROM {a_2__changes} AS q2
    JOIN {b__rows} AS q3 ON (`a_id_3` < `b_id`)
    UNION ALL
    SELECT /* one partition */ `a_id_3`, `b_id`, q4.`__weight` * q5.`__weight` AS `__weight`
    FROM {a_2__before} AS q4
    JOIN {b__changes} AS q5 ON (`a_id_3` < `b_id`)
  ) AS q6
) AS q7
) AS input
GROUP BY `a_id_2`
) AS changed
WHERE `__count` <> 0 OR `n1` <> 0 OR `n2` <> 0
-- plan of result:
--   (π[a_id_3, b_id_2](((Δa ⋈["a_id" < "b_id"] b⁺) + (a⁻ ⋈["a_id" < "b_id"] Δb))) + π[a_id_3, b_id_2](π[a_id](("count" · σ["count" > 0 AND "count_2" = 0](Δgroup_1)))))
-- reads:
--   a__changes, bounded by the window since the last refresh:
--     SELECT "id" AS "a_id", __weight FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)
--   b__rows, bounded by nothing: every row is read:
--     SELECT "id" AS "b_id" FROM "public"."b"
--   a__rows, bounded by nothing: every row is read:
--     SELECT "id" AS "a_id" FROM "public"."a"
--   b__changes, bounded by the window since the last refresh:
--     SELECT "id" AS "b_id", __weight FROM "pgtrickle_changes"."changes_2" WHERE (:window AND __weight <> 0)
--   group_1__changes, bounded by the changes of group_1:
--     SELECT "a_id_2" AS "a_id_2", "count" AS "count", __weight FROM "group_1__changes" WHERE ("count" > 0 AND "count_2" = 0)
-- delta:
SELECT /* one partition */ `a_id_3`, `b_id_2`, q8.`__weight` AS `__weight`
FROM (
  SELECT /* one partition */ `a_id` AS `a_id_3`, `b_id` AS `b_id_2`, q5.`__weight` AS `__weight`
  FROM (
    SELECT /* one partition */ `a_id`, `b_id`, q1.`__weight` AS `__weight`
    FROM {a__changes} AS q1
    JOIN {b__rows} AS q2 ON (`a_id` < `b_id`)
    UNION ALL
    SELECT /* one partition */ `a_id`, `b_id`, q3.`__weight` * q4.`__weight` AS `__weight`
    FROM {a__before} AS q3
    JOIN {b__changes} AS q4 ON (`a_id` < `b_id`)
  ) AS q5
  UNION ALL
  SELECT `a_id` AS `a_id_3`, CAST(NULL AS INT) AS `b_id_2`, q6.`__weight` AS `__weight`
  FROM (
    SELECT `a_id_2` AS `a_id`, q7.`__weight` * `count` AS `__weight`
    FROM {group_1__changes} AS q7
  ) AS q6
) AS q8
-- end
