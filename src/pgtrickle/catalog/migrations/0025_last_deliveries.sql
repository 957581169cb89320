-- 0025 · last deliveries
--
-- Why:   ducklake_sink_status says what the last delivery wrote, and how many attempts have failed.
-- Reads: nothing.
-- Locks: none on tables; callers of the function wait for a moment.
-- Undo:  DROP FUNCTION pgtrickle.ducklake_sink_status(); then migrate() of the version before.

DROP FUNCTION IF EXISTS pgtrickle.ducklake_sink_status();
