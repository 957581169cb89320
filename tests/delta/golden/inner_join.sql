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
SELECT /* one partition */ `o_id`, `o_cid`, `c_id`, `c_name`, `__weight` FROM (
  SELECT `o_id`, `o_cid`, `c_id`, `c_name`, `__weight`
  FROM (
    SELECT /* one partition */ q1.`o_id`, q1.`o_cid`, q2.`c_id`, q2.`c_name`, q1.`__weight` * q2.`__weight` AS `__weight`
    FROM (
      SELECT `o_id`, `o_cid`, `__weight`
      FROM {o__changes}
    ) AS q1
    JOIN (
      SELECT `c_id`, `c_name`, 1 AS `__weight` FROM {c__rows}
    ) AS q2
    ON (`o_cid` = `c_id`)
  ) AS q3
  UNION ALL
  SELECT `o_id`, `o_cid`, `c_id`, `c_name`, `__weight`
  FROM (
    SELECT /* one partition */ q4.`o_id`, q4.`o_cid`, q5.`c_id`, q5.`c_name`, q4.`__weight` * q5.`__weight` AS `__weight`
    FROM (
      SELECT /* one partition */ `o_id`, `o_cid`, `__weight` FROM (
        SELECT `o_id`, `o_cid`, 1 AS `__weight` FROM {o__rows}
        UNION ALL
        SELECT `o_id`, `o_cid`, -`__weight` AS `__weight` FROM {o__changes}
      ) AS q6
    ) AS q4
    JOIN (
      SELECT `c_id`, `c_name`, `__weight`
      FROM {c__changes}
    ) AS q5
    ON (`o_cid` = `c_id`)
  ) AS q7
) AS q8
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
SELECT /* one partition */ `c_id`, `c_name`, `o_cid`, `o_pid`, `p_id`, `p_label`, `__weight` FROM (
  SELECT `c_id`, `c_name`, `o_cid`, `o_pid`, `p_id`, `p_label`, `__weight`
  FROM (
    SELECT /* one partition */ q1.`c_id`, q1.`c_name`, q1.`o_cid`, q1.`o_pid`, q2.`p_id`, q2.`p_label`, q1.`__weight` * q2.`__weight` AS `__weight`
    FROM (
      SELECT /* one partition */ `c_id`, `c_name`, `o_cid`, `o_pid`, `__weight` FROM (
        SELECT `c_id`, `c_name`, `o_cid`, `o_pid`, `__weight`
        FROM (
          SELECT /* one partition */ q3.`c_id`, q3.`c_name`, q4.`o_cid`, q4.`o_pid`, q3.`__weight` * q4.`__weight` AS `__weight`
          FROM (
            SELECT `c_id`, `c_name`, `__weight`
            FROM {c__changes}
          ) AS q3
          JOIN (
            SELECT `o_cid`, `o_pid`, 1 AS `__weight` FROM {o__rows}
          ) AS q4
          ON (`o_cid` = `c_id`)
        ) AS q5
        UNION ALL
        SELECT `c_id`, `c_name`, `o_cid`, `o_pid`, `__weight`
        FROM (
          SELECT /* one partition */ q6.`c_id`, q6.`c_name`, q7.`o_cid`, q7.`o_pid`, q6.`__weight` * q7.`__weight` AS `__weight`
          FROM (
            SELECT /* one partition */ `c_id`, `c_name`, `__weight` FROM (
              SELECT `c_id`, `c_name`, 1 AS `__weight` FROM {c__rows}
              UNION ALL
              SELECT `c_id`, `c_name`, -`__weight` AS `__weight` FROM {c__changes}
            ) AS q8
          ) AS q6
          JOIN (
            SELECT `o_cid`, `o_pid`, `__weight`
            FROM {o__changes}
          ) AS q7
          ON (`o_cid` = `c_id`)
        ) AS q9
      ) AS q10
    ) AS q1
    JOIN (
      SELECT `p_id`, `p_label`, 1 AS `__weight` FROM {p__rows}
    ) AS q2
    ON (`p_id` = `o_pid`)
  ) AS q11
  UNION ALL
  SELECT `c_id`, `c_name`, `o_cid`, `o_pid`, `p_id`, `p_label`, `__weight`
  FROM (
    SELECT /* one partition */ q12.`c_id`, q12.`c_name`, q12.`o_cid`, q12.`o_pid`, q13.`p_id`, q13.`p_label`, q12.`__weight` * q13.`__weight` AS `__weight`
    FROM (
      SELECT /* one partition */ q14.`c_id`, q14.`c_name`, q15.`o_cid`, q15.`o_pid`, q14.`__weight` * q15.`__weight` AS `__weight`
      FROM (
        SELECT /* one partition */ `c_id`, `c_name`, `__weight` FROM (
          SELECT `c_id`, `c_name`, 1 AS `__weight` FROM {c__rows}
          UNION ALL
          SELECT `c_id`, `c_name`, -`__weight` AS `__weight` FROM {c__changes}
        ) AS q16
      ) AS q14
      JOIN (
        SELECT /* one partition */ `o_cid`, `o_pid`, `__weight` FROM (
          SELECT `o_cid`, `o_pid`, 1 AS `__weight` FROM {o__rows}
          UNION ALL
          SELECT `o_cid`, `o_pid`, -`__weight` AS `__weight` FROM {o__changes}
        ) AS q17
      ) AS q15
      ON (`o_cid` = `c_id`)
    ) AS q12
    JOIN (
      SELECT `p_id`, `p_label`, `__weight`
      FROM {p__changes}
    ) AS q13
    ON (`p_id` = `o_pid`)
  ) AS q18
) AS q19
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
SELECT /* one partition */ `o_id`, `o_total`, `b_low`, `b_high`, `__weight` FROM (
  SELECT `o_id`, `o_total`, `b_low`, `b_high`, `__weight`
  FROM (
    SELECT /* one partition */ q1.`o_id`, q1.`o_total`, q2.`b_low`, q2.`b_high`, q1.`__weight` * q2.`__weight` AS `__weight`
    FROM (
      SELECT `o_id`, `o_total`, `__weight`
      FROM {o__changes}
    ) AS q1
    JOIN (
      SELECT `b_low`, `b_high`, 1 AS `__weight` FROM {b__rows}
    ) AS q2
    ON ((`o_total` >= `b_low`) AND (`o_total` < `b_high`))
  ) AS q3
  UNION ALL
  SELECT `o_id`, `o_total`, `b_low`, `b_high`, `__weight`
  FROM (
    SELECT /* one partition */ q4.`o_id`, q4.`o_total`, q5.`b_low`, q5.`b_high`, q4.`__weight` * q5.`__weight` AS `__weight`
    FROM (
      SELECT /* one partition */ `o_id`, `o_total`, `__weight` FROM (
        SELECT `o_id`, `o_total`, 1 AS `__weight` FROM {o__rows}
        UNION ALL
        SELECT `o_id`, `o_total`, -`__weight` AS `__weight` FROM {o__changes}
      ) AS q6
    ) AS q4
    JOIN (
      SELECT `b_low`, `b_high`, `__weight`
      FROM {b__changes}
    ) AS q5
    ON ((`o_total` >= `b_low`) AND (`o_total` < `b_high`))
  ) AS q7
) AS q8
-- end
