-- 0017 · findings
--
-- Why:   health_check() returns a row for each finding, with evidence and a command.
-- Reads: nothing.
-- Locks: ACCESS EXCLUSIVE on the view quick_health, for a moment: it is made anew.
-- Undo:  DROP VIEW pgtrickle.quick_health; DROP FUNCTION pgtrickle.health_check(),
--        pgtrickle.list_findings(), pgtrickle.list_holding_snapshots(), pgtrickle.check_slot(),
--        pgtrickle.check_wraparound(double precision, double precision),
--        pgtrickle.list_long_transactions(interval); then migrate() of the version before.

DROP VIEW IF EXISTS pgtrickle.quick_health;

DROP FUNCTION IF EXISTS pgtrickle.health_check();
