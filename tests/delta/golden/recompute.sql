-- case: the input of a window function, by partition
-- schema: a(id int, k int, n int)
SELECT a.id, sum(a.n) OVER (PARTITION BY a.k ORDER BY a.id) AS running FROM a
-- plan of part_1:
--   π[a_id, a_k, a_n](Δa)
-- reads:
--   a__changes, bounded by the window since the last refresh:
--     SELECT "id" AS "a_id", "k" AS "a_k", "n" AS "a_n", __weight FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)
-- query: SELECT "a_id", "a_k", "a_n", SUM("a_n") OVER (PARTITION BY "a_k" ORDER BY "a_id") AS "sum" FROM __input
-- delta:
SELECT `a_id` AS `a_id`, `a_k` AS `a_k`, `a_n` AS `a_n`, q1.`__weight` AS `__weight`
FROM {a__changes} AS q1
-- end

-- case: the first rows of the whole input
-- schema: a(id int, n int)
SELECT a.id FROM a ORDER BY a.n DESC LIMIT 3
-- plan of part_1:
--   π[id, sort](Δa)
-- reads:
--   a__changes, bounded by the window since the last refresh:
--     SELECT "id" AS "a_id", "n" AS "a_n", __weight FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)
-- query: SELECT "id", "sort" FROM __input ORDER BY "sort" DESC, "id", "sort" LIMIT (3)
-- delta:
SELECT `a_id` AS `id`, `a_n` AS `sort`, q1.`__weight` AS `__weight`
FROM {a__changes} AS q1
-- end

-- case: the first row for each outer row, in a lateral subquery
-- schema: a(id int), b(a_id int, n int)
SELECT a.id, s.n FROM (a CROSS JOIN LATERAL ( SELECT b.n FROM b WHERE (b.a_id = a.id) ORDER BY b.n LIMIT 1) s)
-- plan of group_1:
--   π[a_id_2](Δa)
-- reads:
--   a__changes, bounded by the window since the last refresh:
--     SELECT "id" AS "a_id", __weight FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)
-- delta:
SELECT * FROM (
SELECT `a_id_2`, COALESCE(SUM(`__weight`), 0) AS `__count`
FROM (
SELECT `a_id` AS `a_id_2`, q1.`__weight` AS `__weight`
FROM {a__changes} AS q1
) AS input
GROUP BY `a_id_2`
) AS changed
WHERE `__count` <> 0
-- plan of part_2:
--   π[outer, n](((π[a_id_2_2](Δgroup_1) ⋈["b_a_id" = "a_id_2_2"] b⁺) + (π[a_id_2_2](group_1⁻) ⋈["b_a_id" = "a_id_2_2"] Δb)))
-- reads:
--   group_1__changes, bounded by the changes of group_1:
--     SELECT "a_id_2" AS "a_id_2", __weight FROM "group_1__changes"
--   b__rows, bounded by "a_id" in the changes of group_1 ("a_id_2"):
--     SELECT "a_id" AS "b_a_id", "n" AS "b_n" FROM "public"."b" WHERE (("a_id" = ANY (:keys(group_1,a_id_2))))
--   group_1__rows, bounded by "a_id_2" in the changes of public.b ("a_id"):
--     SELECT "a_id_2" AS "a_id_2" FROM (SELECT * FROM st_1_group_1) AS stored WHERE (("a_id_2" = ANY (ARRAY(SELECT "a_id" FROM "pgtrickle_changes"."changes_2" WHERE (:window AND __weight <> 0)))))
--   b__changes, bounded by the window since the last refresh:
--     SELECT "a_id" AS "b_a_id", "n" AS "b_n", __weight FROM "pgtrickle_changes"."changes_2" WHERE (:window AND __weight <> 0)
-- query: SELECT "outer", "n" FROM (SELECT "outer", "n", row_number() OVER (PARTITION BY "outer" ORDER BY "n", "n") AS __number, rank() OVER (PARTITION BY "outer" ORDER BY "n") AS __rank FROM __input) AS numbered WHERE __number > 0 AND (1 IS NULL OR __number <= 0 + (1))
-- delta:
SELECT /* one partition */ `a_id_2_2` AS `outer`, `b_n` AS `n`, q7.`__weight` AS `__weight`
FROM (
  SELECT /* one partition */ `a_id_2_2`, `b_a_id`, `b_n`, q1.`__weight` AS `__weight`
  FROM (
    SELECT `a_id_2` AS `a_id_2_2`, q2.`__weight` AS `__weight`
    FROM {group_1__changes} AS q2
  ) AS q1
  JOIN {b__rows} AS q3 ON (`b_a_id` = `a_id_2_2`)
  UNION ALL
  SELECT /* one partition */ `a_id_2_2`, `b_a_id`, `b_n`, q4.`__weight` * q6.`__weight` AS `__weight`
  FROM (
    SELECT `a_id_2` AS `a_id_2_2`, 1 AS `__weight`
    FROM {group_1__rows} AS q5
  ) AS q4
  JOIN {b__changes} AS q6 ON (`b_a_id` = `a_id_2_2`)
) AS q7
-- plan of result:
--   π[a_id, n](((Δa ⋈["a_id" IS NOT DISTINCT FROM "outer"] part_2⁺) + (a⁻ ⋈["a_id" IS NOT DISTINCT FROM "outer"] Δpart_2)))
-- reads:
--   a__changes, bounded by the window since the last refresh:
--     SELECT "id" AS "a_id", __weight FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)
--   part_2__changes, bounded by the changes of part_2:
--     SELECT "outer" AS "outer", "n" AS "n", __weight FROM "part_2__changes"
--   part_2__rows, bounded by "outer" in the changes of public.a ("id"):
--     SELECT "outer" AS "outer", "n" AS "n" FROM (SELECT * FROM st_1_part_2) AS stored WHERE ((("outer" = ANY (ARRAY(SELECT "id" FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0))) OR "outer" IS NULL)))
--   a__rows, bounded by "id" in the changes of part_2 ("outer"):
--     SELECT "id" AS "a_id" FROM "public"."a" WHERE ((("id" = ANY (:keys(part_2,outer)) OR "id" IS NULL)))
-- delta:
SELECT /* one partition */ `a_id` AS `a_id`, `n` AS `n`, q5.`__weight` AS `__weight`
FROM (
  SELECT /* one partition */ `a_id`, `outer`, `n`, q1.`__weight` * q2.`__weight` AS `__weight`
  FROM {a__changes} AS q1
  JOIN {part_2__after} AS q2 ON (`a_id` <=> `outer`)
  UNION ALL
  SELECT /* one partition */ `a_id`, `outer`, `n`, q3.`__weight` * q4.`__weight` AS `__weight`
  FROM {a__before} AS q3
  JOIN {part_2__changes} AS q4 ON (`a_id` <=> `outer`)
) AS q5
-- end
