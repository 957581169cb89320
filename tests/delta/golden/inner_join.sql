-- case: both sides change in one refresh
-- schema: o(id int, cid int), c(id int, name text)
SELECT o.id, c.name FROM o JOIN c ON o.cid = c.id
-- plan of result:
--   π[o_id, c_name](((Δo ⋈["o_cid" = "c_id"] c⁺) + (o⁻ ⋈["o_cid" = "c_id"] Δc)))
-- reads:
--   o__changes, bounded by the window since the last refresh:
--     SELECT "id" AS "o_id", "cid" AS "o_cid", __weight FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)
--   c__rows, bounded by "id" in the changes of public.o ("cid"):
--     SELECT "id" AS "c_id", "name" AS "c_name" FROM "public"."c" WHERE (("id" = ANY (ARRAY(SELECT "cid" FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)))))
--   o__rows, bounded by "cid" in the changes of public.c ("id"):
--     SELECT "id" AS "o_id", "cid" AS "o_cid" FROM "public"."o" WHERE (("cid" = ANY (ARRAY(SELECT "id" FROM "pgtrickle_changes"."changes_2" WHERE (:window AND __weight <> 0)))))
--   c__changes, bounded by the window since the last refresh:
--     SELECT "id" AS "c_id", "name" AS "c_name", __weight FROM "pgtrickle_changes"."changes_2" WHERE (:window AND __weight <> 0)
-- delta:
SELECT /* one partition */ `o_id` AS `o_id`, `c_name` AS `c_name`, q5.`__weight` AS `__weight`
FROM (
  SELECT /* one partition */ `o_id`, `o_cid`, `c_id`, `c_name`, q1.`__weight` AS `__weight`
  FROM {o__changes} AS q1
  JOIN {c__rows} AS q2 ON (`o_cid` = `c_id`)
  UNION ALL
  SELECT /* one partition */ `o_id`, `o_cid`, `c_id`, `c_name`, q3.`__weight` * q4.`__weight` AS `__weight`
  FROM {o__before} AS q3
  JOIN {c__changes} AS q4 ON (`o_cid` = `c_id`)
) AS q5
-- end

-- case: a bound travels along a chain of equalities
-- schema: c(id int, name text), o(id int, cid int, pid int), p(id int, label text)
SELECT c.name, p.label FROM c JOIN o ON o.cid = c.id JOIN p ON p.id = o.pid
-- plan of result:
--   π[c_name, p_label](((((Δc ⋈["o_cid" = "c_id"] o⁺) + (c⁻ ⋈["o_cid" = "c_id"] Δo)) ⋈["p_id" = "o_pid"] p⁺) + ((c⁻ ⋈["o_cid" = "c_id"] o⁻) ⋈["p_id" = "o_pid"] Δp)))
-- reads:
--   c__changes, bounded by the window since the last refresh:
--     SELECT "id" AS "c_id", "name" AS "c_name", __weight FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)
--   o__rows, bounded by "cid" in the changes of public.c ("id"); or "pid" in the changes of public.p ("id"):
--     SELECT "cid" AS "o_cid", "pid" AS "o_pid" FROM "public"."o" WHERE (("cid" = ANY (ARRAY(SELECT "id" FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)))) OR ("pid" = ANY (ARRAY(SELECT "id" FROM "pgtrickle_changes"."changes_3" WHERE (:window AND __weight <> 0)))))
--   c__rows, bounded by "id" in the changes of public.o ("cid"); or "id" in "cid" of public.o where "pid" in the changes of public.p ("id") or the changes of public.o ("cid"):
--     SELECT "id" AS "c_id", "name" AS "c_name" FROM "public"."c" WHERE (("id" = ANY (ARRAY(SELECT "cid" FROM "pgtrickle_changes"."changes_2" WHERE (:window AND __weight <> 0)))) OR ("id" = ANY (ARRAY(SELECT "cid" FROM "public"."o" WHERE (("pid" = ANY (ARRAY(SELECT "id" FROM "pgtrickle_changes"."changes_3" WHERE (:window AND __weight <> 0)))))) || ARRAY(SELECT "cid" FROM "pgtrickle_changes"."changes_2" WHERE (:window AND __weight <> 0)))))
--   o__changes, bounded by the window since the last refresh:
--     SELECT "cid" AS "o_cid", "pid" AS "o_pid", __weight FROM "pgtrickle_changes"."changes_2" WHERE (:window AND __weight <> 0)
--   p__rows, bounded by "id" in "pid" of public.o where "cid" in the changes of public.c ("id") or the changes of public.o ("pid"):
--     SELECT "id" AS "p_id", "label" AS "p_label" FROM "public"."p" WHERE (("id" = ANY (ARRAY(SELECT "pid" FROM "public"."o" WHERE (("cid" = ANY (ARRAY(SELECT "id" FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)))))) || ARRAY(SELECT "pid" FROM "pgtrickle_changes"."changes_2" WHERE (:window AND __weight <> 0)))))
--   p__changes, bounded by the window since the last refresh:
--     SELECT "id" AS "p_id", "label" AS "p_label", __weight FROM "pgtrickle_changes"."changes_3" WHERE (:window AND __weight <> 0)
-- delta:
SELECT /* one partition */ `c_name` AS `c_name`, `p_label` AS `p_label`, q12.`__weight` AS `__weight`
FROM (
  SELECT /* one partition */ `c_id`, `c_name`, `o_cid`, `o_pid`, `p_id`, `p_label`, q1.`__weight` AS `__weight`
  FROM (
    SELECT /* one partition */ `c_id`, `c_name`, `o_cid`, `o_pid`, q6.`__weight` AS `__weight`
    FROM (
      SELECT /* one partition */ `c_id`, `c_name`, `o_cid`, `o_pid`, q2.`__weight` AS `__weight`
      FROM {c__changes} AS q2
      JOIN {o__rows} AS q3 ON (`o_cid` = `c_id`)
      UNION ALL
      SELECT /* one partition */ `c_id`, `c_name`, `o_cid`, `o_pid`, q4.`__weight` * q5.`__weight` AS `__weight`
      FROM {c__before} AS q4
      JOIN {o__changes} AS q5 ON (`o_cid` = `c_id`)
    ) AS q6
  ) AS q1
  JOIN {p__rows} AS q7 ON (`p_id` = `o_pid`)
  UNION ALL
  SELECT /* one partition */ `c_id`, `c_name`, `o_cid`, `o_pid`, `p_id`, `p_label`, q8.`__weight` * q11.`__weight` AS `__weight`
  FROM (
    SELECT /* one partition */ `c_id`, `c_name`, `o_cid`, `o_pid`, q9.`__weight` * q10.`__weight` AS `__weight`
    FROM {c__before} AS q9
    JOIN {o__before} AS q10 ON (`o_cid` = `c_id`)
  ) AS q8
  JOIN {p__changes} AS q11 ON (`p_id` = `o_pid`)
) AS q12
-- end

-- case: a value that changed bounds what is compared with it, by its range
-- schema: o(id int, total numeric)
SELECT o.id FROM o WHERE o.total > (SELECT avg(p.total) FROM o p)
-- plan of group_1:
--   π[p_total_in, p_total_in_scale](Δp)
-- reads:
--   p__changes, bounded by the window since the last refresh:
--     SELECT "total" AS "p_total", SCALE("total") AS "p_total_scale", __weight FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)
-- delta:
SELECT * FROM (
SELECT `p_total_in_scale`, COALESCE(SUM(`__weight`), 0) AS `__count`, COALESCE(SUM(CASE WHEN `p_total_in` IS NOT NULL THEN `__weight` END), 0) AS `n1`, COALESCE(SUM(CASE WHEN `p_total_in` IS NOT NULL THEN `p_total_in` * `__weight` END), 0) AS `s2`, COALESCE(SUM(CASE WHEN `p_total_in` IS NOT NULL THEN `__weight` END), 0) AS `v1__n`
FROM (
SELECT `p_total` AS `p_total_in`, `p_total_scale` AS `p_total_in_scale`, q1.`__weight` AS `__weight`
FROM {p__changes} AS q1
) AS input
GROUP BY `p_total_in_scale`
) AS changed
WHERE `__count` <> 0 OR `n1` <> 0 OR `s2` <> 0 OR `v1__n` <> 0
-- plan of result:
--   π[o_id](((Δo ⋈["o_total" > "avg"] group_1⁺) + (o⁻ ⋈["o_total" > "avg"] Δgroup_1)))
-- reads:
--   o__changes, bounded by the window since the last refresh:
--     SELECT "id" AS "o_id", "total" AS "o_total", __weight FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)
--   group_1__changes, bounded by the changes of group_1:
--     SELECT "avg" AS "avg", __weight FROM "group_1__changes"
--   group_1__rows, bounded by nothing: every row is read:
--     SELECT "avg" AS "avg" FROM (SELECT * FROM st_1_group_1) AS stored
--   o__rows, bounded by "total" between the values of "avg" in the changes of group_1:
--     SELECT "id" AS "o_id", "total" AS "o_total" FROM "public"."o" WHERE ((:range_0))
-- delta:
SELECT /* one partition */ `o_id` AS `o_id`, q5.`__weight` AS `__weight`
FROM (
  SELECT /* one partition */ `o_id`, `o_total`, `avg`, q1.`__weight` * q2.`__weight` AS `__weight`
  FROM {o__changes} AS q1
  JOIN {group_1__after} AS q2 ON (`o_total` > `avg`)
  UNION ALL
  SELECT /* one partition */ `o_id`, `o_total`, `avg`, q3.`__weight` * q4.`__weight` AS `__weight`
  FROM {o__before} AS q3
  JOIN {group_1__changes} AS q4 ON (`o_total` > `avg`)
) AS q5
-- end

-- case: without an equality the whole table is needed
-- schema: o(id int, total int), b(low int, high int)
SELECT o.id FROM o JOIN b ON o.total >= b.low AND o.total < b.high
-- plan of result:
--   π[o_id](((Δo ⋈["o_total" >= "b_low" AND "o_total" < "b_high"] b⁺) + (o⁻ ⋈["o_total" >= "b_low" AND "o_total" < "b_high"] Δb)))
-- reads:
--   o__changes, bounded by the window since the last refresh:
--     SELECT "id" AS "o_id", "total" AS "o_total", __weight FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)
--   b__rows, bounded by nothing: every row is read:
--     SELECT "low" AS "b_low", "high" AS "b_high" FROM "public"."b"
--   o__rows, bounded by nothing: every row is read:
--     SELECT "id" AS "o_id", "total" AS "o_total" FROM "public"."o"
--   b__changes, bounded by the window since the last refresh:
--     SELECT "low" AS "b_low", "high" AS "b_high", __weight FROM "pgtrickle_changes"."changes_2" WHERE (:window AND __weight <> 0)
-- delta:
SELECT /* one partition */ `o_id` AS `o_id`, q5.`__weight` AS `__weight`
FROM (
  SELECT /* one partition */ `o_id`, `o_total`, `b_low`, `b_high`, q1.`__weight` AS `__weight`
  FROM {o__changes} AS q1
  JOIN {b__rows} AS q2 ON ((`o_total` >= `b_low`) AND (`o_total` < `b_high`))
  UNION ALL
  SELECT /* one partition */ `o_id`, `o_total`, `b_low`, `b_high`, q3.`__weight` * q4.`__weight` AS `__weight`
  FROM {o__before} AS q3
  JOIN {b__changes} AS q4 ON ((`o_total` >= `b_low`) AND (`o_total` < `b_high`))
) AS q5
-- end
