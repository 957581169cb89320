-- case: what reads one table is computed there, what reads two above
-- schema: o(id int, cid int, qty int), c(id int, fee int)
SELECT DISTINCT abs(o.qty) + c.fee AS total FROM o JOIN c ON o.cid = c.id
-- plan of group_1:
--   π[total](((Δo ⋈["o_cid" = "c_id"] c⁺) + (o⁻ ⋈["o_cid" = "c_id"] Δc)))
-- reads:
--   o__changes, bounded by the window since the last refresh:
--     SELECT "cid" AS "o_cid", "qty" AS "o_qty", __weight FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)
--   c__rows, bounded by "id" in the changes of public.o ("cid"):
--     SELECT "id" AS "c_id", "fee" AS "c_fee" FROM "public"."c" WHERE (("id" = ANY (ARRAY(SELECT "cid" FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)))))
--   o__rows, bounded by "cid" in the changes of public.c ("id"):
--     SELECT "cid" AS "o_cid", "qty" AS "o_qty" FROM "public"."o" WHERE (("cid" = ANY (ARRAY(SELECT "id" FROM "pgtrickle_changes"."changes_2" WHERE (:window AND __weight <> 0)))))
--   c__changes, bounded by the window since the last refresh:
--     SELECT "id" AS "c_id", "fee" AS "c_fee", __weight FROM "pgtrickle_changes"."changes_2" WHERE (:window AND __weight <> 0)
-- delta:
SELECT * FROM (
SELECT `total`, COALESCE(SUM(`__weight`), 0) AS `__count`
FROM (
SELECT /* one partition */ (abs(`o_qty`) + `c_fee`) AS `total`, q5.`__weight` AS `__weight`
FROM (
  SELECT /* one partition */ `o_cid`, `o_qty`, `c_id`, `c_fee`, q1.`__weight` AS `__weight`
  FROM {o__changes} AS q1
  JOIN {c__rows} AS q2 ON (`o_cid` = `c_id`)
  UNION ALL
  SELECT /* one partition */ `o_cid`, `o_qty`, `c_id`, `c_fee`, q3.`__weight` * q4.`__weight` AS `__weight`
  FROM {o__before} AS q3
  JOIN {c__changes} AS q4 ON (`o_cid` = `c_id`)
) AS q5
) AS input
GROUP BY `total`
) AS changed
WHERE `__count` <> 0
-- end
