-- case: only the columns in use are read
-- schema: o(id int, cid int, note text)
SELECT o.cid FROM o
-- plan of result:
--   Δo
-- reads:
--   o__changes, bounded by the window since the last refresh:
--     SELECT "cid" AS "o_cid", __weight FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)
-- delta:
SELECT `o_cid`, q1.`__weight` AS `__weight`
FROM {o__changes} AS q1
-- end
