-- case: a condition on one table goes down with the read
-- schema: o(id int, total int, note text)
SELECT o.id FROM o WHERE o.total > 9 AND o.note ~~ 'x%'::text
-- plan of result:
--   σ["total" > 9 AND "note" LIKE CAST('x%' AS TEXT)](Δo)
-- reads:
--   o__changes, bounded by the window since the last refresh:
--     SELECT "id" AS "o_id", __weight FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0) AND ("total" > 9 AND "note" LIKE CAST('x%' AS TEXT))
-- delta:
SELECT `o_id`, q1.`__weight` AS `__weight`
FROM {o__changes} AS q1
-- end

-- case: a condition across tables stays in the join, HAVING goes into the read of the state
-- schema: o(id int, cid int), c(id int, lim int)
SELECT g.cid FROM (SELECT o.cid, count(*) AS n FROM o GROUP BY o.cid HAVING count(*) > 2) g
JOIN c ON g.cid = c.id WHERE g.n > c.lim
-- plan of group_1:
--   π[o_cid_key](Δo)
-- reads:
--   o__changes, bounded by the window since the last refresh:
--     SELECT "cid" AS "o_cid", __weight FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)
-- delta:
SELECT * FROM (
SELECT `o_cid_key`, COALESCE(SUM(`__weight`), 0) AS `__count`
FROM (
SELECT `o_cid` AS `o_cid_key`, q1.`__weight` AS `__weight`
FROM {o__changes} AS q1
) AS input
GROUP BY `o_cid_key`
) AS changed
WHERE `__count` <> 0
-- plan of result:
--   π[o_cid_key](((σ["count" > 2](Δgroup_1) ⋈["o_cid_key" = "c_id" AND "count" > "c_lim"] c⁺) + (σ["count" > 2](group_1⁻) ⋈["o_cid_key" = "c_id" AND "count" > "c_lim"] Δc)))
-- reads:
--   group_1__changes, bounded by the changes of group_1:
--     SELECT "o_cid_key" AS "o_cid_key", "count" AS "count", __weight FROM "group_1__changes" WHERE ("count" > 2)
--   c__rows, bounded by "id" in the changes of group_1 ("o_cid_key"):
--     SELECT "id" AS "c_id", "lim" AS "c_lim" FROM "public"."c" WHERE (("id" = ANY (:keys(group_1,o_cid_key))))
--   group_1__rows, bounded by "o_cid_key" in the changes of public.c ("id"):
--     SELECT "o_cid_key" AS "o_cid_key", "count" AS "count" FROM (SELECT * FROM st_1_group_1) AS stored WHERE (("o_cid_key" = ANY (ARRAY(SELECT "id" FROM "pgtrickle_changes"."changes_2" WHERE (:window AND __weight <> 0))))) AND ("count" > 2)
--   c__changes, bounded by the window since the last refresh:
--     SELECT "id" AS "c_id", "lim" AS "c_lim", __weight FROM "pgtrickle_changes"."changes_2" WHERE (:window AND __weight <> 0)
-- delta:
SELECT /* one partition */ `o_cid_key` AS `o_cid_key`, q5.`__weight` AS `__weight`
FROM (
  SELECT /* one partition */ `o_cid_key`, `count`, `c_id`, `c_lim`, q1.`__weight` AS `__weight`
  FROM {group_1__changes} AS q1
  JOIN {c__rows} AS q2 ON ((`o_cid_key` = `c_id`) AND (`count` > `c_lim`))
  UNION ALL
  SELECT /* one partition */ `o_cid_key`, `count`, `c_id`, `c_lim`, q4.`__weight` AS `__weight`
  FROM {group_1__rows} AS q3
  JOIN {c__changes} AS q4 ON ((`o_cid_key` = `c_id`) AND (`count` > `c_lim`))
) AS q5
-- end
