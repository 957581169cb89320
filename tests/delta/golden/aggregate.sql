-- case: sums and counts change by addition
-- schema: o(cid int, qty int)
SELECT o.cid, count(*) AS n, sum(o.qty) AS total FROM o GROUP BY o.cid
-- plan of group_1:
--   π[o_cid_key, o_qty_in](Δo)
-- reads:
--   o__changes, bounded by the window since the last refresh:
--     SELECT "cid" AS "o_cid", "qty" AS "o_qty", __weight FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)
-- delta:
SELECT * FROM (
SELECT `o_cid_key`, COALESCE(SUM(`__weight`), 0) AS `__count`, COALESCE(SUM(CASE WHEN `o_qty_in` IS NOT NULL THEN `__weight` END), 0) AS `n1`, COALESCE(SUM(CASE WHEN `o_qty_in` IS NOT NULL THEN CAST(`o_qty_in` AS BIGINT) * `__weight` END), 0) AS `s2`
FROM (
SELECT `o_cid` AS `o_cid_key`, `o_qty` AS `o_qty_in`, q1.`__weight` AS `__weight`
FROM {o__changes} AS q1
) AS input
GROUP BY `o_cid_key`
) AS changed
WHERE `__count` <> 0 OR `n1` <> 0 OR `s2` <> 0
-- end

-- case: extrema and distinct values are counted one by one
-- schema: o(cid int, qty int, note text)
SELECT o.cid, max(o.qty) AS top, count(DISTINCT o.note) FILTER (WHERE o.qty > 0) AS notes
FROM o GROUP BY o.cid
-- plan of group_1:
--   π[o_cid_key, o_qty_in, filter_in, o_note_in](Δo)
-- reads:
--   o__changes, bounded by the window since the last refresh:
--     SELECT "cid" AS "o_cid", "qty" AS "o_qty", "note" AS "o_note", "qty" > 0 AS "o_x1", __weight FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)
-- delta:
SELECT * FROM (
SELECT `o_cid_key`, `o_qty_in`, `o_note_in`, COALESCE(SUM(`__weight`), 0) AS `__count`, COALESCE(SUM(CASE WHEN `o_qty_in` IS NOT NULL THEN `__weight` END), 0) AS `v1__n`, COALESCE(SUM(CASE WHEN `o_note_in` IS NOT NULL AND `filter_in` THEN `__weight` END), 0) AS `v2__n`
FROM (
SELECT `o_cid` AS `o_cid_key`, `o_qty` AS `o_qty_in`, `o_x1` AS `filter_in`, `o_note` AS `o_note_in`, q1.`__weight` AS `__weight`
FROM {o__changes} AS q1
) AS input
GROUP BY `o_cid_key`, `o_qty_in`, `o_note_in`
) AS changed
WHERE `__count` <> 0 OR `v1__n` <> 0 OR `v2__n` <> 0
-- end

-- case: an aggregate over an aggregate reads the changes of the first
-- schema: o(cid int, qty int)
SELECT g.n, count(*) AS customers FROM (SELECT o.cid, count(*) AS n FROM o GROUP BY o.cid) g
GROUP BY g.n
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
-- plan of group_2:
--   π[count_key](Δgroup_1)
-- reads:
--   group_1__changes, bounded by the changes of group_1:
--     SELECT "count" AS "count", __weight FROM "group_1__changes"
-- delta:
SELECT * FROM (
SELECT `count_key`, COALESCE(SUM(`__weight`), 0) AS `__count`
FROM (
SELECT `count` AS `count_key`, q1.`__weight` AS `__weight`
FROM {group_1__changes} AS q1
) AS input
GROUP BY `count_key`
) AS changed
WHERE `__count` <> 0
-- end

-- case: without keys there is one group
-- schema: o(qty int)
SELECT count(*) AS n, avg(o.qty) AS average FROM o
-- plan of group_1:
--   π[o_qty_in](Δo)
-- reads:
--   o__changes, bounded by the window since the last refresh:
--     SELECT "qty" AS "o_qty", __weight FROM "pgtrickle_changes"."changes_1" WHERE (:window AND __weight <> 0)
-- delta:
SELECT COALESCE(SUM(`__weight`), 0) AS `__count`, COALESCE(SUM(CASE WHEN `o_qty_in` IS NOT NULL THEN `__weight` END), 0) AS `n1`, COALESCE(SUM(CASE WHEN `o_qty_in` IS NOT NULL THEN CAST(`o_qty_in` AS BIGINT) * `__weight` END), 0) AS `s2`
FROM (
SELECT `o_qty` AS `o_qty_in`, q1.`__weight` AS `__weight`
FROM {o__changes} AS q1
) AS input
-- end
