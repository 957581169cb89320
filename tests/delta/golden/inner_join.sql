-- case: both sides change in one refresh
-- schema: o(id int, cid int), c(id int, name text)
SELECT o.id, c.name FROM o JOIN c ON o.cid = c.id
-- plan of result:
--   ((Δo ⋈["o_cid" = "c_id"] c⁺) + (o⁻ ⋈["o_cid" = "c_id"] Δc))
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
SELECT /* one partition */ `o_id`, `o_cid`, `c_id`, `c_name`, q6.`__weight` AS `__weight`
FROM (
  SELECT /* one partition */ `o_id`, `o_cid`, `c_id`, `c_name`, q1.`__weight` AS `__weight`
  FROM {o__changes} AS q1
  JOIN {c__rows} AS q2 ON (`o_cid` = `c_id`)
  UNION ALL
  SELECT /* one partition */ `o_id`, `o_cid`, `c_id`, `c_name`, q3.`__weight` * q5.`__weight` AS `__weight`
  FROM (
    SELECT /* one partition */ `o_id`, `o_cid`, q4.`__weight` AS `__weight`
    FROM (
      SELECT `o_id`, `o_cid`, 1 AS `__weight` FROM {o__rows}
      UNION ALL
      SELECT `o_id`, `o_cid`, -`__weight` AS `__weight` FROM {o__changes}
    ) AS q4
  ) AS q3
  JOIN {c__changes} AS q5 ON (`o_cid` = `c_id`)
) AS q6
-- end

-- case: a bound travels along a chain of equalities
-- schema: c(id int, name text), o(id int, cid int, pid int), p(id int, label text)
SELECT c.name, p.label FROM c JOIN o ON o.cid = c.id JOIN p ON p.id = o.pid
-- plan of result:
--   ((((Δc ⋈["o_cid" = "c_id"] o⁺) + (c⁻ ⋈["o_cid" = "c_id"] Δo)) ⋈["p_id" = "o_pid"] p⁺) + ((c⁻ ⋈["o_cid" = "c_id"] o⁻) ⋈["p_id" = "o_pid"] Δp))
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
SELECT /* one partition */ `c_id`, `c_name`, `o_cid`, `o_pid`, `p_id`, `p_label`, q15.`__weight` AS `__weight`
FROM (
  SELECT /* one partition */ `c_id`, `c_name`, `o_cid`, `o_pid`, `p_id`, `p_label`, q1.`__weight` AS `__weight`
  FROM (
    SELECT /* one partition */ `c_id`, `c_name`, `o_cid`, `o_pid`, q7.`__weight` AS `__weight`
    FROM (
      SELECT /* one partition */ `c_id`, `c_name`, `o_cid`, `o_pid`, q2.`__weight` AS `__weight`
      FROM {c__changes} AS q2
      JOIN {o__rows} AS q3 ON (`o_cid` = `c_id`)
      UNION ALL
      SELECT /* one partition */ `c_id`, `c_name`, `o_cid`, `o_pid`, q4.`__weight` * q6.`__weight` AS `__weight`
      FROM (
        SELECT /* one partition */ `c_id`, `c_name`, q5.`__weight` AS `__weight`
        FROM (
          SELECT `c_id`, `c_name`, 1 AS `__weight` FROM {c__rows}
          UNION ALL
          SELECT `c_id`, `c_name`, -`__weight` AS `__weight` FROM {c__changes}
        ) AS q5
      ) AS q4
      JOIN {o__changes} AS q6 ON (`o_cid` = `c_id`)
    ) AS q7
  ) AS q1
  JOIN {p__rows} AS q8 ON (`p_id` = `o_pid`)
  UNION ALL
  SELECT /* one partition */ `c_id`, `c_name`, `o_cid`, `o_pid`, `p_id`, `p_label`, q9.`__weight` * q14.`__weight` AS `__weight`
  FROM (
    SELECT /* one partition */ `c_id`, `c_name`, `o_cid`, `o_pid`, q10.`__weight` * q12.`__weight` AS `__weight`
    FROM (
      SELECT /* one partition */ `c_id`, `c_name`, q11.`__weight` AS `__weight`
      FROM (
        SELECT `c_id`, `c_name`, 1 AS `__weight` FROM {c__rows}
        UNION ALL
        SELECT `c_id`, `c_name`, -`__weight` AS `__weight` FROM {c__changes}
      ) AS q11
    ) AS q10
    JOIN (
      SELECT /* one partition */ `o_cid`, `o_pid`, q13.`__weight` AS `__weight`
      FROM (
        SELECT `o_cid`, `o_pid`, 1 AS `__weight` FROM {o__rows}
        UNION ALL
        SELECT `o_cid`, `o_pid`, -`__weight` AS `__weight` FROM {o__changes}
      ) AS q13
    ) AS q12 ON (`o_cid` = `c_id`)
  ) AS q9
  JOIN {p__changes} AS q14 ON (`p_id` = `o_pid`)
) AS q15
-- end

-- case: without an equality the whole table is needed
-- schema: o(id int, total int), b(low int, high int)
SELECT o.id FROM o JOIN b ON o.total >= b.low AND o.total < b.high
-- plan of result:
--   ((Δo ⋈["o_total" >= "b_low" AND "o_total" < "b_high"] b⁺) + (o⁻ ⋈["o_total" >= "b_low" AND "o_total" < "b_high"] Δb))
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
SELECT /* one partition */ `o_id`, `o_total`, `b_low`, `b_high`, q6.`__weight` AS `__weight`
FROM (
  SELECT /* one partition */ `o_id`, `o_total`, `b_low`, `b_high`, q1.`__weight` AS `__weight`
  FROM {o__changes} AS q1
  JOIN {b__rows} AS q2 ON ((`o_total` >= `b_low`) AND (`o_total` < `b_high`))
  UNION ALL
  SELECT /* one partition */ `o_id`, `o_total`, `b_low`, `b_high`, q3.`__weight` * q5.`__weight` AS `__weight`
  FROM (
    SELECT /* one partition */ `o_id`, `o_total`, q4.`__weight` AS `__weight`
    FROM (
      SELECT `o_id`, `o_total`, 1 AS `__weight` FROM {o__rows}
      UNION ALL
      SELECT `o_id`, `o_total`, -`__weight` AS `__weight` FROM {o__changes}
    ) AS q4
  ) AS q3
  JOIN {b__changes} AS q5 ON ((`o_total` >= `b_low`) AND (`o_total` < `b_high`))
) AS q6
-- end
